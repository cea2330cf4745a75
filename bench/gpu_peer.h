// The vendor's library as a peer on a GPU: its fastest correct proposal. Used by the race over
// shapes and by the ladder of kernels.
#pragma once

#include <optional>
#include <vector>

#include "bench/track.h"
#include "tuner/measure/gpu_timing.h"
#include "tuner/measure/vendor_library.h"

namespace kiln {

/// Its fastest proposal, and the one that its heuristic names first, which most programs run.
inline constexpr const char* kGpuPeer = "cublaslt";
inline constexpr const char* kGpuPeerFirst = "cublaslt_first";

/// Which of its proposals is the fastest; nothing where none can run. Wrong ones are added to
/// `excluded`. Errors: device (a proposal destroyed the context).
Result<std::optional<int>> fastest_proposal(const GpuTools& tools, const VendorLibrary& library,
                                            const GpuOperandSets& sets, GpuChecker& checker,
                                            std::vector<Excluded>& excluded);

}  // namespace kiln
