// What differs between the winners of two databases, or of two runtimes (drivers) in one. Pure
// functions over values.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cache/records/measurements.h"

namespace kiln {

enum class RowChange : std::uint8_t { same, faster, slower, only_old, only_new };
std::string_view name(RowChange change);

/// One problem on one device.
struct DiffRow {
  BestKey key;
  std::optional<StoredMeasurement> older, newer;
  bool other_winner = false;  // both have one, of different configs
  /// Of two times: faster and slower are said where the 95 % intervals do not overlap and each has
  /// six samples or more (of fewer, the interval is their range).
  RowChange change = RowChange::same;
  double ratio = 0;  // the old time divided by the new one: 1.1 is 10 % faster; 0: not both timed
  double low = 0, high = 0;  // what it is at least and at most, by the intervals
};

/// Winners as Measurements::each() gives them. Of several of one key, those of different
/// toolchains, the newest counts, as in look-ups. Rows are in the order of devices and problems.
std::vector<DiffRow> diff_winners(std::vector<StoredMeasurement> older,
                                  std::vector<StoredMeasurement> newer);

/// Geometric mean of the ratios of rows with two times; 1 for none.
double mean_ratio(const std::vector<DiffRow>& rows);

}  // namespace kiln
