// Kernels that write more than D, or D in another way, on the device itself: the largest magnitude
// beside D, rows that are added to rows of D, groups of k with scales of blocks. Some configs of
// every family that computes each problem, checked as the tuner checks them. On a machine without
// a GPU, that Hopper has kernels for them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "generator/render/render.h"
#include "runtime/compiler.h"
#include "runtime/cuda/device.h"
#include "runtime/gpu/device.h"
#include "tuner/worker/check.h"

namespace kiln::gpu_outputs_test {

constexpr const char* kProblems[] = {
    "bf16 N T 300 200 520 epilogue=bias_col+silu align=16 amax=1",
    "fp32 N N 130 70 200 amax=1",
    "fp8 N T 256 384 512 out=fp8_e4m3 scale=1x128:128x128 scale_d=tensor align=16 amax=1",
    "bf16 N T 500 256 200 groups=7 grouped=rows align=16 amax=1",
    "bf16 N T 500 256 200 groups=7 grouped=rows rows_of_d=150 align=16 scatter=add",
    "bf16 N T 500 256 200 groups=7 grouped=rows rows_of_d=150 align=16 scatter=weighted",
    "fp32 N N 300 100 70 groups=5 grouped=rows rows_of_d=90 scatter=weighted",
    "bf16_int4 N T 400 256 512 group=128 groups=8 grouped=rows rows_of_d=150 align=16 "
    "scatter=weighted",
    "fp8 N T 264 136 1040 groups=6 grouped=k scale=1x128 align=16",
    "fp8 N T 264 136 1040 groups=6 grouped=k scale=1x128:128x128 out=fp32 align=16",
    "fp8 N T 262 384 1024 scale=1x128:128x128 scale_order=blocks_4:lines align=16",
    "fp8 N T 300 256 1040 groups=5 grouped=rows scale=1x128 scale_order=blocks:blocks_4 align=16",
    "fp8 N T 150 256 1024 groups=3 grouped=masked scale=1x128:128x128 "
    "scale_order=blocks_4:lines align=16",
    "int8 N T 264 136 1040 groups=6 grouped=k align=16",
    "bf16 N T 264 136 1040 groups=6 grouped=k align=16"};

class GpuOutputs : public testing::TestWithParam<const char*> {};

constexpr int kOfEachFamily = 3;

/// Of every family's configs the first, one in the middle, the last, then others between them, in
/// whose place they are checked where the assembler serialises wgmma: such code is refused, in
/// searches too (docs/families/cuda_wgmma.md).
std::map<std::string_view, std::vector<Config>> some_of(const SearchSpace& space) {
  std::map<std::string_view, std::vector<Config>> all, some;
  for (const Config& config : space.legal) all[family_name(config)].push_back(config);
  for (const auto& [family, configs] : all)
    for (const std::size_t eighth : {0, 4, 8, 2, 6, 1, 3, 5, 7})
      some[family].push_back(configs[(configs.size() - 1) * eighth / 8]);
  return some;
}

TEST_P(GpuOutputs, AreRight) {
  const Gemm gemm = parse_gemm(GetParam()).value();
  EXPECT_TRUE(space_for(Problem::of(gemm).value(), cuda_caps_named("sm_90a").value()));
  const auto device = cuda::open_device(0);
  if (!device) GTEST_SKIP() << "no NVIDIA GPU: cuda:0 cannot be opened";
  const DeviceCaps caps = (*device)->caps();
  const auto space = space_for(Problem::of(gemm).value(), caps);
  if (!space) GTEST_SKIP() << caps.arch << " computes it by no family";
  const auto compiler = compiler_for(caps);
  ASSERT_TRUE(compiler) << compiler.error().message;
  auto checker = Checker::start(gemm, caps, {.seed = 5}).value();
  for (const auto& [family, configs] : some_of(*space)) {
    int checked = 0;
    for (const Config& config : configs) {
      if (checked == kOfEachFamily) break;
      const auto source = render(Problem::of(gemm).value(), caps, config);
      ASSERT_TRUE(source) << source.error().message;
      const auto binary = (*compiler)->compile(*source);
      if (!binary && binary.error().message.find("serialized") != std::string::npos) continue;
      ASSERT_TRUE(binary) << text(config) << ": " << binary.error().message;
      ++checked;
      const Verdict verdict = checker.check(config, *binary);
      EXPECT_TRUE(verdict) << text(gemm) << " | " << text(config) << ": " << verdict.error().detail;
    }
    EXPECT_EQ(checked, kOfEachFamily) << family;
  }
}

INSTANTIATE_TEST_SUITE_P(Problems, GpuOutputs, testing::ValuesIn(kProblems));

}  // namespace kiln::gpu_outputs_test
