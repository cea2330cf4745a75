// host_amx on machines without AMX: its rendered code, with the tile registers in memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "generator/families/cpu/amx/config.h"
#include "generator/problem/gemm_types.h"
#include "generator/render/code_key.h"
#include "generator/render/render.h"
#include "generator/space/space.h"
#include "runtime/cpu/cpu.h"
#include "support/host_compiler.h"
#include "support/proofs.h"
#include "support/random_gemm.h"
#include "support/space.h"
#include "support/tiles.h"
#include "tuner/measure/bound_kernel.h"
#include "tuner/verify/verify.h"

namespace kiln::emulated_tiles_test {

Result<Source> emulated(const Gemm& gemm, const DeviceCaps& device, const HostAmx& config) {
  const Gemm canonical = Problem::of(gemm).value().gemm;
  const DType a = canonical.a.dtype, b = canonical.b.dtype;
  return test::with_tiles_in_memory(render(Problem::of(gemm).value(), device, config),
                                    config.swap ? b : a, config.swap ? a : b);
}

/// Some configs of the family, drawn.
std::vector<HostAmx> configs(const Gemm& gemm, const DeviceCaps& device, test::RandomGemm& random,
                             std::size_t count) {
  std::vector<HostAmx> all, drawn;
  const auto space = test::space_of(gemm, device);
  if (!space) return {};
  for (const Config& config : space->legal)
    if (const auto amx = config.if_is<HostAmx>()) all.push_back(*amx);
  while (!all.empty() && drawn.size() < count) drawn.push_back(all[random.below(all.size())]);
  return drawn;
}

class EmulatedTiles : public testing::TestWithParam<int> {};

bool runs_the_rest() {
  const CpuFeatures here = detect_cpu().value().cpu;
  return here.avx512 && here.avx512_bf16 && here.avx512_vnni;
}
constexpr const char* kNeeds = "the rest of the code needs AVX-512 with BF16 and VNNI";

void expect_right(const Gemm& gemm, const DeviceCaps& device, const HostAmx& config) {
  const std::string what = text(gemm) + ", " + text(Config(config));
  const auto source = emulated(gemm, device, config);
  ASSERT_TRUE(source) << what << ": " << source.error().message;
  const auto check = [&]() -> std::string {
    const auto binary = test::compiler().compile(*source);
    if (!binary) return binary.error().message;
    BoundKernel kernel(HostKernel::load(binary->image).value(), config, gemm, device);
    const Verdict verdict = verify(
        gemm, [&](const Operands& operands) { return kernel.run(operands); }, {},
        flushed_by(gemm, device, config));
    return verdict ? std::string() : verdict.error().detail;
  };
  const std::string asked =
      fmt::format("{} {} {} {} {}", code_key(*source), text(Config(config)), text(gemm),
                  device.compute_units, test::host_sources() + test::emulation_sources());
  EXPECT_EQ(test::proof(asked, check, 8), "") << what;
}

TEST_P(EmulatedTiles, AreRightForEveryProblem) {
  if (!runs_the_rest()) GTEST_SKIP() << kNeeds;
  DeviceCaps device = cpu_caps_named("amx").value();
  test::RandomGemm random(static_cast<std::uint64_t>(GetParam()), 150);
  int kernels = 0;
  for (const TypeRow& row : kCpuTypeRows) {
    Gemm gemm = random.next(row);
    if (gemm.d.order == Order::row_major && random.one_in(2)) gemm.b_packed = true;
    device.compute_units = 1 + static_cast<int>(random.below(2));
    for (const HostAmx& config : configs(gemm, device, random, 2)) {
      expect_right(gemm, device, config);
      ++kernels;
    }
  }
  EXPECT_GE(kernels, 4);
}

// Kernels are called for parts of k of any length, and for none.
TEST_P(EmulatedTiles, AreRightForGroupsOfK) {
  if (!runs_the_rest()) GTEST_SKIP() << kNeeds;
  DeviceCaps device = cpu_caps_named("amx").value();
  test::RandomGemm random(static_cast<std::uint64_t>(GetParam()) + 50, 150);
  int kernels = 0;
  for (const TypeRow& row : kCpuTypeRows) {
    Gemm gemm = random.next(row);
    gemm.c.order = gemm.d.order = Order::row_major;
    gemm = gemm.grouped(4, Grouping::k);
    gemm.a.ld = gemm.b.ld = gemm.c.ld = gemm.d.ld = 0;
    if (!validate(gemm)) continue;
    device.compute_units = 1 + static_cast<int>(random.below(2));
    for (const HostAmx& config : configs(gemm, device, random, 1)) {
      expect_right(gemm, device, config);
      ++kernels;
    }
  }
  EXPECT_GE(kernels, 1);
}

// Rows of a narrow D without gaps are finished as one.
TEST(EmulatedTilesOfFewColumns, AreRight) {
  if (!runs_the_rest()) GTEST_SKIP() << kNeeds;
  const DeviceCaps device = cpu_caps_named("amx").value();
  for (const DType dtype : {bf16, s8})
    for (const int n : {1, 5, 8, 9})
      for (const bool gap : {false, true}) {
        Gemm gemm = Gemm::row_major(77, n, 21, dtype);
        gemm.d.ld = gemm.c.ld = n + gap;
        if (n == 8) gemm.epilogue = {.bias = Bias::per_column, .activation = Activation::relu};
        HostAmx config{.mt = 2, .nt = 1, .kc = 64, .nc = 16, .mc = 32};
        config.any_epilogue = n == 8;
        ASSERT_EQ(broken_rule(Problem::of(gemm).value(), device, config), "") << text(gemm);
        expect_right(gemm, device, config);
      }
}
// But where what follows the product asks for an element's row or column.
TEST(EmulatedTilesOfFewColumns, AreRightBeforeExpressions) {
  if (!runs_the_rest()) GTEST_SKIP() << kNeeds;
  const DeviceCaps device = cpu_caps_named("amx").value();
  for (const char* text : {"d=acc+b[n]", "d=acc+b[m]", "d=acc+n", "d=relu(acc)", "d=acc+s[]"}) {
    const Gemm gemm =
        Gemm::row_major(77, 5, 21, bf16).with_expression(Expression::parse(text).value());
    const HostAmx config{.mt = 2, .nt = 1, .kc = 64, .nc = 16, .mc = 32};
    ASSERT_EQ(broken_rule(Problem::of(gemm).value(), device, config), "") << text;
    expect_right(gemm, device, config);
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, EmulatedTiles, testing::Range(1, 6));

}  // namespace kiln::emulated_tiles_test
