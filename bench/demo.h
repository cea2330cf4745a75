// kiln's main job in one call: tune the layers of Llama-3-8B and BERT-base within a budget, store
// them, and let a second process run and race them out of that database with no compiler loaded.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/report.h"
#include "bench/suites.h"
#include "kiln/engine.hpp"

namespace kiln {

struct DemoOptions {
  std::chrono::duration<double> budget{240.0};  ///< of all tuning together, in even parts
  std::vector<int> tokens{1, 16, 128};          ///< Llama's m
  OpenOptions open;
  int threads = 0;  ///< 0 = every core
  std::uint64_t seed = 1;
  /// Arguments with which this program calls run_demo_second_process().
  std::vector<std::string> second_process;
  std::function<void(std::size_t shape, std::size_t of, const ListedShape&, const Progress&)>
      on_tune;
  std::function<void(std::size_t shape, std::size_t of, const ListedShape&,
                     const Result<TuneReport>&)>
      on_tuned;
  std::function<bool()> cancelled;  ///< asked while tuning, and before each shape of the table
};

/// What the second process found.
struct DemoOutcome {
  double open_ns = 0, first_gemm_ns = 0;    // Engine::open and the first gemm()
  int from_database = 0;                    // shapes whose kernel came out of the database exactly
  std::vector<std::string> wrong;           // gemm() results that failed the check
  std::vector<std::string> compiler_files;  // loaded after every gemm(); must be empty
  BenchReport bench;
  bool ok() const;
};

/// The layers that the demo tunes: Llama's at each token count, weights over 256 MiB (the logits)
/// left out, then BERT's.
Result<std::vector<ListedShape>> demo_shapes(const std::vector<int>& tokens);

/// Tunes, then starts the second process, which prints. Returns its exit code; nothing when
/// cancelled before. A shape that cannot be tuned is logged and passed over.
/// Errors: those of Engine::open; device (the process could not be started).
Result<std::optional<int>> run_demo(const DemoOptions& options);

/// In the second process, which must have done nothing before. Errors: those of Engine::open, and
/// bad_input (a file of $KILN_PEERS).
Result<DemoOutcome> run_demo_second_process(const DemoOptions& options);

/// The table and what was asserted, for people.
std::string text(const DemoOutcome& outcome);

}  // namespace kiln
