// Ranges and steps of sizes as people write them, and the pictures of their races.
#include "bench/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tuner/measure/roofline.h"

namespace kiln::sweep_test {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::int64_t> values(std::string_view text) {
  const auto all = sweep_values("m", text);
  EXPECT_TRUE(all) << all.error().message;
  return all.value_or(std::vector<std::int64_t>{});
}

TEST(SweepValues, EveryForm) {
  EXPECT_THAT(values("512"), ElementsAre(512));
  EXPECT_THAT(values("1,7,64"), ElementsAre(1, 7, 64));
  EXPECT_THAT(values("64:256:64"), ElementsAre(64, 128, 192, 256));
  EXPECT_THAT(values("1:8:3"), ElementsAre(1, 4, 7));
  EXPECT_THAT(values("3:5"), ElementsAre(3, 4, 5));
  EXPECT_THAT(values("64..512"), ElementsAre(64, 128, 256, 512));
  EXPECT_THAT(values("3..20"), ElementsAre(3, 6, 12));
  EXPECT_THAT(values("2^6..2^8"), ElementsAre(64, 128, 256));
  EXPECT_THAT(values("1..1000*10"), ElementsAre(1, 10, 100, 1000));
  EXPECT_THAT(values("1..5*1.5"), ElementsAre(1, 2, 3, 5));
  EXPECT_THAT(values("7,64:128:64,2^10"), ElementsAre(7, 64, 128, 1024));
}

TEST(SweepValues, WhatIsNoneIsNamed) {
  for (const char* text : {"", "x", "0", "-4", "1,,2", "8:1:1", "8..1", "1:8:0", "1..8*1", "1..8*x",
                           "2^99", "64:", "..8", "1:2:3:4", "1..8*nan"}) {
    const auto all = sweep_values("k", text);
    ASSERT_FALSE(all) << text;
    EXPECT_THAT(all.error().message, HasSubstr("k = \"" + std::string(text) + "\""));
  }
  EXPECT_THAT(sweep_values("m", "1:100000").error().message, HasSubstr("more than 10000 values"));
}

std::vector<std::string> lines(std::string_view line, const SweepValues& sizes) {
  std::vector<std::string> all;
  const auto gemms = sweep_gemms(line, sizes);
  EXPECT_TRUE(gemms) << gemms.error().message;
  if (gemms)
    for (const Gemm& gemm : *gemms) all.push_back(text(gemm));
  return all;
}

TEST(SweepGemms, AllCombinationsOfTheLetters) {
  EXPECT_THAT(lines("float n t m n 512 epilogue=relu", {{{1, 2}, {8, 9}, {}}}),
              ElementsAre("fp32 N T 1 8 512 epilogue=relu", "fp32 N T 1 9 512 epilogue=relu",
                          "fp32 N T 2 8 512 epilogue=relu", "fp32 N T 2 9 512 epilogue=relu"));
  EXPECT_THAT(lines("fp32 N N m m m", {{{4, 8}, {}, {}}}),
              ElementsAre("fp32 N N 4 4 4", "fp32 N N 8 8 8"));
}

TEST(SweepGemms, WhatDoesNotFitIsNamed) {
  const auto message = [](std::string_view line, const SweepValues& sizes) {
    return sweep_gemms(line, sizes).error().message;
  };
  EXPECT_THAT(message("fp32 N N m n k", {{{1}, {}, {1}}}), HasSubstr("n has no values"));
  EXPECT_THAT(message("fp32 N N 1 2 k", {{{1}, {}, {1}}}), HasSubstr("no m among its sizes"));
  EXPECT_THAT(message("fp32 N N m", {{{1}, {}, {}}}), HasSubstr("dtype ta tb m n k"));
  EXPECT_THAT(message("fp31 N N m m m", {{{1}, {}, {}}}), HasSubstr("dtype = \"fp31\""));
  const std::vector<std::int64_t> many(200, 1);
  EXPECT_THAT(message("fp32 N N m n k", {{many, many, many}}), HasSubstr("8000000 problems"));
}

TEST(SweepPicture, APanelForEachOfTheOthers) {
  BenchReport report;
  for (const std::int64_t k : {16, 32})
    for (const std::int64_t m : {1, 2, 4, 8}) {
      ContestResult row;
      row.gemm = Gemm::row_major(m, 64, k);
      row.kiln = {100, 99, 101, 9};
      row.peers["blas"] = {200, 199, 201, 9};
      row.peak_flops = 1e11;
      report.rows.push_back(row);
    }
  const std::string svg = sweep_svg(report);
  EXPECT_THAT(svg, testing::StartsWith("<svg "));
  EXPECT_THAT(svg, testing::AllOf(HasSubstr("fp32 N N m 64 16, 1 thread"),
                                  HasSubstr("fp32 N N m 64 32, 1 thread"), HasSubstr(">blas<"),
                                  HasSubstr("GFLOP/s")));
}

TEST(Traffic, EachOperandOnce) {
  EXPECT_EQ(least_bytes(Gemm::row_major(2, 3, 4)), 4 * (2 * 4 + 4 * 3 + 2 * 3));
  EXPECT_EQ(least_bytes(Gemm::row_major(2, 3, 4).batched(5)), 5 * 4 * (2 * 4 + 4 * 3 + 2 * 3));
  const Gemm with_terms =
      Gemm::row_major(2, 3, 4).batched(5).with_bias(Bias::per_column).with_residual();
  EXPECT_EQ(least_bytes(with_terms), 5 * 4 * (2 * 4 + 4 * 3 + 2 * 3 + 2 * 3) + 4 * 3);
  EXPECT_DOUBLE_EQ(intensity(Gemm::row_major(64, 64, 64)), 2.0 * 64 / 12);
  EXPECT_EQ(intensity(Gemm::row_major(0, 0, 0)), 0);
}

}  // namespace kiln::sweep_test
