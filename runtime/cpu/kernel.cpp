#include "runtime/cpu/kernel.h"

#include <string>
#include <utility>

namespace kiln {
Result<HostKernel> HostKernel::load(std::span<const std::byte> image) {
  auto loaded = LoadedImage::load(image);
  if (!loaded) return tl::unexpected(loaded.error());
  HostKernel kernel;
  kernel.image_ = std::move(*loaded);
  const auto bind = [&]<typename F>(F& function, const char* name) {
    function = reinterpret_cast<F>(kernel.image_.symbol(name));
  };
  bind(kernel.gemm, "kiln_gemm");
  bind(kernel.workspace_bytes, "kiln_workspace_bytes");
  bind(kernel.threads, "kiln_threads");
  bind(kernel.direct, "kiln_direct");
  bind(kernel.reduce[0], "kiln_reduce");
  bind(kernel.reduce[1], "kiln_reduce_rest");
  bind(kernel.reduce[2], "kiln_behind");
  if (kernel.gemm == nullptr) return not_a_kernel("no entry point kiln_gemm");
  if (kernel.workspace_bytes == nullptr) return not_a_kernel("no entry point kiln_workspace_bytes");
  return kernel;
}

HostKernel::HostKernel(HostKernel&& other) noexcept
    : gemm(std::exchange(other.gemm, nullptr)),
      workspace_bytes(std::exchange(other.workspace_bytes, nullptr)),
      threads(std::exchange(other.threads, nullptr)),
      direct(std::exchange(other.direct, nullptr)),
      reduce(std::exchange(other.reduce, {})),
      image_(std::move(other.image_)) {}

HostKernel& HostKernel::operator=(HostKernel&& other) noexcept {
  std::swap(gemm, other.gemm);
  std::swap(workspace_bytes, other.workspace_bytes);
  std::swap(threads, other.threads);
  std::swap(direct, other.direct);
  std::swap(reduce, other.reduce);
  std::swap(image_, other.image_);
  return *this;
}

HostKernel::~HostKernel() = default;

}  // namespace kiln
