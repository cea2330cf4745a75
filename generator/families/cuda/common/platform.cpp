// What all kernels for NVIDIA's GPUs share.
#include "generator/space/platform.h"

#include <array>

namespace kiln::cuda {
namespace {

std::vector<std::string> flags(const DeviceCaps& device) {
  return {"--gpu-architecture=" + device.arch, "--std=c++17"};
}

std::string_view refuses(const Gemm& g) {
  const auto is_fnuz = [](DType t) { return t == fp8_e4m3fnuz || t == fp8_e5m2fnuz; };
  return is_fnuz(g.a.dtype) || is_fnuz(g.b.dtype) ? "NVIDIA devices have no fnuz formats" : "";
}

constexpr std::array<std::string_view, 9> kCheckFiles{
    "cuda/common/abi.h",    "cuda/common/types.h",    "cuda/common/convert_ptx.h",
    "cuda/check/check.cu",  "cuda/check/functions.h", "cuda/check/intervals.h",
    "cuda/check/reduced.h", "cuda/check/judge.cu",    "cuda/check/judge_expression.cu"};

}  // namespace

Platform platform() {
  return {.vendor = Vendor::nvidia,
          .extension = "cu",
          .command = "nvcc -cubin {flags} -o kernel.cubin {file}",
          .flags = flags,
          .refuses = refuses,
          .check_files = kCheckFiles,
          .emulation = Emulation{.keywords = "emu/cuda_keywords.h",
                                 .wrappers = "emu/cuda_wrappers.h",
                                 .wrapper_headers = "_ptx.h"}};
}

}  // namespace kiln::cuda
