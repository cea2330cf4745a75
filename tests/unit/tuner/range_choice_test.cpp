// From times of kernels at some sizes to a table of few kernels for all.
#include "tuner/search/range_choice.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "generator/families/cpu/packed/config.h"
#include "generator/families/cuda/gemv/config.h"
#include "generator/space/family.h"
#include "generator/space/space.h"

namespace kiln::range_choice_test {

using testing::ElementsAre;

DeviceCaps device() {
  DeviceCaps caps = cpu_caps_named("avx512").value();
  caps.compute_units = 1;
  return caps;
}

GemmRange range() { return Gemm::row_major(1, 512, 512).with_m(1, 1000); }

/// Kernels of the same code for all sizes, with no times yet. B is packed: what the model expects
/// of an unpacked one has steps between the sizes that tests give times for.
RangeModel model_of(std::size_t count) {
  RangeModel model(range(), device());
  const auto space = space_for(Problem::of(range().gemm).value(), device());
  const Problem problem = Problem::of(range().gemm).value();
  for (const Config& config : space->legal) {
    if (model.kernels.size() == count) break;
    const auto packed = config.if_is<HostPacked>();
    if (!packed || !packed->pack_b || !broken_rule(problem, device(), config).empty()) continue;
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

/// Two configs that share a binary, and others that share none with them.
TEST(RangeChoice, ConfigsOfOneBinaryCountOnce) {
  RangeModel model(range(), device());
  const auto space = space_for(Problem::of(range().gemm).value(), device());
  const Problem problem = Problem::of(range().gemm).value();
  for (const Config& config : space->legal) {
    if (model.kernels.size() == 2) break;
    if (family_name(config) != "host_packed" || !broken_rule(problem, device(), config).empty() ||
        (!model.kernels.empty() && code_fields(config) != code_fields(model.kernels[0].config)))
      continue;
    model.kernels.push_back({config, code_class(problem, device(), config)});
  }
  ASSERT_EQ(model.kernels.size(), 2u);
  for (const std::int64_t size : {1, 10, 100, 1000}) {
    model.kernels[0].ns[size] = size < 50 ? 100 : 1000;
    model.kernels[1].ns[size] = size < 50 ? 200 : 500;
  }
  std::set<std::size_t> kernels;
  for (const RangeChoice& cell : model.choose(1)) kernels.insert(cell.kernel);
  EXPECT_EQ(kernels.size(), 2u);
}

TEST(RangeChoice, SizesBetweenAreTimedCoarseOnesFirst) {
  RangeModel model = model_of(4);
  const std::vector<std::int64_t> searched = searched_sizes(range(), true);
  const auto timed = model.timed_sizes(searched, 4);
  EXPECT_GT(timed.size(), 15u);
  EXPECT_EQ(std::set<std::int64_t>(timed.begin(), timed.end()).size(), timed.size());
  for (const std::int64_t size : timed)
    EXPECT_FALSE(std::ranges::binary_search(searched, size)) << size;
  // The first few that are not a tile's rows span the range.
  const auto large = std::ranges::find_if(timed, [](std::int64_t size) { return size > 8; });
  const auto [least, most] = std::minmax_element(large, large + 4);
  EXPECT_LT(*least, 50);
  EXPECT_GT(*most, 100);
}

GemmRange gpu_range() {
  return parse_gemm("bf16 N T 1 6144 4096 align=16").value().with_m(1, 8192);
}

Config wgmma(const char* tile) {
  return parse_config(fmt::format("cuda_wgmma {} pingpong=0 swap=0 cluster_left=1 cluster_right=1 "
                                  "sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 "
                                  "keep_right=0 promote=0",
                                  tile))
      .value();
}

TEST(RangeChoice, AKernelBringsItsFormForRaggedSizes) {
  RangeModel model(gpu_range(), cuda_caps_named("sm_90a").value());
  const Config aligned = wgmma("left=128 right=128 stages=6 warpgroups=2");
  model.add(aligned, 1024, 100'000);
  ASSERT_EQ(model.kernels.size(), 2u);
  EXPECT_EQ(model.kernels[0].config, aligned);
  EXPECT_EQ(text(model.kernels[1].config), text(aligned) + " clip=1");
  EXPECT_TRUE(model.kernels[1].ns.empty());
  // Alike where no rows lie beyond the edge, and faster where they do.
  EXPECT_NEAR(model.expected_ns(model.kernels[1], 1024), 100'000, 1);
  EXPECT_LT(model.expected_ns(model.kernels[1], 1030), model.expected_ns(model.kernels[0], 1030));
  // Timed, it stays one kernel.
  model.add(model.kernels[1].config, 1030, 110'000);
  EXPECT_EQ(model.kernels.size(), 2u);
  const auto steps = model.steps();
  EXPECT_TRUE(std::ranges::binary_search(steps, 1024));
  EXPECT_TRUE(std::ranges::binary_search(steps, 1025));
}

TEST(RangeChoice, WhatTheModelPicksHasTilesThatNoKernelHas) {
  const DeviceCaps h200 = cuda_caps_named("sm_90a").value();
  RangeModel model(gpu_range(), h200);
  model.add(wgmma("left=128 right=128 stages=6 warpgroups=2"), 1024, 100'000);
  model.add(wgmma("left=128 right=192 stages=4 warpgroups=2"), 1024, 90'000);
  const auto picked = model.fresh(572, 1, 8, 0);
  EXPECT_EQ(picked.size(), 8u);
  std::map<std::pair<std::int64_t, std::int64_t>, int> of_tile;
  const Problem problem = Problem::of(gpu_range().at(572)).value();
  for (const Config& config : picked) {
    EXPECT_EQ(broken_rule(problem, h200, config), "");
    for (const RangeKernel& kernel : model.kernels) EXPECT_NE(config, kernel.config);
    const Tile tile = family_of(config, h200.vendor).tile(problem, h200, config);
    EXPECT_LE(++of_tile[std::pair(tile.m, tile.n)], 2) << text(config);
  }
}

/// Code that knows its size, the fastest there, leaves the sizes beside it to others.
TEST(RangeChoice, AKernelOfOneSizeHasACellOfItsOwn) {
  const GemmRange rows = parse_gemm("bf16 N T 64 4096 4099").value().with_m(1, 64);
  RangeModel model(rows, cuda_caps_named("sm_90a").value());
  const Config any = parse_config(
                         "cuda_simt block_m=16 block_n=32 block_k=32 thread_m=4 "
                         "thread_n=4 lanes_m=4 spread=1 width_a=1 width_b=1 "
                         "copy=registers stages=2 ahead=1 lines=padded resident=1 "
                         "sharing=tiles splits=1 group=4")
                         .value();
  for (const std::int64_t size : {1, 4, 16, 64}) model.add(any, size, 40e3);
  model.add(CudaGemv{.rows = 2, .width = 0, .warps = 8}, 16, 30e3);
  model.add(CudaGemv{.rows = 2, .width = 0, .warps = 8, .thin = 4}, 4, 15e3);
  const auto table = model.choose(8);
  ASSERT_FALSE(table.empty());
  std::int64_t size = 1;
  std::set<std::size_t> kernels;
  for (const RangeChoice& cell : table)
    for (kernels.insert(cell.kernel); size <= cell.last; ++size)
      EXPECT_TRUE(model.serves(model.kernels[cell.kernel], size)) << size;
  EXPECT_EQ(kernels.size(), 3u);
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
