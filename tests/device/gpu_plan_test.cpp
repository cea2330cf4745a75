// A plan's tensor maps are of the addresses of a call, those of scales too. Without a GPU of sm_90a
// each test says SKIPPED.
#include "engine/gpu_plan.h"

#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cuda/wgmma/config.h"
#include "generator/render/render.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/nvrtc_compiler.h"

namespace kiln::gpu_plan_test {

TEST(GpuPlan, ScalesAtOtherAddressesAreOtherScales) {
  const auto opened = cuda::open_device(0);
  if (!opened || !(*opened)->caps().gpu.arch_specific || (*opened)->caps().gpu.sm != 90)
    GTEST_SKIP() << "no GPU of sm_90a";
  const gpu::SharedDevice& device = *opened;
  const auto compiler = nvrtc_compiler();
  if (!compiler) GTEST_SKIP() << compiler.error().message;
  const Gemm gemm = parse_gemm("fp8 N T 128 64 512 scale=1x128:128x128 align=16 out=fp32").value();
  const Config config = CudaWgmma{
      .left = 128, .right = 64, .stages = 3, .warpgroups = 2, .promote = true, .tma_scales = true};
  const auto binary =
      (*compiler)->compile(render(Problem::of(gemm).value(), device->caps(), config).value());
  ASSERT_TRUE(binary) << binary.error().message;
  const auto resources = std::make_shared<GpuResources>(device);
  const auto plan = GpuPlan::make(resources, resources->module(binary->image).value(),
                                  Problem::of(gemm).value(), device->caps(), config);
  ASSERT_TRUE(plan) << plan.error().message;

  const auto on_device = [&](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    auto memory = gpu::DeviceBuffer::make(device, bytes.size()).value();
    EXPECT_TRUE(gpu::upload(*device, memory.pointer(), bytes));
    return memory;
  };
  constexpr unsigned char kOne = 0x38;  // e4m3
  const auto a = on_device(std::vector<unsigned char>(128 * 512, kOne));
  const auto b = on_device(std::vector<unsigned char>(64 * 512, kOne));
  const auto d = on_device(std::vector<float>(128 * 64));
  const auto ones = on_device(std::vector<float>(128 * 4, 1.0f));
  const auto twos = on_device(std::vector<float>(128 * 4, 2.0f));
  std::vector<float> host(128 * 64);
  for (const auto& [scale_a, scale_b, want] :
       {std::tuple{&ones, &ones, 512.0f}, {&twos, &ones, 1024.0f}, {&twos, &twos, 2048.0f}}) {
    const Status ran = (*plan)->run({.a = a.data(),
                                     .b = b.data(),
                                     .d = d.data(),
                                     .scale_a = scale_a->data(),
                                     .scale_b = scale_b->data()});
    ASSERT_TRUE(ran) << ran.error().message;
    const gpu::Guest guest(*device);
    device->driver().cuCtxSynchronize();
    device->driver().cuMemcpyDtoH(host.data(), d.pointer(), host.size() * sizeof(float));
    EXPECT_EQ(host, std::vector<float>(host.size(), want));
  }
}

}  // namespace kiln::gpu_plan_test
