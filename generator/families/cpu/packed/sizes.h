// Sizes derived from a HostPacked config: read by its rules, parameters and model.
#pragma once

#include "generator/families/cpu/common/host.h"

namespace kiln::host {

struct PackedSizes {
  const DotInstruction& row;
  int lanes;  // of a vector
};

/// The analytic model: nanoseconds of a call.
double predict_packed(const Canonical& problem, const DeviceCaps& device, const HostPacked& config,
                      const PackedSizes& sizes);

}  // namespace kiln::host
