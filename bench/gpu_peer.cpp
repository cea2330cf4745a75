#include "bench/gpu_peer.h"

#include <fmt/format.h>

namespace kiln {

Result<std::optional<int>> fastest_proposal(const GpuTools& tools, const VendorLibrary& library,
                                            const GpuOperandSets& sets, GpuChecker& checker,
                                            std::vector<Excluded>& excluded) {
  std::vector<RefusedChoice> refused;
  const auto best = fastest_choice(tools, library, sets, checker, refused);
  for (const RefusedChoice& one : refused)
    excluded.push_back({kGpuPeer, fmt::format("choice {}: {}", one.choice, one.why)});
  return best;
}

}  // namespace kiln
