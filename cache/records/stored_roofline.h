// The roof of a stored record: from the limits of its machine, where they are stored.
#pragma once

#include <optional>
#include <string>

#include "cache/store.h"
#include "tuner/measure/roofline.h"

namespace kiln {

struct StoredRoofline {
  Roofline roof;
  std::string measured;  // when the limits were, ISO 8601 UTC
};

/// Of a product on a CPU with the device's `compute_units` threads; nothing for another device, or
/// where no limits are stored.
std::optional<StoredRoofline> stored_roofline(Store& store, const DeviceCaps& device,
                                              const Gemm& gemm);

}  // namespace kiln
