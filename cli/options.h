// Options that several sub-commands take: shapes, device, database. Parsing only; runs nothing.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/store.h"
#include "generator/problem/device_caps.h"
#include "generator/render/render.h"
#include "kiln/options.hpp"
#include "runtime/compiler.h"

namespace kiln::cli {

/// Makes an option take seconds as people write them, 0.01 to a day: 10, 5s, 500ms, 2m, 1h.
CLI::Option* seconds(CLI::Option* option);
/// --candidates of a search.
void add_candidates(CLI::App& app, int& candidates);

/// One problem, or a range of problems, and where it was asked for, e.g. "shapes.txt:12", for
/// messages.
struct Shape {
  Gemm gemm;  // of a range, that of the largest size
  std::string origin;
  std::optional<GemmRange> range = {};
};
/// The line of the problem or range.
std::string text(const Shape& shape);

/// --shape, --file and --layers, each any number of times.
struct ShapeOptions {
  std::vector<std::string> shapes, files, layers;

  void add_to(CLI::App& app);
  bool any() const { return !shapes.empty() || !files.empty() || !layers.empty(); }
  /// All of them, valid, in the order --shape, --file, --layers. Errors: bad_input, naming the
  /// option or the file and line; bad_input when none was given, or one is a range.
  Result<std::vector<Shape>> collect() const;
  /// The same, ranges among them.
  Result<std::vector<Shape>> collect_ranges() const;
};

/// --device and --threads.
struct DeviceOptions {
  std::string name = "cpu";
  int threads = 0;

  void add_to(CLI::App& app);
  /// --device alone.
  void add_name_to(CLI::App& app);
};

/// What a --device name stands for.
struct Target {
  DeviceCaps caps;
  bool this_machine = false;  // "cpu", "cuda:N", "hip:N": a device here, which an Engine can open
  bool runs_here = false;     // code for it runs on this machine
  int index = 0;              // N of "cuda:N", "hip:N"
  bool emulated = false;      // "emu:ARCH": a GPU's code, run lane by lane on the CPU
};

/// Says on standard error, once for each problem, what slows its types down on this device.
void advise(const Gemm& gemm, const DeviceCaps& caps);

/// Errors: device (no such GPU here), bad_input (no such name, threads).
Result<Target> resolve(const DeviceOptions& options);
/// The same for a command that runs through an Engine. Errors: also device for any other CPU,
/// unsupported for the emulator, which times nothing.
Result<Target> resolve_engine_device(const DeviceOptions& options);
/// Source and compiler of the target's code: for an emulated one, of what the emulator runs.
Result<Source> source_for(const Target& target, const Gemm& gemm, const Config& config);
Result<Compiler*> compiler_for(const Target& target);

/// `caps` as if its best instruction set were `isa` (portable, avx2, avx512, amx). Errors:
/// bad_input (no such instruction set, or the device lacks it).
Result<DeviceCaps> limited_to(DeviceCaps caps, const std::string& isa);

/// --db, with the policy for untuned shapes that a tool wants: silent, since it reports by itself.
struct DatabaseOptions {
  std::string file;

  void add_to(CLI::App& app);
};

/// The file that --db names, else the user's own.
std::filesystem::path user_database(const DatabaseOptions& database);
/// The user's database and the shipped ones. Errors: database.
Result<std::unique_ptr<Store>> open_store(const DatabaseOptions& database);
/// The same for a command that makes none: a mistyped name must not look like an empty database.
/// Errors: also bad_input (--db names no file).
Result<std::unique_ptr<Store>> open_existing_store(const DatabaseOptions& database);

/// --determinism.
struct DeterminismOption {
  Determinism chosen = Determinism::run_to_run;

  void add_to(CLI::App& app);
};

/// --policy, and --sustained for one of its values.
void add_policy(CLI::App& app, TuningPolicy& policy);
/// Errors: unsupported (on a CPU).
Status check_policy(TuningPolicy policy, const std::string& device);

OpenOptions open_options(const DeviceOptions& device, const DatabaseOptions& database,
                         const DeterminismOption& determinism = {});

}  // namespace kiln::cli
