// Who races at the end of a search: rules over times, nothing else.
#pragma once

#include <cstddef>

#include "generator/problem/device_caps.h"
#include "kiln/options.hpp"

namespace kiln {

/// How many candidates race, and how much slower than the best they may have been screened.
struct Finalists {
  std::size_t most;
  double ratio;
};

/// `fastest_ns`: the best of the screening.
Finalists finalists_rule(const DeviceCaps& device, const TuneOptions& options, double fastest_ns);

/// How many race under load within so many seconds beside a peer: as many as have blocks of half
/// the usual length, three to six.
std::size_t loaded_finalists(double race_seconds);

}  // namespace kiln
