#include "tuner/measure/vendor_library.h"

#include <fmt/format.h>

#include "runtime/backend.h"

namespace kiln {

Result<VendorLibrary> VendorLibrary::make(const GpuTools& tools, const Gemm& gemm) {
  const DeviceCaps& caps = tools.device()->caps();
  const Backend& backend = backend_of(caps.vendor);
  if (backend.library == nullptr)
    return fail(ErrorCode::unsupported,
                fmt::format("no vendor library is known for {}", caps.model));
  auto library = backend.library(tools.device(), Problem::of(gemm).value(), kWorkspaceBytes);
  if (!library) return tl::unexpected(library.error());
  auto workspace = gpu::DeviceBuffer::make(tools.device(), kWorkspaceBytes);
  if (!workspace) return tl::unexpected(workspace.error());
  const auto version = cuda::cublaslt_version_number();
  if (!version) return tl::unexpected(version.error());
  return VendorLibrary(std::move(*library), std::move(*workspace), *version);
}

RunOnGpu VendorLibrary::run(int choice) const {
  return [library = library_.get(), workspace = workspace_.data(), choice](KilnGpuArgs args,
                                                                           gpu::Stream stream) {
    args.workspace = workspace;
    return library->enqueue(args, choice, stream);
  };
}

Result<std::optional<int>> fastest_choice(const GpuTools& tools, const VendorLibrary& library,
                                          const GpuOperandSets& sets, GpuChecker& checker,
                                          std::vector<RefusedChoice>& refused) {
  constexpr int kSamples = 5;
  std::optional<int> best;
  double best_ns = 0;
  const auto broke = [](int choice, const std::string& how) {
    return fail(ErrorCode::device, fmt::format("the library's proposal {}: {}", choice, how));
  };
  for (int choice = 0; choice < library.choices(); ++choice) {
    auto calls = GpuCalls::make(tools, sets, library.run(choice));
    const bool timed = calls && calls->take(kSamples, 1e18);
    // A proposal that is refused at the call costs nothing; one that faults costs the context.
    if (Status alive = tools.wait(); !alive) return broke(choice, alive.error().message);
    if (!timed) continue;
    const double ns = calls->timing().median_ns;
    if (best && best_ns <= ns) continue;
    if (const Verdict verdict = checker.check_product(library.run(choice)); !verdict) {
      if (verdict.error().kind == Failure::Kind::crashed)
        return broke(choice, verdict.error().detail);
      refused.push_back({choice, verdict.error().detail});
      continue;
    }
    best = choice;
    best_ns = ns;
  }
  return best;
}

}  // namespace kiln
