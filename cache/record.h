// The values of the database: what was measured, on what, by which toolchain, and the code itself.
// Everything that makes two records different is stated here, once. Knows no SQLite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "generator/space/space.h"
#include "kiln/options.hpp"
#include "tuner/measured.h"

namespace kiln {

/// Key of a best kernel. A missing field is the dangerous bug: tests/unit changes each in turn.
struct BestKey {
  DeviceCaps device;   // fingerprint; compute_units are the threads of the call
  Gemm gemm;           // every field
  std::string policy;  // measurement policy, "cold-v1"
  Determinism determinism = Determinism::run_to_run;
  /// Of a valid `gemm`, which those of keys are.
  Problem problem() const { return Problem::of(gemm).value(); }
  auto operator<=>(const BestKey&) const = default;
};

/// Which software made a record. Whether stored code is right is not asked here: that is the launch
/// (Record::launch), which also holds the kernels' ABI and the family's revision.
struct Validators {
  /// Provenance: which templates made it. Timings of losers count for the same templates alone.
  std::string template_hash;
  /// Correctness: compiler build. Empty in a lookup = no compiler was loaded: stored code of any
  /// build is taken as it was verified; nothing will be compiled against it.
  std::string compiler;
  std::string runtime;  // performance: kiln, libc, kernel versions
  auto operator<=>(const Validators&) const = default;
};

struct Record {
  BestKey key;
  Validators validators;
  Measured measured;
  std::string source = {};            // generated text, without its head
  std::vector<std::byte> image = {};  // linked code; empty = absent or not trusted
  /// generator/space/launch_text.h's text of the launch under which it was verified. Empty: a GPU
  /// record from before launches were stored, to be verified once more before it runs.
  std::string launch = {};
  std::string created;             // ISO 8601 UTC
  std::filesystem::path database;  // where it was found
  bool writable = false;           // that file takes what a longer search finds
  /// How far its space was searched; empty: made before that was stored.
  std::optional<SearchExtent> searched = {};
};

/// What orders a kernel among others. The rest of its record is read where it is asked for
/// (Winners::record_of): a class has hundreds of kernels, of which a call looks at a few.
struct KernelRow {
  Config config;
  std::string binary_key;  // empty: of a file from which no code is loaded
  bool verified = false;
  std::size_t layer = 0;  // the file that it is in
  std::int64_t id = 0;    // its row there
};

/// Linked code as stored. `key` is runtime/compiler.h's binary_key(); `code_key` leaves the
/// compiler out, so that a process that never loads one can ask too.
struct StoredBinary {
  std::string key;
  std::string code_key;
  std::string compiler;
  std::string source = {};  // generated text; kept without its head; empty = none kept
  std::vector<std::byte> image;
};

}  // namespace kiln
