#include "cache/records/stored_roofline.h"

#include <algorithm>

#include "cache/records/devices.h"
#include "cache/store.h"

namespace kiln {

std::optional<StoredRoofline> stored_roofline(Store& store, const DeviceCaps& device,
                                              const Gemm& gemm) {
  if (device.vendor != Vendor::cpu) return std::nullopt;
  auto limits = store.devices().limits(device);
  if (!limits) return std::nullopt;
  // Kernels raise what is stored as the peak of a type, and may pass the probe.
  if (const auto member = peak_member(gemm.a.dtype))
    (*limits).*member = std::max((*limits).*member, store.devices().peak(device, gemm.a.dtype));
  const Roofline found = roof(gemm, *limits, peak_for(gemm, *limits));
  return found.ns > 0 ? std::optional(StoredRoofline{found, limits->measured}) : std::nullopt;
}

}  // namespace kiln
