// hip_simt on operands with scales without a GPU, lane by lane: exact data with random scales,
// every element of D must be equal.
#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "generator/families/hip/simt/config.h"
#include "support/emulated.h"

namespace kiln::emulated_scaled_simt_test {

/// Every kind of scales, in layouts and on targets that no matrix instruction serves.
TEST(EmulatedScaledSimt, EveryKindAndLayoutIsRight) {
  const DeviceCaps device = caps_named("gfx942").value();
  const std::pair<Scale, Scale> kinds[] = {{Scale::mx_32, Scale::mx_32},
                                           {Scale::line, Scale::none},
                                           {Scale::line_128, Scale::square_128}};
  constexpr DType kFormats[] = {fp8_e5m2, fp6_e2m3, fp6_e3m2, fp4_e2m1};
  int proven = 0;
  for (const auto& [a, b] : kinds)
    for (int turn = 0; turn < 4; ++turn) {
      std::mt19937_64 random(static_cast<std::uint64_t>(proven) + 1);
      const auto below = [&](std::uint64_t limit) { return std::int64_t(random() % limit); };
      const DType type =
          a != Scale::mx_32 ? (turn % 2 == 0 ? fp8_e4m3 : fp8_e4m3fnuz) : kFormats[turn];
      Gemm gemm = Gemm::row_major(16 + 4 * below(8), 8 + 4 * below(30), 288, type)
                      .scaled(a, b)
                      .batched(1 + turn % 2);
      if (turn % 2 == 0) gemm = gemm.transpose_a();
      if (turn < 2) gemm = gemm.transpose_b();
      if (turn == 3) gemm.c.order = gemm.d.order = Order::column_major;
      ASSERT_TRUE(validate(gemm)) << text(gemm) << ": " << validate(gemm).error().message;
      const Config config = HipSimt{.tile_m = 32, .tile_n = 32, .tile_k = 16};
      const auto kernel = test::emulated_kernel(gemm, device, config);
      ASSERT_TRUE(kernel) << text(gemm) << ": " << kernel.error().message;
      const Verdict verdict = test::verify_emulated(gemm, *kernel, 0);
      EXPECT_TRUE(verdict) << text(gemm) << ": " << (verdict ? "" : verdict.error().detail);
      ++proven;
    }
}

}  // namespace kiln::emulated_scaled_simt_test
