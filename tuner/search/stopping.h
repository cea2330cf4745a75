// When to stop timing a candidate, and who wins: rules over timings, nothing else.
#pragma once

#include <span>

#include "kiln/options.hpp"

namespace kiln {

/// Staged screening: few runs drop the hopeless, more runs drop the merely slower. The stages of
/// calls too long to be repeated are bounded by time as well: a 100 ms call shows a 1.5× gap at
/// once.
struct ScreeningRule {
  struct Stage {
    int samples;
    double max_ratio;  // of the candidate's median to the best known
    double budget_ns;  // no further sample once these are spent
  };
  Stage first{3, 1.5, 60e6};
  Stage second{10, 1.15, 100e6};
};

/// True when a median of `ns` is beyond the stage's ratio of `best_ns` (0: nothing is known yet).
inline bool screened_out(double ns, double best_ns, const ScreeningRule::Stage& stage) {
  return best_ns > 0 && ns > best_ns * stage.max_ratio;
}

/// Of a search's budget, kept back from screening for the race.
inline constexpr double kRaceShare = 0.2, kLoadedRaceShare = 0.5;
/// The same of one policy: blocks under load are long.
constexpr double race_share(TuningPolicy policy) {
  return policy == TuningPolicy::sustained ? kLoadedRaceShare : kRaceShare;
}
/// Samples of each contender of a race: at most, and before it may be decided.
inline constexpr int kRaceSamples = 60, kRaceMinSamples = 10;
/// On a CPU, of how many contenders a race is when its slower halves have left.
inline constexpr int kRaceLast = 4;

/// The gain that makes a new record worth its while, supported by the intervals.
inline constexpr double kMinimumGain = 1.02;

/// Whether the incumbent yields to the challenger: at least 2 % faster by the medians, and by
/// intervals that do not overlap.
bool yields(const Timing& incumbent, const Timing& challenger);

/// Whether a race is decided: the interval of the fastest lies below those of all others. A race of
/// fewer than two is decided; below `min_samples` none is.
bool decided(std::span<const Timing> contenders, int min_samples);

}  // namespace kiln
