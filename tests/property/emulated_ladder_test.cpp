// The rungs of `kiln bench --ladder`, lane by lane without a GPU: each gives right results on a
// ragged shape of the ladder's layouts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "bench/ladder.h"
#include "support/emulated.h"

namespace kiln::emulated_ladder_test {

/// The ladder's own shape, smaller: several tiles, none of them whole at the edges, pitches as
/// aligned as the ladder's.
Gemm smaller(const Ladder& ladder) {
  Gemm g = parse_gemm(ladder.shape).value();
  g.m = 150;
  g.n = 264;
  g.k = 88;
  return g;
}

/// Ladders may be of families that this build leaves out.
bool family_known(std::string_view config) {
  for (const Family& family : families())
    if (config.starts_with(std::string(family.name) + ' ')) return true;
  return false;
}

TEST(EmulatedLadder, EveryRungIsRight) {
  DeviceCaps device = caps_named("sm_90a").value();
  device.compute_units = 3;
  std::uint64_t order = 0;
  int climbed = 0;
  for (const Ladder& ladder : ladders())
    for (const Rung& rung : ladder.rungs) {
      if (!family_known(rung.config)) continue;
      ++climbed;
      const auto config = parse_config(rung.config);
      ASSERT_TRUE(config) << config.error().message;
      const auto kernel = test::emulated_kernel(smaller(ladder), device, *config);
      ASSERT_TRUE(kernel) << rung.name << ": " << kernel.error().message;
      const Verdict verdict =
          test::verify_emulated(smaller(ladder), *kernel, order++, Effort::usual);
      EXPECT_TRUE(verdict) << rung.name << ": " << (verdict ? "" : verdict.error().detail);
    }
  EXPECT_GE(climbed, 15);
}

}  // namespace kiln::emulated_ladder_test
