#include "tuner/search/stopping.h"

#include <algorithm>

namespace kiln {

bool yields(const Timing& incumbent, const Timing& challenger) {
  return challenger.median_ns * kMinimumGain <= incumbent.median_ns &&
         challenger.high_ns < incumbent.low_ns;
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
