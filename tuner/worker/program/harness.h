// What the session does with candidates, for one kind of device: operands and references are made
// once for a problem, then many candidates are loaded, verified and timed. Knows no requests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tuner/verify/verify.h"
#include "tuner/worker/protocol.h"

namespace kiln {

/// A candidate or a peer, ready to be timed on the harness's operands.
class Contender {
 public:
  virtual ~Contender() = default;
  /// Takes samples until there are `total`, or `budget_ns` are spent after one. A Failure of kind
  /// `crashed` here and below: the device is lost to this process. On a CPU one of `other` is taken
  /// after each (null: none).
  virtual Verdict take(int total, double budget_ns, Contender* other) = 0;
  virtual Timing timing() const = 0;
  /// Of the others' samples; none on a GPU.
  virtual Timing beside() const { return {}; }
  /// What speaks against its samples (tuner/measure/measure.h); nothing on a GPU, which times its
  /// work itself.
  virtual std::string disturbed() const { return {}; }
};

/// One config's code, loaded. Lives no longer than the problem that its harness has prepared.
class Candidate {
 public:
  virtual ~Candidate() = default;
  /// Verifies it on the problem.
  virtual Verdict check() = 0;
  /// Verifies the same code on a nearby ragged problem, where it covers one.
  virtual Verdict check_ragged() = 0;
  /// Lives no longer than the candidate. Failures: resources, crashed.
  virtual tl::expected<std::unique_ptr<Contender>, Failure> contender() = 0;
};

/// A problem as a request gives it.
struct HarnessInput {
  Gemm gemm;
  DeviceCaps device;
  int device_index = 0;  // which of the GPUs
  VerifyOptions options;
  bool timed = false;  // operands to time calls on are made, too
  bool operator==(const HarnessInput& other) const;
};

class Harness {
 public:
  virtual ~Harness() = default;

  /// Makes the problem's operands and references in place of the last one's. Errors: device (no
  /// such device, no memory), compiler (of a GPU's checking kernels), bad_input, unsupported.
  virtual Status prepare(const HarnessInput& input) = 0;
  /// Whether another problem may be prepared once the process is in its cage; on a CPU a small one
  /// that is not timed, after another such.
  virtual bool serves_many() const = 0;
  /// Gives up the memory of its problem.
  virtual void rest() {}
  /// Puts the process into the cage that suits the device, after the first problem was prepared.
  /// Returns what enter_cage() says.
  virtual std::string confine(WorkerStatus* status) = 0;

  /// Sets of operands that timed calls rotate through.
  virtual int sets() const = 0;
  virtual tl::expected<std::unique_ptr<Candidate>, Failure> load(std::span<const std::byte> image,
                                                                 const Config& config) = 0;
  /// Whether a check of this problem costs less than a compile, so that it comes before the timing:
  /// a wrong kernel is then called wrong even when it is slow as well.
  virtual bool checks_first() const = 0;
  /// Whether candidates are checked again after a race: what thousands of calls leave behind may
  /// spoil the next.
  virtual bool checks_after_race() const = 0;

  /// The library that is raced beside kernels: the vendor's fastest correct choice on a GPU, the
  /// system's BLAS on a CPU. Nothing where there is none.
  struct Peer {
    Config config;
    std::unique_ptr<Contender> contender;
  };
  virtual tl::expected<std::optional<Peer>, Failure> peer() { return std::nullopt; }

  /// Samples all in turn until the race is decided, `budget_ns` are spent by samples, or there are
  /// a few of each and it is `over`. `on_turn` hears whose turn it is, before each.
  struct RaceRules {
    double budget_ns = 0;
    bool sustained = false;           // under load (tuner/measure/load_race.h); a GPU's alone
    std::function<double()> left_ns;  // of the time that the race has; 0: it is over
    bool over() const { return left_ns() <= 0; }
    std::function<void(std::size_t)> on_turn;
  };
  static constexpr int kLeastSamples = 3;
  struct Raced {
    std::vector<Timing> timings;
    std::vector<std::string> disturbed = {};  // as Contender::disturbed(); none on a GPU
    std::string conditions = {};              // of the device, a line; empty where nothing is known
  };
  virtual tl::expected<Raced, Failure> race(std::span<Contender* const> contenders,
                                            const RaceRules& rules) = 0;
  /// Operations a second of the probe beside the samples; nothing where there is none.
  virtual std::optional<double> peak_flops() const { return std::nullopt; }

  /// One call whose D is the parent's memory file and whose inputs follow from the options' seed.
  /// The parent verifies D. Errors: unsupported (another device's memory), device.
  virtual Status run_into(int output_file, std::span<const std::byte> image, const Config& config,
                          WorkerStatus* status);
};

/// Kernels on this machine's CPU, in this process's memory.
std::unique_ptr<Harness> host_harness();
/// A GPU's kernels on the emulator: verified, never timed.
std::unique_ptr<Harness> emulated_harness();
/// Kernels on a GPU, whoever made it.
std::unique_ptr<Harness> gpu_harness();

/// A Failure of an Error that says nothing about the candidate.
inline Failure resources(const Error& error) { return {Failure::Kind::resources, error.message}; }

/// A Failure of a host kernel that was not loaded: the machine's (LoadedImage::load), or its own.
inline Failure load_failure(const Error& error) {
  if (error.code == ErrorCode::device) return resources(error);
  return {Failure::Kind::load, error.message};
}

}  // namespace kiln
