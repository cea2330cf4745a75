// The vendor's library as a contender on a GPU: the fastest of its proposals that is right. Shared
// by the race over shapes and the ladder of kernels.
#pragma once

#include <optional>
#include <vector>

#include "bench/contest.h"
#include "tuner/gpu_rival.h"
#include "tuner/gpu_timing.h"

namespace kiln {

inline constexpr const char* kGpuPeer = "cublaslt";

/// Nothing where no proposal can run; those that are wrong are added to `excluded`. Errors: device
/// (a proposal brought the context down).
Result<std::optional<GpuCalls>> fastest_proposal(const GpuTools& tools, const GpuRival& library,
                                                 const GpuOperandSets& sets, GpuChecker& checker,
                                                 std::vector<Excluded>& excluded);

}  // namespace kiln
