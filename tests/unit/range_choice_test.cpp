// From times of kernels at some sizes to a table of few kernels for all.
#include "tuner/search/range_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generator/space/space.h"

namespace kiln::range_choice_test {

using testing::ElementsAre;

DeviceCaps device() {
  DeviceCaps caps = cpu_caps_named("avx512").value();
  caps.compute_units = 1;
  return caps;
}

GemmRange range() { return Gemm::row_major(1, 512, 512).with_m(1, 1000); }

/// Kernels of the same code for all sizes, with no times yet.
RangeModel model_of(std::size_t count) {
  RangeModel model(range(), device());
  const auto space = space_for(range().gemm, device());
  const Canonical problem = canonicalise(range().gemm);
  for (const Config& config : space->legal) {
    if (model.kernels.size() == count) break;
    if (family_name(config) != "host_packed" || !broken_rule(problem, device(), config).empty())
      continue;
    model.kernels.push_back({config, code_class(problem, device(), config)});
  }
  return model;
}

TEST(RangeChoice, SearchesAtBothEndsAndAtPowersOfFour) {
  const Gemm gemm = Gemm::row_major(1, 64, 64);
  EXPECT_THAT(searched_sizes(gemm.with_m(1, 10), false), ElementsAre(1, 4, 10));
  EXPECT_THAT(searched_sizes(gemm.with_m(100, 300), false), ElementsAre(100, 128, 256, 300));
  EXPECT_THAT(searched_sizes(gemm.with_n(7, 7), false), ElementsAre(7));
  const auto all = searched_sizes(gemm.with_m(1, 8192), false);
  EXPECT_EQ(all.size(), 10u);
  EXPECT_THAT(searched_sizes(gemm.with_m(3, 300), true), ElementsAre(3, 4, 16, 64, 256, 300));
  // As far as sizes go.
  EXPECT_LT(searched_sizes(gemm.with_m(1, std::int64_t{1} << 40), false).size(), 50u);
}

TEST(RangeChoice, StepsAreWhereTilesEndAndAtWhatWasTimed) {
  RangeModel model = model_of(3);
  ASSERT_EQ(model.kernels.size(), 3u);
  model.kernels[0].ns[17] = 100;
  const auto steps = model.steps();
  EXPECT_TRUE(std::ranges::is_sorted(steps));
  EXPECT_EQ(steps.back(), 1000);
  EXPECT_TRUE(std::ranges::binary_search(steps, 17));
  EXPECT_GT(steps.size(), 20u);
}

TEST(RangeChoice, ATimeCountsWhereItWasTakenAndTheModelBetween) {
  RangeModel model = model_of(1);
  RangeKernel& kernel = model.kernels.front();
  const double small = model.expected_ns(kernel, 100), large = model.expected_ns(kernel, 400);
  kernel.ns = {{100, 2 * small}, {400, 2 * large}};
  EXPECT_DOUBLE_EQ(model.expected_ns(kernel, 100), 2 * small);
  RangeModel plain = model_of(1);
  for (const std::int64_t size : {50, 200, 1000})
    EXPECT_NEAR(model.expected_ns(kernel, size) / plain.expected_ns(plain.kernels[0], size), 2,
                1e-9);
}

TEST(RangeChoice, TheFasterKernelServesEachPartOfTheRange) {
  RangeModel model = model_of(2);
  for (const std::int64_t size : {1, 10, 100, 1000}) {
    model.kernels[0].ns[size] = size < 50 ? 100 : 1000;
    model.kernels[1].ns[size] = size < 50 ? 200 : 500;
  }
  const auto table = model.choose(16);
  ASSERT_GE(table.size(), 2u);
  EXPECT_EQ(table.front().kernel, 0u);
  EXPECT_GE(table.front().last, 10);
  EXPECT_LT(table.front().last, 100);
  EXPECT_EQ(table.back().kernel, 1u);
  EXPECT_EQ(table.back().last, 1000);
  EXPECT_TRUE(std::ranges::is_sorted(table, {}, &RangeChoice::last));
}

TEST(RangeChoice, AKernelThatGainsNothingIsLeftOut) {
  RangeModel model = model_of(3);
  for (const std::int64_t size : {1, 10, 100, 1000}) {
    model.kernels[0].ns[size] = 100.0 * double(size);
    model.kernels[1].ns[size] = 99.8 * double(size);
    model.kernels[2].ns[size] = 150.0 * double(size);
  }
  const auto table = model.choose(16);
  ASSERT_EQ(table.size(), 1u);
  EXPECT_EQ(table.front().last, 1000);
  EXPECT_NE(table.front().kernel, 2u);
}

TEST(RangeChoice, NoMoreKernelsThanAskedFor) {
  RangeModel model = model_of(6);
  ASSERT_EQ(model.kernels.size(), 6u);
  const std::int64_t sizes[] = {1, 5, 25, 125, 625, 1000};
  for (std::size_t i = 0; i < 6; ++i)
    for (std::size_t j = 0; j < 6; ++j)
      model.kernels[i].ns[sizes[j]] = 100 * double(sizes[j]) * (i == j ? 1 : 1.5);
  std::set<std::size_t> kernels;
  for (const RangeChoice& cell : model.choose(3)) kernels.insert(cell.kernel);
  EXPECT_LE(kernels.size(), 3u);
  EXPECT_THAT(model_of(0).choose(3), testing::IsEmpty());
}

}  // namespace kiln::range_choice_test
