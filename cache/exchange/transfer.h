// Rows between files: export, import, merge.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "kiln/error.hpp"

namespace kiln {

class Layers;

struct ImportReport {
  std::int64_t measurements = 0, binaries = 0;  // rows added
  bool trusted = false;                         // false: its machine code was left out
};

struct MergeOptions;
struct MergeReport;

class Transfer {
 public:
  explicit Transfer(Layers& layers) : layers_(layers) {}

  /// Writes one self-contained file: winners of all layers with their code, and all evidence; or,
  /// with `fastest` > 0, of each search only that of its so many fastest candidates, of races, and
  /// of every config that won anywhere, which is what fitted models are made of. Compressed as
  /// Maintenance::compact() does it.
  Status export_to(const std::filesystem::path& file, int fastest = 0);
  /// Merges a file; rows already here win. Errors: database, bad_input (no such file).
  Result<ImportReport> import_from(const std::filesystem::path& file);
  /// Merges files of equal rank, weighing every row (cache/exchange/merge.h), in one transaction:
  /// all of them or nothing. Errors: database (a file that is damaged, newer or not kiln's; a full
  /// disk), bad_input (no such file, the database itself, no row of the device asked for).
  Result<MergeReport> merge_from(const std::vector<std::filesystem::path>& files,
                                 const MergeOptions& options);

 private:
  Layers& layers_;
};

}  // namespace kiln
