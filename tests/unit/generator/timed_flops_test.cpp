// The work from which rates are printed, where a problem alone does not say it.
#include "generator/problem/timed_flops.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

double of(const char* line) { return timed_flops(parse_gemm(line).value()); }

TEST(TimedFlops, OfWholeProductsAreAll) {
  EXPECT_EQ(of("fp32 N N 10 20 30"), 2 * 10 * 20 * 30);
  EXPECT_EQ(of("bf16 N T 10 20 30 batch=4 gate=silu"), 4 * 2 * 2 * 10 * 20 * 30);
  EXPECT_EQ(of("bf16 N T 100 20 30 groups=4 grouped=rows"), 2 * 100 * 20 * 30);
}

TEST(TimedFlops, OfMaskedGroupsAreThoseOfTheRowsExpected) {
  EXPECT_EQ(of("bf16 N T 100 20 30 groups=4 grouped=masked expected_rows=25"),
            4 * 2 * 25 * 20 * 30);
  EXPECT_EQ(of("bf16 N T 100 20 30 groups=4 grouped=masked"), 4 * 2 * 50 * 20 * 30);
  EXPECT_EQ(of("bf16 N T 0 20 30 groups=4 grouped=masked"), 0);
}

// Each size is half of the largest to all of it.
TEST(TimedFlops, OfAListAreThoseOfUsualSizes) {
  EXPECT_EQ(of("bf16 N T 100 200 400 groups=4 grouped=list"), 4.0 * 2 * 75 * 150 * 300);
}

}  // namespace
}  // namespace kiln
