#include "tuner/search/finalists.h"

#include <algorithm>

#include "runtime/backend.h"
#include "tuner/measure/load_race.h"
#include "tuner/search/stopping.h"

namespace kiln {
namespace {

// On a CPU the same kernel is screened at other times in other searches (int8 512³ on a guest: 1.23
// between five searches in the median of 121 kernels), so more of them have a chance. Where calls
// are long, checking and timing so many takes too much of the budget.
constexpr Finalists kGpu{4, 1.10}, kCpu{16, 1.15}, kLong{6, 1.15};
constexpr double kLongCallNs = 5e6;
/// Under load kernels that were screened alike differ by the energy that they need. A choice
/// without a measurement: of nine products on an H200 the winners of cool races were within 2 %
/// there.
constexpr double kLoadedRatio = 1.15;

}  // namespace

Finalists finalists_rule(const DeviceCaps& device, const TuneOptions& options, double fastest_ns) {
  if (options.policy == TuningPolicy::sustained)
    return {loaded_finalists(kLoadedRaceShare * options.budget.count()), kLoadedRatio};
  if (!on_host(device)) return kGpu;
  return fastest_ns > kLongCallNs ? kLong : kCpu;
}

std::size_t loaded_finalists(double race_seconds) {
  const LoadRules usual;
  const double all_ns = 0.5 * usual.block_ns * usual.min_rounds;
  const double with_peer = race_seconds * 1e9 / all_ns;
  return static_cast<std::size_t>(std::clamp(with_peer - 1, 3.0, 6.0));
}

}  // namespace kiln
