#include "bench/gpu_peer.h"

#include <fmt/format.h>

namespace kiln {
namespace {

constexpr int kScreenSamples = 5;

}  // namespace

std::optional<GpuCalls> fastest_proposal(const GpuTools& tools, const GpuRival& library,
                                         const GpuOperandSets& sets, GpuChecker& checker,
                                         std::vector<Excluded>& excluded) {
  int best = -1;
  double best_ns = 0;
  for (int choice = 0; choice < library.choices(); ++choice) {
    auto calls = GpuCalls::make(tools, sets, library.run(choice));
    if (!calls || !calls->take(kScreenSamples, 1e18)) continue;
    const double ns = calls->timing().median_ns;
    if (best >= 0 && best_ns <= ns) continue;
    if (const Verdict verdict = checker.check_product(library.run(choice)); !verdict) {
      excluded.push_back({kGpuPeer, fmt::format("choice {}: {}", choice, verdict.error().detail)});
      continue;
    }
    best = choice;
    best_ns = ns;
  }
  if (best < 0) return std::nullopt;
  auto calls = GpuCalls::make(tools, sets, library.run(best));
  if (!calls) return std::nullopt;
  return std::optional<GpuCalls>(std::move(*calls));
}

}  // namespace kiln
