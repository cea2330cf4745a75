// Batches of small products without a GPU: chosen cases of layouts, alignments and edges, and drawn
// problems with drawn configs of several targets, run lane by lane and checked as the tuner checks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "generator/families/cuda/small/config.h"
#include "support/prove.h"

namespace kiln::emulated_small_test {

using test::RandomGpuGemm;
using test::Target;

struct Case {
  const char* arch;
  const char* line;
  CudaSmall config;
};

constexpr auto kAsync = SmallCopy::async;
constexpr auto kShared = SmallStore::shared;

const Case kCases[] = {
    // One lane a product, and many.
    {"sm_90a",
     "fp32 N N 4 4 4 batch=70 align=16",
     {.products = 32, .lanes_m = 1, .lanes_n = 1, .copy = kAsync, .width = 16, .stages = 2}},
    {"sm_90a",
     "fp32 T T 20 24 12 batch=5 align=16",
     {.products = 1, .lanes_m = 10, .lanes_n = 12, .copy = kAsync, .width = 16, .turns = 0}},
    // Products whose lines and sizes are odd are copied as one run, the last ones of a batch too.
    {"sm_90a",
     "fp16 N T 5 7 3 batch=41 align=16 epilogue=bias_row+silu+residual",
     {.products = 16,
      .lanes_m = 5,
      .lanes_n = 1,
      .depth = 2,
      .copy = kAsync,
      .width = 16,
      .stages = 3,
      .store = kShared,
      .turns = 0}},
    {"sm_80",
     "bf16 N N 17 31 5 batch=19 align=16 out=fp32",
     {.products = 8,
      .lanes_m = 6,
      .lanes_n = 4,
      .depth = 4,
      .copy = kAsync,
      .width = 16,
      .store = kShared,
      .turns = 0}},
    // Lines and products with room between them.
    {"sm_90a",
     "fp32 N N 12 20 8 lda=12 ldb=24 ldc=21 ldd=23 stride_a=160 stride_b=200 stride_d=281 batch=11 "
     "align=16",
     {.products = 4, .lanes_m = 4, .lanes_n = 5, .copy = kAsync, .width = 16, .stages = 2}},
    {"sm_90a",
     "fp64 T N 7 9 10 lda=9 ldb=11 batch=9 align=8",
     {.products = 4,
      .lanes_m = 3,
      .lanes_n = 3,
      .depth = 3,
      .copy = kAsync,
      .width = 8,
      .stages = 2,
      .store = kShared}},
    // Without cp.async.
    {"sm_75",
     "fp16 N N 9 6 7 batch=13",
     {.products = 4, .lanes_m = 3, .lanes_n = 2, .depth = 2, .width = 2, .turns = 0}},
    {"sm_75",
     "fp32 T N 8 16 12 batch=10 align=16 epilogue=bias_col+gelu",
     {.products = 4, .lanes_m = 4, .lanes_n = 4, .width = 16, .store = kShared}},
    // Matrix instructions: rows and columns beyond the product's, several warps, doubles.
    {"sm_90a",
     "bf16 N N 19 24 32 batch=7 align=16",
     {.products = 2,
      .lanes_m = 8,
      .depth = 16,
      .matrix = true,
      .copy = kAsync,
      .width = 16,
      .stages = 2,
      .turns = 0}},
    {"sm_80",
     "fp16 T T 40 11 16 batch=5 align=16 epilogue=bias_row+relu",
     {.products = 2,
      .lanes_m = 16,
      .depth = 16,
      .matrix = true,
      .copy = kAsync,
      .width = 16,
      .store = kShared}},
    {"sm_90a",
     "fp64 N T 17 13 16 batch=5 align=16",
     {.products = 2,
      .lanes_m = 8,
      .depth = 8,
      .matrix = true,
      .copy = kAsync,
      .width = 16,
      .stages = 2}},
    {"sm_80",
     "fp64 T N 9 20 8 batch=5 align=8",
     {.products = 2, .lanes_m = 16, .depth = 8, .matrix = true, .copy = kAsync, .width = 8}},
    // What is stored beside D, and instead of it.
    {"sm_90a",
     "fp32 N N 8 8 8 batch=9 align=16 epilogue=y[batch,m,n]=max(acc,0);d=acc+b[n]",
     {.products = 8, .lanes_m = 2, .lanes_n = 2, .copy = kAsync, .width = 16, .store = kShared}},
};

TEST(Small, IsRight) {
  for (const Case& c : kCases) {
    const Gemm gemm = parse_gemm(c.line).value();
    DeviceCaps device = caps_named(c.arch).value();
    device.compute_units = 2;
    const std::string what = fmt::format("{} {} | {}", c.arch, c.line, text(Config(c.config)));
    ASSERT_EQ(broken_rule(Problem::of(gemm).value(), device, c.config), "") << what;
    const auto kernel = test::emulated_kernel(gemm, device, c.config);
    ASSERT_TRUE(kernel) << what << ": " << kernel.error().message;
    for (const std::uint64_t order : {0, 5}) {
      const Verdict verdict = test::verify_emulated(gemm, *kernel, order);
      EXPECT_TRUE(verdict) << what << " | order " << order << ": "
                           << (verdict ? "" : verdict.error().detail);
    }
  }
}

/// Of every type and layout, aligned or not, with and without room between lines and products.
Gemm drawn(RandomGpuGemm& random) {
  constexpr std::array kTypes{"fp32", "fp64", "fp16", "bf16"};
  constexpr std::array kLetters{"N", "T"};
  constexpr std::array kEpilogues{"", " epilogue=bias_row+relu", " epilogue=bias_col+gelu+residual",
                                  " epilogue=d=silu(acc)+b[n]"};
  const auto one_of = [&](const auto& all) { return all[random.below(all.size())]; };
  const auto size = [&]() -> std::uint64_t {
    return random.below(3) == 0 ? 8 * (1 + random.below(4)) : 1 + random.below(24);
  };
  std::string line = fmt::format("{} {} {} {} {} {}", one_of(kTypes), one_of(kLetters),
                                 one_of(kLetters), size(), size(), size());
  line += fmt::format(" batch={}{}", 16 + random.below(20), one_of(kEpilogues));
  if (random.below(3) != 0) line += " align=16";
  Gemm gemm = parse_gemm(line).value();
  if (random.below(3) != 0) return gemm;
  const auto longer = [&](Matrix& m, Operand which) {
    const int step = std::max(1, gemm.alignment / size_of(m.dtype));
    m.ld = leading_dimension(gemm, which) + std::int64_t(random.below(3));
    m.ld = (m.ld + step - 1) / step * step;
  };
  longer(gemm.a, Operand::a);
  longer(gemm.b, Operand::b);
  longer(gemm.d, Operand::d);
  return gemm;
}

class DrawnSmall : public testing::TestWithParam<const char*> {};

TEST_P(DrawnSmall, SampledConfigsAreRight) {
  test::prove(
      {.arch = GetParam(), .family = "cuda_small", .configs = 12, .largest = 32, .units = 2},
      drawn);
}

INSTANTIATE_TEST_SUITE_P(Targets, DrawnSmall, testing::Values("sm_75", "sm_80", "sm_90a"));

}  // namespace kiln::emulated_small_test
