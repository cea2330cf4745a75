// Merging database files of equal rank, as those of a fleet are: what is kept follows from what the
// rows say, never from whose file comes first. Transfer::merge_from() is the door.
//
// - Rows belong to a device. Nothing crosses from one fingerprint to another.
// - Of two measurements of the same candidate (device, problem, policy, determinism, toolchain,
//   config) the one with more behind it stays: one that names trusted code; a result that was
//   wrong; a time rather than a failure; verified; the later round; more samples; the narrower
//   interval; the newer.
// - Of several winners of a key one stays (WinnerWeight says which), the others become evidence.
//   They keep their launch, by which a later merge knows that they won somewhere: merging in one
//   step or in several, in any order, gives the same rows.
// - Of two extents of a search the one of the whole space, else that spent more of a budget; of two
//   peaks the larger, of two measurements of a machine's limits, fitted models or tables of a range
//   the newer.
// - Machine code, and names of it, come from trusted files alone (cache/layers/trust.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cache/record.h"

namespace kiln {

struct MergeOptions {
  /// Takes rows of those devices alone whose fingerprint contains this text; empty: all.
  std::string device = {};
  bool dry_run = false;  // says what it would do, and writes nothing
  /// Told before each file is read, and once at the end.
  std::function<void(std::size_t done, const std::filesystem::path& file)> progress = nullptr;
};

/// What was read of one file.
struct MergedFile {
  std::filesystem::path file;
  int schema = 0;
  bool trusted = false;  // false: its machine code was left out
  std::int64_t measurements = 0, winners = 0;
  std::int64_t other_devices = 0;     // measurements of devices that were not asked for
  std::vector<std::string> left_out;  // bad rows, a sentence each
};

/// What all files together hold of one device.
struct MergedDevice {
  DeviceCaps device;
  std::int64_t measurements = 0, winners = 0;  // those that any file names
  bool was_here = false;                       // the user's own file had rows of it
};

/// A winner of a key, and what is known of it after all files were read.
struct Contender {
  Measured measured;
  Validators validators;
  std::string created;
  std::vector<std::filesystem::path> files;  // in which it is the winner
};

/// A key for which files name different winners.
struct MergeConflict {
  BestKey key;
  Contender kept, other;
  std::string why;  // the first thing by which they differ: "raced: 31 samples, the other's 7"
};

struct MergeReport {
  std::vector<MergedFile> files;
  std::vector<MergedDevice> devices;
  std::int64_t added = 0;      // measurements that were not here
  std::int64_t replaced = 0;   // measurements here that had less behind them
  std::int64_t winners = 0;    // keys with a winner that had none
  std::int64_t dethroned = 0;  // winners here that are evidence now
  std::int64_t binaries = 0;   // code that was not here
  std::vector<MergeConflict> conflicts;
  bool sound() const {
    for (const MergedFile& file : files)
      if (!file.left_out.empty()) return false;
    return true;
  }
};

/// What is weighed of a winner, in this order; of equal ones the config's text decides.
struct WinnerWeight {
  /// A tuned range's table names it: its neighbours were chosen with it.
  bool in_range = false;
  bool runs = false;  // its code is here, or it is a library: it need not be compiled anew
  bool verified = false;
  Round round = Round::screen;
  /// Steps of 2 % (kMinimumGain) in what its time surely is: the median plus the upper half of the
  /// interval, at least 2 %, widened where fewer than 16 samples stand behind it.
  int steps = 0;
  int samples = 0;
  std::int64_t searched = 0;  // candidates that its search measured
  double width = 0;           // of the interval, as a share of the median
  std::string created;
};
/// Upper bound of a time as WinnerWeight::steps counts it.
double assured_ns(const Timing& timing);
WinnerWeight weight_of(const Measured& measured, const std::string& created);

/// Why `a` is kept rather than `b`, in words; empty: `b` is kept, or they are equal.
std::string outweighs(const WinnerWeight& a, const WinnerWeight& b);

}  // namespace kiln
