// Kernels on microscaled blocks without a GPU: every pair of formats, both instructions, sampled
// configs of random ragged problems, run lane by lane and checked as the tuner checks: on exact
// data with random scales every element of D must be equal.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "generator/families/hip/mx/config.h"
#include "generator/problem/extent.h"
#include "support/emulated.h"
#include "support/seed.h"
#include "support/space.h"

namespace kiln::emulated_mx_test {

constexpr DType kFormats[] = {fp8_e4m3, fp8_e5m2, fp6_e2m3, fp6_e3m2, fp4_e2m1};

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(limit));
  }
  bool one_in(std::int64_t n) { return below(n) == 0; }

 private:
  std::mt19937_64 random_;
};

/// Operands along k, ragged sizes, k from less than a stage to several.
Gemm problem(Draw& draw, DType a, DType b) {
  Gemm g = Gemm::row_major(1 + draw.below(90), 1 + draw.below(90), 32 * (1 + draw.below(20)), a)
               .transpose_b()
               .scaled(Scale::mx_32);
  g.b.dtype = b;
  constexpr DType kOutputs[] = {bf16, fp16, fp32};
  g = g.output(kOutputs[draw.below(3)]);
  if (draw.one_in(3)) g.c.order = g.d.order = Order::column_major;
  if (draw.one_in(4)) g.batch = 2;
  if (draw.one_in(3)) g.epilogue.bias = draw.one_in(2) ? Bias::per_row : Bias::per_column;
  if (draw.one_in(4)) g.epilogue.activation = Activation::relu;
  // Whole bytes of both at least; at most what buffer loads take at once.
  const std::int64_t bytes = std::int64_t{1} << draw.below(5);
  for (Matrix* m : g.matrices()) {
    const Operand which = m == &g.a   ? Operand::a
                          : m == &g.b ? Operand::b
                          : m == &g.c ? Operand::c
                                      : Operand::d;
    // Elements that fill a multiple of so many bytes.
    const int bits = bits_of(m->dtype);
    const std::int64_t step = bits == 6 ? 4 * bytes : std::max<std::int64_t>(1, bytes * 8 / bits);
    const auto up = [&](std::int64_t x) { return (x + step - 1) / step * step; };
    m->ld = up(leading_dimension(g, which) + draw.below(3) * 7);
    if (g.batch > 1) m->batch_stride = up(batch_stride(g, which) + draw.below(40));
  }
  g.alignment = static_cast<int>(bytes);
  if (!validate(g)) g.alignment = 1;
  return g;
}

class EmulatedMx : public testing::TestWithParam<int> {};

TEST_P(EmulatedMx, EveryPairOfFormatsIsRight) {
  const int rows = GetParam();
  DeviceCaps device = caps_named("gfx950").value();
  device.compute_units = 6;
  std::uint64_t seed = test::seed_of_run() + 100 * static_cast<std::uint64_t>(rows);
  int proven = 0, pair = 0;
  const bool all = test::thorough() > 1;
  for (const DType a : kFormats)
    for (const DType b : kFormats) {
      // Every pair on one of the two instructions; on both where more is asked for.
      if (const bool mine = pair++ % 2 == rows / 16 % 2; !mine && !all) continue;
      Draw draw(++seed);
      const Gemm gemm = problem(draw, a, b);
      ASSERT_TRUE(validate(gemm)) << text(gemm) << ": " << validate(gemm).error().message;
      const auto space = test::space_of(gemm, device);
      ASSERT_TRUE(space) << space.error().message;
      std::vector<Config> mine;
      for (const Config& config : space->legal)
        if (const auto c = config.if_is<HipMx>(); c && c->rows == rows) mine.push_back(config);
      ASSERT_FALSE(mine.empty()) << text(gemm);
      const Config& config =
          mine[static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(mine.size())))];
      const std::string what =
          fmt::format("KILN_SEED={}: {} | {}", test::seed_of_run(), text(gemm), text(config));
      const auto kernel = test::emulated_kernel(gemm, device, config);
      ASSERT_TRUE(kernel) << what << ": " << kernel.error().message;
      const Verdict verdict =
          test::verify_emulated(gemm, *kernel, proven % 4 == 0 ? 0 : seed, Effort::full);
      EXPECT_TRUE(verdict) << what << ": " << (verdict ? "" : verdict.error().detail);
      ++proven;
    }
  EXPECT_EQ(proven, all ? 25 : rows == 16 ? 12 : 13);
}

INSTANTIATE_TEST_SUITE_P(Instructions, EmulatedMx, testing::Values(16, 32));

}  // namespace kiln::emulated_mx_test
