#include "bench/gpu_peer.h"

#include <fmt/format.h>

namespace kiln {
Result<std::optional<GpuCalls>> fastest_proposal(const GpuTools& tools,
                                                 const VendorLibrary& library,
                                                 const GpuOperandSets& sets, GpuChecker& checker,
                                                 std::vector<Excluded>& excluded) {
  std::vector<RefusedChoice> refused;
  const auto best = fastest_choice(tools, library, sets, checker, refused);
  for (const RefusedChoice& one : refused)
    excluded.push_back({kGpuPeer, fmt::format("choice {}: {}", one.choice, one.why)});
  if (!best) return tl::unexpected(best.error());
  if (!*best) return std::nullopt;
  auto calls = GpuCalls::make(tools, sets, library.run(**best));
  if (!calls) return tl::unexpected(calls.error());
  return std::optional<GpuCalls>(std::move(*calls));
}

}  // namespace kiln
