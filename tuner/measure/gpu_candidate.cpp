#include "tuner/measure/gpu_candidate.h"

#include "generator/space/family.h"

namespace kiln {

Result<GpuCandidate> GpuCandidate::load(const GpuTools& tools, std::span<const std::byte> image,
                                        const Gemm& gemm, const DeviceCaps& caps,
                                        const Config& config) {
  auto module = gpu::GpuModule::load(tools.device(), image);
  if (!module) return tl::unexpected(module.error());
  return bind(tools, std::move(*module), gemm, caps, config);
}

Result<GpuCandidate> GpuCandidate::on(const Gemm& gemm) const {
  return bind(*tools_, module_, gemm, caps_, config_);
}

Result<GpuCandidate> GpuCandidate::bind(const GpuTools& tools, gpu::SharedModule module,
                                        const Gemm& gemm, const DeviceCaps& caps,
                                        const Config& config) {
  // Noise, where the kernel does not rely on zeros: a sum that starts from it is found out.
  constexpr std::uint64_t kNoise = 0x7ffdeadb7fdeadbe;
  GpuLaunch launch = family_of(config, caps.vendor).launch(Problem::of(gemm).value(), caps, config);
  const auto bytes = static_cast<std::size_t>((launch.workspace_bytes + 7) / 8 * 8);
  const auto zeroed = static_cast<std::size_t>((launch.zeroed_bytes + 7) / 8 * 8);
  auto workspace = gpu::DeviceBuffer::make(tools.device(), bytes);
  if (!workspace) return tl::unexpected(workspace.error());
  Status ok;
  if (bytes > 0) ok = tools.poison(workspace->data(), bytes, kNoise);
  if (ok && zeroed > 0) ok = tools.poison(workspace->data(), zeroed, 0);
  if (!ok) return tl::unexpected(ok.error());
  auto kernel = gpu::GpuKernel::make(module, std::move(launch));
  if (!kernel) return tl::unexpected(kernel.error());
  return GpuCandidate(tools, std::move(module), caps, config, std::move(*kernel),
                      std::move(*workspace));
}

RunOnGpu GpuCandidate::run() const {
  return [kernel = kernel_.get(), workspace = workspace_.bytes() > 0 ? workspace_.data() : nullptr](
             KilnGpuArgs args, gpu::Stream stream) {
    args.workspace = workspace;
    return kernel->run(args, stream);
  };
}

}  // namespace kiln
