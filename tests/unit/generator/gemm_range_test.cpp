// Ranges of a size: builders, text, rules, and what their problems have in common.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generator/problem/size.h"
#include "kiln/range.hpp"

namespace kiln::gemm_range_test {

using testing::HasSubstr;

Gemm layer() { return Gemm::row_major(1, 6144, 4096, DType::bf16).transpose_b(); }

std::string error_of(const auto& result) { return result ? std::string() : result.error().message; }

TEST(GemmRange, BuildersSetTheLargestAndTheSmallest) {
  const GemmRange m = layer().with_m(3, 8192);
  EXPECT_EQ(m.size, Size::m);
  EXPECT_EQ(m.first, 3);
  EXPECT_EQ(m.last(), 8192);
  EXPECT_EQ(m.at(77).m, 77);
  EXPECT_EQ(m.at(77).n, 6144);
  EXPECT_EQ(layer().with_n(1, 64).at(9).n, 9);
  EXPECT_EQ(layer().with_k(1, 64).at(9).k, 9);
}

TEST(GemmRange, TextAndBack) {
  const char* const line = "bf16 N T 1..8192 6144 4096";
  const auto range = parse_gemm_range(line);
  ASSERT_TRUE(range) << range.error().message;
  EXPECT_EQ(*range, layer().with_m(1, 8192));
  EXPECT_EQ(text(*range), line);
  for (const char* each : {"fp32 N N 7 3..9 5 ldb=20 ldd=11", "int8 T N 16 16 32..64 batch=3",
                           "  fp32 N N 5..5 6 7   # one"}) {
    const auto read = parse_gemm_range(each);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*parse_gemm_range(text(*read)), *read);
  }
}

TEST(GemmRange, KnowsALineOfARange) {
  EXPECT_TRUE(names_range("bf16 N T 1..8192 6144 4096"));
  EXPECT_FALSE(names_range("bf16 N T 1 6144 4096"));
  EXPECT_FALSE(names_range("bf16 N T 1 6144 4096 # 1..8192"));
}

TEST(GemmRange, BadInputIsNamed) {
  const auto why = [](const char* line) { return error_of(parse_gemm_range(line)); };
  EXPECT_THAT(why("bf16 N T 9..3 6144 4096"), HasSubstr("m = 9..3: the range is reversed"));
  EXPECT_THAT(why("bf16 N T 0..3 6144 4096"), HasSubstr("m = 0..3: a range begins at 1"));
  EXPECT_THAT(why("bf16 N T -4..3 6144 4096"), HasSubstr("m = -4..3"));
  EXPECT_THAT(why("bf16 N T 1.. 6144 4096"), HasSubstr("m = \"1..\""));
  EXPECT_THAT(why("bf16 N T 1..2..3 6144 4096"), HasSubstr("m = \"1..2..3\""));
  EXPECT_THAT(why("bf16 N T 1..8 2..6144 4096"), HasSubstr("one of m, n and k"));
  EXPECT_THAT(why("bf16 N T 1 6144 4096"), HasSubstr("one of m, n and k"));
  EXPECT_THAT(why("bf16 N T 1..99999999999999999999 6144 4096"), HasSubstr("m = "));
  EXPECT_THAT(why("fp32 T N 1..64 8 8 lda=32"), HasSubstr("lda = 32"));
  EXPECT_THAT(error_of(validate(layer().with_m(9, 3))), HasSubstr("reversed"));
  EXPECT_THAT(error_of(parse_gemm("bf16 N T 1..8 6144 4096")), HasSubstr("m = \"1..8\""));
}

TEST(GemmRange, ProblemsHaveTheRestInCommonInEverySpelling) {
  const Gemm plain = Gemm::row_major(100, 64, 48);
  Gemm spelt = plain;
  spelt.m = 7;
  spelt.a.ld = 48, spelt.d.ld = spelt.c.ld = 64, spelt.b.ld = 64;
  EXPECT_EQ(without_size(plain, Size::m), without_size(spelt, Size::m));
  Gemm wider = plain;
  wider.a.ld = 49;
  EXPECT_NE(without_size(plain, Size::m), without_size(wider, Size::m));
  // Where the size is the pitch, a pitch that is given is that of all sizes.
  Gemm columns = plain.transpose_a(), fixed = columns;
  fixed.a.ld = 100;
  EXPECT_NE(without_size(columns, Size::m), without_size(fixed, Size::m));
}

}  // namespace kiln::gemm_range_test
