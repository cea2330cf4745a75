// The launch of a stored kernel as text: what the database keeps beside a winner and compares at
// every look-up, so that code proved under one launch never runs under another.
#pragma once

#include <string>

#include "generator/problem/device_caps.h"
#include "generator/problem/problem.h"
#include "generator/space/config.h"
#include "generator/space/gpu_launch.h"

namespace kiln {

/// Versions of what a kernel is called with: KilnArgs of templates/cpu/common/abi.h and KilnGpuArgs
/// of templates/cuda/common/abi.h. Bumped when their layout or meaning changes.
inline constexpr int kHostAbi = 2, kGpuAbi = 1;

/// Every field of a launch, one line: "workspace=0;zeroed=0;step(entry=kiln_gemm,…);map(…)".
std::string launch_text(const GpuLaunch& launch);

/// What stored code must agree with to be right: "abi=1;revision=1;" (the family's revision) and
/// the launch that today's generator gives this config; on a CPU how it divides the work. Empty
/// when the config is illegal for the problem: then there is no launch to compare with.
std::string launch_text(const Problem& problem, const DeviceCaps& device, const Config& config);

}  // namespace kiln
