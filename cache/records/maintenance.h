// Looking after the files: what they hold in numbers, whether it is sound, and making the user's
// own file smaller.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "kiln/error.hpp"

namespace kiln {

class Layers;

/// One file's contents in numbers.
struct StoreStats {
  std::filesystem::path database;
  bool writable = false;
  bool trusted = false;  // its machine code may be loaded
  std::string journal;   // "wal", "delete", "memory"
  int schema = 0;
  std::int64_t file_bytes = 0;
  std::int64_t devices = 0, problems = 0, winners = 0, measurements = 0, failures = 0;
  std::int64_t ranges = 0;
  std::int64_t binaries = 0, binary_bytes = 0, quarantined = 0;  // bytes as stored, compressed
  std::map<std::string, std::int64_t> failures_by_kind = {};
};

struct CheckReport {
  std::int64_t rows = 0;              // rows looked at
  std::vector<std::string> problems;  // one sentence each: file, table, row, what is wrong
  std::int64_t repaired = 0;          // rows removed; what they held is measured or compiled again
  bool ok() const { return problems.empty(); }
};

struct CompactReport {
  std::int64_t frames = 0, made_smaller = 0;       // pieces of code and sources
  std::int64_t bytes_before = 0, bytes_after = 0;  // of the file
};

struct PruneOptions;
struct PruneReport;

class Maintenance {
 public:
  explicit Maintenance(Layers& layers) : layers_(layers) {}

  Result<std::vector<StoreStats>> stats();
  /// Integrity, hashes, parsable configs, valid problems. `repair` drops bad rows of the user's
  /// file.
  Result<CheckReport> check(bool repair);
  /// Makes the user's own file smaller (cache/records/prune.h). Errors: bad_input (no condition),
  /// database.
  Result<PruneReport> prune(const PruneOptions& options);
  /// Compresses code and sources of the user's own file again, with today's dictionaries and more
  /// patience than a search has, and gives free space back. No row changes what it says. Errors:
  /// database.
  Result<CompactReport> compact();

 private:
  Layers& layers_;
};

}  // namespace kiln
