// What a race between kiln and its peers needs of a device: the peers that there are, operands,
// checks, clocks. One implementation for this machine's CPU and one for all GPUs. Knows no lists
// and no reports.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/peer.h"
#include "kiln/engine.hpp"
#include "runtime/backend.h"
#include "runtime/cpu/probe.h"
#include "tuner/measure/gpu_clocks.h"

namespace kiln {

/// A peer whose result was wrong, or who refused: reported, and out of the race.
struct Excluded {
  std::string peer;
  std::string reason;
};

/// Medians of one interleaved race.
struct RaceTimes {
  std::vector<Timing> plans;            // in the order in which they entered
  std::map<std::string, Timing> peers;  // by name; the hopelessly slow have few samples
  GpuConditions conditions;             // on a GPU
  double probed_flops = 0;              // operations a second beside the samples; 0: no probe
};

/// One problem's operands on a device, and who runs on them.
class Contest {
 public:
  virtual ~Contest() = default;
  /// A plan of kiln's joins the race. Errors: those of Engine::pack_b and Plan::run.
  virtual Status enter(Engine& engine, const Plan& plan) = 0;
  /// What is wrong with the result of the plan that entered first. Errors: those of Plan::run, and
  /// device (it gave up).
  virtual Result<std::optional<std::string>> fault() = 0;
  /// Every supporting peer whose result is right joins; the others go to `excluded`. Errors: device
  /// (it gave up).
  virtual Status admit_peers(std::vector<Excluded>& excluded) = 0;
  /// `samples` of each, less where `budget_ns` are spent before. Errors: device.
  virtual Result<RaceTimes> race(int samples, double budget_ns) = 0;
  /// The same under load, in at most so many rounds (tuner/measure/load_race.h). Errors: device,
  /// unsupported (a CPU).
  virtual Result<RaceTimes> race_under_load(int rounds);
};

class RaceTrack {
 public:
  virtual ~RaceTrack() = default;
  /// Looks for peers: of these names, or all when none are named; on a CPU with `engine` that
  /// engine's separate_peer() too. Errors: bad_input (a name; a file of $KILN_PEERS).
  virtual Status find_peers(const std::vector<std::string>& names, Engine* engine) = 0;
  const PeerSet& peers() const { return peers_; }
  /// The library and version behind each name that RaceTimes::peers may hold.
  virtual std::map<std::string, std::string> versions() const = 0;
  virtual const Backend& backend() const = 0;
  /// Thread counts that a benchmark takes when none are named.
  virtual Result<std::vector<int>> threads() const = 0;
  /// What the machine reaches at a thread count; nothing where the peer alone is the reference.
  virtual Result<std::optional<MachineLimits>> limits(int threads) const = 0;
  /// `gemm` is valid and not empty. Errors: device (no memory), bad_input (threads).
  virtual Result<std::unique_ptr<Contest>> prepare(const Gemm& gemm, int threads,
                                                   std::uint64_t seed) const = 0;

 protected:
  PeerSet peers_;
};

/// A track without peers yet, for a device as Engine::open takes it. Errors: device; compiler (of
/// the kernels that check results on a GPU).
Result<std::unique_ptr<RaceTrack>> open_track(const std::string& device);

/// This machine's CPU, with these peers.
std::unique_ptr<RaceTrack> host_track(PeerSet peers);
/// "cuda:N", "hip:N": the vendor's library is the peer, each of its proposals timed; all results
/// are checked on the device.
Result<std::unique_ptr<RaceTrack>> gpu_track(const std::string& device);

}  // namespace kiln
