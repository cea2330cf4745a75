// Timing of calls on the CPU: calibrated batches, rotating operands, gated samples, medians with
// their interval. Used by the tuner's worker and by `kiln bench`, peers included, so that all are
// measured alike. Must not know what a call does: no kernels, no verification, no processes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "generator/problem/device_caps.h"
#include "kiln/options.hpp"
#include "runtime/cpu/probe.h"
#include "runtime/timer.h"

namespace kiln {

// The measurement policy "cold-v1" of the CPU's row (Backend::policy), part of every record's key:
// - alpha = 1, beta = 0, inputs uniform in [-1, 1], outputs not touched between calls;
// - a call whose operands take at most a quarter of one core's L2 is timed hot, on one set of
//   buffers, in batches: users of small products call them back to back on resident data;
// - any larger call rotates through as many sets of operands as exceed twice the last-level cache,
//   but no more than 256 MB hold (some guests report caches of 480 MB) and at least one;
// - a sample is a batch of calls lasting at least 20 µs; samples taken while the core was slow or
//   stolen are dropped; the figure is the median of the samples.

inline constexpr std::int64_t kRotationLimitBytes = 256 << 20;

/// Number of operand sets to rotate through. `set_bytes`: A, B, D and what else one call touches.
int rotation_sets(std::int64_t set_bytes, const DeviceCaps& device);

/// Makes `count` calls one after the other on operand sets first, first + 1, … (modulo the number
/// of sets). The loop is the callee's own, so that no indirect call stands between two short calls.
using Calls = std::function<void(std::int64_t first, std::int64_t count)>;

/// Wraps `call(int set)`, inlined, as Calls over `sets` sets.
template <typename F>
Calls calls_over(int sets, F call) {
  return [sets, call](std::int64_t first, std::int64_t count) {
    int set = static_cast<int>(first % sets);
    for (std::int64_t i = 0; i < count; ++i) {
      call(set);
      if (++set == sets) set = 0;
    }
  };
}

/// Asked after samples were taken: did this core run undisturbed just now?
using SampleGate = std::function<bool()>;
/// A 0.1 ms FMA probe on `threads` threads whose slowest must reach 90 % of the recent best speed.
SampleGate fma_gate(int threads);
/// The same with a probe that the caller keeps: it tells the peak of what ran beside the samples.
SampleGate fma_gate(std::shared_ptr<SpeedGate> probe);

using MeasureClock = std::int64_t (*)();

struct MeasureOptions {
  int samples = 10;           ///< wanted, of each contender
  int min_samples = 1;        ///< taken whatever they cost
  double sample_ns = 20'000;  ///< shortest batch worth two clock readings
  double budget_ns = 1e18;    ///< no sample is begun once these are spent (after min_samples)
  SampleGate gate;            ///< empty: every sample counts
  /// The set of operands that the next call is on; each call moves it. Measurements of the same
  /// sets share it, or each would begin with operands that the one before left in the caches. Null:
  /// from set 0 on.
  std::int64_t* next_set = nullptr;
  /// In a race, and beside another Sampler, calls shorter than this get one untimed call before
  /// each sample: it wakes threads that fell asleep while others ran, which would otherwise cost
  /// each sample 5 to 50 µs.
  double lead_in_below_ns = 0;
  /// After a pause and after the gate was asked, untimed calls last so long, unless one call does:
  /// the clock of caches and memory falls while nobody asks for them, and takes its time to rise
  /// (one product on a Xeon: 5 calls of 260 µs, then calls of 114 µs).
  double settle_ns = 0;
  /// In a race of more contenders than `last`, after every `heat` rounds the slower half leaves,
  /// until so many are left. 0: none leaves.
  int last = 0;
  int heat = 10;
  MeasureClock clock = now_ns;  ///< nanoseconds; tests replace it
};

/// What `lead_in_below_ns` should be: of longer calls waking is under 1 %.
inline constexpr double kLeadInBelowNs = 5e6;

/// What `settle_ns` should be for problems on so many sets of operands: those of one set stay in
/// the caches that keep their clock.
constexpr double settle_ns(int sets) { return sets > 1 ? 1.5e6 : 0; }

/// Samples of one contender, in nanoseconds per call.
struct Samples {
  std::vector<double> ns;
  std::int64_t batch = 1;  ///< calls in a sample
  int dropped = 0;         ///< samples that the gate refused
  bool gated = true;       ///< false: too many were refused, so refused ones were kept
};

/// Median and 95 % order-statistic interval; of fewer than 6 samples the interval is their range.
/// Zero samples give a zero Timing.
Timing timing_of(std::vector<double> samples);

/// What speaks against samples: the gate refused more of them than it let pass, or the ends of
/// their interval differ by half. Such a time is less of the kernel than of what else ran. Empty:
/// nothing does.
std::string disturbance(const Samples& samples);

/// Times one contender in steps, so that screening can stop early.
class Sampler {
 public:
  Sampler(Calls calls, MeasureOptions options);
  /// One warm-up call and the choice of the batch size; called by `take` when it was not before. A
  /// call of 50 ms or more counts as a sample. Returns its duration in nanoseconds.
  double calibrate();
  /// Takes samples until there are `total` accepted ones or, beyond min_samples, `budget_ns` are
  /// spent. After each, one of `other` is taken (null: none), which says how fast the machine is
  /// just then.
  void take(int total, double budget_ns, Sampler* other = nullptr);
  const Samples& samples() const { return samples_; }
  Timing timing() const { return timing_of(samples_.ns); }
  /// Of the others that were taken beside this one's samples.
  Timing beside() const { return timing_of(beside_.ns); }

 private:
  std::int64_t& cursor();
  double run(std::int64_t calls);
  /// A batch, after the untimed call that others before it make necessary.
  double run_after_others();

  Calls calls_;
  MeasureOptions options_;
  Samples samples_, beside_;
  std::int64_t first_set_ = 0;  // where nothing is shared
  double first_ns_ = 0, spent_ns_ = 0;
  bool calibrated_ = false;
};

/// Times one contender.
Samples measure(const Calls& calls, const MeasureOptions& options);

/// Who is timed at `place` of round `round` of a race: in as many rounds as there are contenders
/// (twice as many, if their number is odd) each follows every other one equally often. What one
/// leaves in the caches is paid for by the next: a product with streamed stores takes 0.95 ms after
/// one of oneDNN's and 1.83 ms after another (int8 564×4819×9).
int turn_of(int place, int round, int contenders);

/// Times contenders interleaved, one sample each a round, in the order that turn_of() says; all use
/// the same operand sets in the same order, so no contender finds its operands cached by another.
/// The gate is asked after every half millisecond of samples. `stop`
/// (optional) sees the samples of those that are left after each round and may end the race;
/// `budget_ns` is for all contenders together.
std::vector<Samples> race(const std::vector<Calls>& contenders, const MeasureOptions& options,
                          const std::function<bool(const std::vector<Samples>&)>& stop = {});

}  // namespace kiln
