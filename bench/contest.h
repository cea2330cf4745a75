// One shape, one thread count: kiln and every supporting peer in one interleaved race over the same
// operands, each result checked. Knows nothing of lists, tables or files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/track.h"

namespace kiln {

struct ContestOptions {
  int samples = 31;          ///< of each contestant
  double budget_ns = 1.5e9;  ///< for all contestants of one shape, after the first rounds
  std::uint64_t seed = 1;
  bool sustained = false;  ///< under load, whatever the budget; on GPUs alone
};

struct ContestResult {
  Gemm gemm;
  int threads = 1;
  Timing kiln;
  std::vector<Timing> others = {};  // of the other plans that were entered, in their order
  /// Under load: of the kernel that won the cool race, and its config; where kiln runs that one,
  /// its own time. Empty: there is no record of one.
  std::optional<Timing> cool = {};
  std::string cool_config = {};
  std::map<std::string, Timing> peers;               // as RaceTimes
  std::map<std::string, std::string> versions = {};  // of these peers: "OpenBLAS 0.3.21"
  std::vector<Excluded> excluded;
  std::string config;              // of kiln's kernel
  Match match = Match::reference;  // where it came from
  bool verified = false;           // kiln's result
  std::string fault;               // why not
  std::string policy{backend_of(Vendor::cpu).policy};
  GpuConditions conditions;  // of a race on a GPU
  /// The most operations a second that these threads are known to reach, this race included: in
  /// the probe beside its samples, and in what was right of it. 0: no probe for the type.
  double peak_flops = 0;
  /// The least time that the machine needs, from its reference lines; 0: not known.
  double roof_ns = 0;

  /// Name of the fastest peer; empty when there was none.
  std::string best_peer() const;
  /// Best peer's time / kiln's; 0 without a peer.
  double ratio() const;
};

/// A plan of another engine for the same problem.
struct Entrant {
  Engine& engine;
  Plan plan;
};

/// kiln's result is checked before the race and after it. Errors: bad_input (an empty or invalid
/// problem), device (no memory; it gave up), and those of Engine::plan.
Result<ContestResult> contest(Engine& engine, const RaceTrack& track, const Gemm& gemm, int threads,
                              const ContestOptions& options,
                              const std::vector<Entrant>& others = {});

}  // namespace kiln
