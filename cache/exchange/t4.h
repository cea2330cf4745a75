// Measurements as Kernel Tuner's T4 results (schema version 1.0.0), and back. T4 knows configs,
// times and why a config is invalid; what it lacks of a measurement stands in members named `kiln`,
// which other readers skip. Knows no database.
#pragma once

#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "cache/records/measurements.h"

namespace kiln {

inline constexpr std::string_view kT4Version = "1.0.0";
/// The measurement policy of results that do not say theirs: look-ups never ask for it.
inline constexpr const char* kT4Policy = "t4";

/// Writes one object, result by result. A result's `configuration` is the family and its keys;
/// times are in milliseconds, as Kernel Tuner has them. Of each candidate the database keeps the
/// median alone, so `runtimes` holds that one.
class T4Writer {
 public:
  explicit T4Writer(std::ostream& out);
  void add(const StoredMeasurement& row);
  /// Devices and toolchains, which results name by number, and the end of the object.
  void finish();

 private:
  std::ostream& out_;
  bool first_ = true;
  std::map<DeviceCaps, std::size_t> devices_;
  std::map<Validators, std::size_t> toolchains_;
};

/// What results of other programs do not say.
struct T4Defaults {
  std::optional<Gemm> shape = {};
  std::optional<DeviceCaps> device = {};
};

/// Rows of a T4 file, none a winner. Errors: bad_input, naming `file`, the result by its number,
/// the member and its value.
Result<std::vector<StoredMeasurement>> read_t4(std::string_view text, const std::string& file,
                                               const T4Defaults& defaults);

}  // namespace kiln
