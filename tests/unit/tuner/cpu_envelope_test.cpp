// CPU kernels whose code has the sizes as arguments: which problems prove it once.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "generator/families/cpu/amx/config.h"
#include "generator/families/cpu/packed/config.h"
#include "generator/families/cpu/small/config.h"
#include "generator/space/code_class.h"
#include "generator/space/family.h"
#include "tuner/verify/envelope.h"
#include "tuner/verify/ragged.h"

namespace kiln::cpu_envelope_test {

constexpr double kMostWork = 0x1p24;

/// Every `step`-th config of the space.
std::vector<Config> some_of(const Gemm& gemm, const DeviceCaps& device, std::size_t step) {
  const auto space = space_for(Problem::of(gemm).value(), device);
  std::vector<Config> configs;
  if (space)
    for (std::size_t i = 0; i < space->legal.size(); i += step) configs.push_back(space->legal[i]);
  return configs;
}

std::size_t classes_over_sizes(const Gemm& tuned, const DeviceCaps& device, const Config& config) {
  std::set<CodeClass> classes;
  for (const std::int64_t m : {1, 2, 5, 6, 7, 16, 33, 100, 128, 515, 4096})
    for (const std::int64_t n : {1, 8, 15, 16, 48, 64, 65, 200, 1000, 4096})
      for (const std::int64_t k : {1, 3, 8, 16, 257, 1000, 4096}) {
        Gemm gemm = tuned;
        gemm.m = m;
        gemm.n = n;
        gemm.k = k;
        loosen_pitches(gemm, tuned, 1);  // tight lines of one element would be joined
        const Problem problem = Problem::of(gemm).value();
        if (broken_rule(problem, device, config).empty())
          classes.insert(code_class(problem, device, config));
      }
  return classes.size();
}

TEST(CpuEnvelope, ACodeServesEverySizeButThatOfSmall) {
  for (const char* name : {"avx512_bf16", "avx2", "portable", "amx"}) {
    const DeviceCaps device = cpu_caps_named(name).value();
    for (const char* shape :
         {"fp32 N N 100 200 300", "bf16 N T 100 200 300", "int8 N T 48 48 48"}) {
      const Gemm gemm = parse_gemm(shape).value();
      for (const Config& config : some_of(gemm, device, 211)) {
        if (config.is<HostSmall>()) {
          EXPECT_FALSE(has_envelope(gemm, device, config));
          EXPECT_TRUE(envelope(gemm, device, config, kMostWork).empty());
          continue;
        }
        EXPECT_TRUE(has_envelope(gemm, device, config)) << text(config);
        EXPECT_EQ(classes_over_sizes(gemm, device, config), 1u) << name << ": " << text(config);
      }
    }
  }
}

// A tight column of D is computed as a row, by other code: its bias and scales change sides.
TEST(CpuEnvelope, CodeOfAColumnIsAnothers) {
  const DeviceCaps device = cpu_caps_named("amx").value();
  for (const auto& [column, apart] :
       {std::pair{"bf16 N T 65 1 257 epilogue=bias_col",
                  "bf16 N T 65 1 257 ldd=2 epilogue=bias_col"},
        std::pair{"int8 N T 65 1 256 out=bf16 scale=none:line",
                  "int8 N T 65 1 256 ldd=2 out=bf16 scale=none:line"}}) {
    const Gemm tight = parse_gemm(column).value(), loose = parse_gemm(apart).value();
    const HostAmx config{.mt = 2, .nt = 2, .kc = 256, .nc = 64};
    const Problem one = Problem::of(tight).value(), other = Problem::of(loose).value();
    ASSERT_EQ(broken_rule(one, device, config), "");
    ASSERT_EQ(broken_rule(other, device, config), "");
    EXPECT_NE(code_class(one, device, config), code_class(other, device, config)) << column;
    const auto near = ragged_problem_for(tight, device, config);
    ASSERT_TRUE(near) << column;
    EXPECT_TRUE(Problem::of(*near).value().swapped) << text(*near);
  }
}

TEST(CpuEnvelope, HasEveryTileOfTheCodeAndBothSidesOfItsBlocks) {
  const Gemm gemm = Gemm::row_major(100, 2000, 3000);
  const DeviceCaps device = cpu_caps_named("avx512").value();
  const HostPacked config{.mr = 6, .nv = 4, .kc = 384, .mc = 48, .nc = 256};
  ASSERT_EQ(broken_rule(Problem::of(gemm).value(), device, config), "");
  const std::vector<Gemm> problems = envelope(gemm, device, config, kMostWork);
  const auto has = [&](auto&& wanted) { return std::ranges::any_of(problems, wanted); };
  for (std::int64_t rows = 0; rows < 6; ++rows)
    EXPECT_TRUE(has([&](const Gemm& g) { return g.m % 6 == rows && g.n >= 64; })) << rows;
  for (std::int64_t vectors = 1; vectors <= 4; ++vectors) {
    const auto needs = [&](const Gemm& g) { return (g.n % 64 + 15) / 16 == vectors; };
    EXPECT_TRUE(has([&](const Gemm& g) { return needs(g) && g.m % 6 != 0; })) << vectors;
    EXPECT_TRUE(has([&](const Gemm& g) { return needs(g) && g.m % 6 == 0; })) << vectors;
  }
  EXPECT_TRUE(has([](const Gemm& g) { return g.m > 48 && g.k > 384; }));
  EXPECT_TRUE(has([](const Gemm& g) { return g.n > 256 && g.k > 384; }));
  EXPECT_TRUE(has([](const Gemm& g) { return g.m > 48 && g.n > 256; }));
  EXPECT_TRUE(has([](const Gemm& g) { return g.k > 4 * 384; }));
  EXPECT_TRUE(has([](const Gemm& g) { return g.batch > 1; }));
  EXPECT_TRUE(has([](const Gemm& g) { return g.d.ld > g.n; }));
  for (const Gemm& one : problems) EXPECT_LE(one.flops(), 2 * kMostWork) << text(one);
}

TEST(CpuEnvelope, ThreadsThatTakeAProductEachAreGivenSeveral) {
  Gemm gemm = Gemm::row_major(100, 200, 300);
  gemm.batch = 6;
  DeviceCaps device = cpu_caps_named("avx512").value();
  device.compute_units = 4;
  const HostPacked config{
      .mr = 6, .nv = 4, .kc = 304, .mc = 240, .nc = 256, .parallel = Parallel::batch};
  ASSERT_EQ(broken_rule(Problem::of(gemm).value(), device, config), "");
  const std::vector<Gemm> problems = envelope(gemm, device, config, kMostWork);
  EXPECT_GT(problems.size(), 50u);
  EXPECT_TRUE(std::ranges::all_of(problems, [](const Gemm& g) { return g.batch > 1; }));
}

TEST(CpuEnvelope, ColumnsOfATransposedDAreRowsOfTheTile) {
  const Gemm gemm = parse_gemm("fp32 N N 200 100 300 order=column").value();
  const DeviceCaps device = cpu_caps_named("avx512").value();
  const HostPacked config{.mr = 6, .nv = 4, .kc = 304, .mc = 240, .nc = 256};
  ASSERT_TRUE(Problem::of(gemm).value().swapped);
  ASSERT_EQ(broken_rule(Problem::of(gemm).value(), device, config), "");
  const std::vector<Gemm> problems = envelope(gemm, device, config, kMostWork);
  const auto has = [&](std::int64_t m, std::int64_t n) {
    return std::ranges::any_of(problems, [&](const Gemm& g) { return g.m == m && g.n == n; });
  };
  EXPECT_TRUE(has(65, 7) || has(65, 6) || has(65, 5)) << "m beside 64 columns, n beside 6 rows";
}

}  // namespace kiln::cpu_envelope_test
