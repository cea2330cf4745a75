// What the CUDA families say of the order in which they sum, on the device itself: the emulator
// knows neither how wide its tensor cores add nor how its compiler fuses.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/gpu_plan.h"
#include "engine/gpu_resources.h"
#include "generator/render/render.h"
#include "runtime/compiler.h"
#include "runtime/cuda/device.h"
#include "support/orders.h"

namespace kiln::gpu_summation_test {

using test::difference;
using test::Pair;
using test::pairs_of;
using test::Run;

/// A kernel that is called with operands of the host.
Result<Run> started(const std::shared_ptr<GpuResources>& gpu, const Gemm& gemm,
                    const DeviceCaps& caps, const Config& config) {
  const auto source = render(Problem::of(gemm).value(), caps, config);
  if (!source) return tl::unexpected(source.error());
  const auto compiler = compiler_for(caps);
  if (!compiler) return tl::unexpected(compiler.error());
  const auto binary = (*compiler)->compile(*source);
  if (!binary) return tl::unexpected(binary.error());
  auto module = gpu->module(binary->image);
  if (!module) return tl::unexpected(module.error());
  auto made = GpuPlan::make(gpu, std::move(*module), Problem::of(gemm).value(), caps, config);
  if (!made) return tl::unexpected(made.error());
  const std::shared_ptr<GpuPlan> plan = std::move(*made);
  return [gpu, gemm, plan](const Operands& host) -> Status {
    const gpu::Guest guest(*gpu->device());
    const auto& driver = gpu->device()->driver();
    std::vector<gpu::DeviceBuffer> buffers;
    const auto moved = [&](Operand which, const void* from) -> std::byte* {
      if (from == nullptr) return nullptr;
      const auto bytes = static_cast<std::size_t>(span_bytes(gemm, which));
      buffers.push_back(gpu::DeviceBuffer::make(gpu->device(), bytes).value());
      EXPECT_TRUE(gpu::upload(*gpu->device(), buffers.back().pointer(),
                              {static_cast<const std::byte*>(from), bytes}));
      return buffers.back().data();
    };
    Operands operands = host;
    operands.a = moved(Operand::a, host.a);
    operands.b = moved(Operand::b, host.b);
    operands.c = moved(Operand::c, host.c);
    operands.bias = moved(Operand::bias, host.bias);
    operands.residual = moved(Operand::residual, host.residual);
    operands.scale_a = moved(Operand::scale_a, host.scale_a);
    operands.scale_b = moved(Operand::scale_b, host.scale_b);
    operands.d = moved(Operand::d, host.d);
    if (Status ran = plan->run(operands); !ran) return ran;
    driver.cuCtxSynchronize();
    driver.cuMemcpyDtoH(host.d, buffers.back().pointer(), buffers.back().bytes());
    return {};
  };
}

class GpuSummation : public testing::TestWithParam<const char*> {};

TEST_P(GpuSummation, OfOneTextGivesTheSameBits) {
  const auto device = cuda::open_device(0);
  if (!device) GTEST_SKIP() << "no NVIDIA GPU: cuda:0 cannot be opened";
  const auto gpu = std::make_shared<GpuResources>(*device);
  const test::Start start = [&](const Gemm& gemm, const DeviceCaps& caps, const Config& config) {
    return started(gpu, gemm, caps, config);
  };
  std::mt19937_64 random(test::seed_of_run());
  const Gemm gemm = parse_gemm(GetParam()).value();
  int compared = 0;
  for (const Pair& pair : pairs_of(gemm, (*device)->caps(), test::stated_order,
                                   6 * std::size_t(test::thorough()), random)) {
    const auto found = difference(pair, (*device)->caps(), start);
    EXPECT_FALSE(found) << text_of(pair) << ": " << *found;
    ++compared;
  }
  EXPECT_GT(compared, 0) << GetParam();
}

INSTANTIATE_TEST_SUITE_P(
    Types, GpuSummation,
    testing::Values("bf16 N T 600 520 4096 align=16",
                    "bf16 N N 300 264 1032 epilogue=bias_col+silu align=16",
                    "fp16 N T 333 77 555 out=fp32", "fp16 T N 140 200 800 order=column",
                    "fp8 N T 512 512 2048 align=16", "fp8 N T 512 512 2048 align=16 numerics=fast",
                    "fp8 N T 200 256 1024 scale=1x128 align=16", "tf32 N T 260 132 900 align=16",
                    "tf32 T N 260 132 900 align=16", "fp32 N N 300 200 700",
                    "fp32 N T 260 132 900 numerics=tensor", "fp64 N N 150 96 500 align=16",
                    "int8 N T 300 128 512 align=16"));

}  // namespace kiln::gpu_summation_test
