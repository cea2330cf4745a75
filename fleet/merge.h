// From the databases of a fleet's parts to one file for each kind of device. Knows no command line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fleet/folder.h"

namespace kiln {

struct KindMerge {
  std::string kind;
  std::filesystem::path file;
  int parts = 0;                      // databases that are in the file
  std::int64_t measurements = 0;      // rows of the other file
  std::size_t conflicts = 0;          // keys for which they name different winners
  std::vector<std::string> left_out;  // a sentence for each database or row that is not
  double seconds = 0;
};

/// Makes the kind's merged file anew from its parts' databases and what the old one holds beyond
/// them. The new file takes the old one's place when it is whole; one with a write-ahead log, which
/// others may be reading, takes the rows in one transaction instead. A part that cannot be read, is
/// of another version or another device is left out, said so, and stays as it is. Errors: database
/// (the merged file cannot be read or written).
Result<KindMerge> merge_kind(const FleetFolder& folder, const std::string& kind);

}  // namespace kiln
