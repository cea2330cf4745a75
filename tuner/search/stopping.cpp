#include "tuner/search/stopping.h"

#include <algorithm>

#include "tuner/measure/load_race.h"

namespace kiln {

bool yields(const Timing& incumbent, const Timing& challenger) {
  return challenger.median_ns * kMinimumGain <= incumbent.median_ns &&
         challenger.high_ns < incumbent.low_ns;
}

std::size_t loaded_finalists(double race_seconds) {
  const LoadRules usual;
  const double all_ns = 0.5 * usual.block_ns * usual.min_rounds;
  const double with_peer = race_seconds * 1e9 / all_ns;
  return static_cast<std::size_t>(std::clamp(with_peer - 1, 3.0, 6.0));
}

bool decided(std::span<const Timing> contenders, int min_samples) {
  if (contenders.size() < 2) return true;
  const auto fastest =
      std::min_element(contenders.begin(), contenders.end(),
                       [](const Timing& x, const Timing& y) { return x.median_ns < y.median_ns; });
  return std::all_of(contenders.begin(), contenders.end(), [&](const Timing& t) {
    return t.samples >= min_samples && (&t == &*fastest || t.low_ns > fastest->high_ns);
  });
}

}  // namespace kiln
