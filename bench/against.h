// `kiln bench --against`: a race beside the rows of an earlier one, and what of the difference is
// more than noise. Pure functions over results.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/report.h"

namespace kiln {

/// A row of an earlier `kiln bench --json`.
struct EarlierRow {
  std::string shape;  // the line of its problem
  int threads = 1;
  std::string device, policy;
  Timing kiln;
  std::map<std::string, double> peers;          // medians, in nanoseconds
  std::map<std::string, std::string> versions;  // of the peers; none in files of older kilns
};

/// The rows of such a file; lines of summaries, machines and failures are left out, and of rows of
/// the same shape, device and thread count the last is taken. Errors: bad_input, "name:line: …",
/// naming the field; bad_input where there is no row.
Result<std::vector<EarlierRow>> parse_earlier(std::string_view text, std::string_view name);

struct AgainstOptions {
  double tolerance = 0.02;  ///< a difference of that share counts for nothing
  double level = 0.05;      ///< chance that a file without any difference is said to have one
};

/// How a row's time changed.
enum class Trend { slower, faster, same, unknown };
std::string_view name(Trend trend);

struct Change {
  std::string shape;
  int threads = 1;
  Timing before, now;
  double p = 1;  // corrected for the number of rows
  Trend trend = Trend::unknown;
  std::string why;  // of unknown

  /// now / before.
  double ratio() const { return now.median_ns / before.median_ns; }
};

struct Against {
  std::vector<Change> changes;       // rows that both have, in the new one's order
  std::vector<std::string> missing;  // rows of the earlier file that were not raced now
  double ratio = 0;                  // geometric mean of now / before
  double peers = 0;                  // the same of peers of one version in both; 0: there is none

  int count(Trend trend) const;
};

/// Each row's test: the logarithms of two medians, with the standard errors that their 95 %
/// intervals tell, as normal variables; slower is what exceeds the tolerance. Holm's correction
/// over all rows. A row of fewer than six samples has no such interval, one of another policy no
/// comparable time.
Against compare(const BenchReport& now, const std::vector<EarlierRow>& before,
                const AgainstOptions& options);

std::string text(const Against& against, const AgainstOptions& options);
/// {"against": …}, one object.
OrderedJson to_json(const Against& against, const AgainstOptions& options);

}  // namespace kiln
