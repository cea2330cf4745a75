// Rows of the product added to rows of D: their text, what is refused, operands, the launch on
// GPUs, sums by hand, and what the verification sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/plan.h"
#include "generator/problem/groups.h"
#include "generator/problem/indices.h"
#include "generator/space/family.h"
#include "generator/space/space.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/reference_kernel.h"
#include "support/random_gemm.h"
#include "support/seed.h"
#include "tuner/verify/data.h"
#include "tuner/verify/verify.h"

namespace kiln::added_rows_test {

using testing::ElementsAre;
using testing::HasSubstr;

Gemm rows(std::int64_t m, std::int64_t n, std::int64_t k, DType type = fp32) {
  return Gemm::row_major(m, n, k, type).grouped(3, Grouping::rows);
}

std::string refusal(const Gemm& gemm) {
  const Status status = validate(gemm);
  return status ? std::string() : status.error().message;
}

TEST(AddedRows, AreWrittenAndReadAsText) {
  for (const char* const how : {"add", "weighted"}) {
    const std::string line =
        std::string("bf16 N T 4096 7168 2048 groups=8 grouped=rows rows_of_d=512 scatter=") + how;
    const Gemm gemm = parse_gemm(line).value();
    EXPECT_EQ(text(gemm), line);
    EXPECT_EQ(name(scattered_rows(gemm)->how), how);
  }
  const auto wrong = parse_gemm("bf16 N T 3 5 7 groups=2 grouped=rows scatter=sum");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("scatter = \"sum\""));
}

TEST(AddedRows, RefuseWhatTheyDoNotKnow) {
  const Gemm g = rows(40, 6, 8, bf16).scattered(9, Scatter::add);
  EXPECT_EQ(refusal(g), "");
  EXPECT_EQ(refusal(g.with_gate(Gate::silu)), "");
  EXPECT_EQ(refusal(g.with_bias(Bias::per_column).with_activation(Activation::silu)), "");
  EXPECT_THAT(refusal(g.with_residual()), HasSubstr("scatter = add: epilogue.residual = true"));
  EXPECT_THAT(refusal(g.with_bias(Bias::per_column, true)),
              HasSubstr("scatter = add: epilogue.bias_as_d = true: must be false"));
  EXPECT_THAT(refusal(rows(40, 6, 8, s8).scattered(9, Scatter::weighted)),
              HasSubstr("scatter = weighted: d.dtype = s32: must be a floating type"));
  EXPECT_THAT(refusal(rows(0, 6, 8).scattered(9, Scatter::add)),
              HasSubstr("scatter = add: m = 0: must be 1 to 2147483647"));
  EXPECT_THAT(refusal(rows(40, 6, 8, bf16).quantised(s8, Scale::line).scattered(9, Scatter::add)),
              HasSubstr("scatter = add: scale_d = line"));
}

TEST(AddedRows, HaveACOfTheirOwnAndWeights) {
  const Gemm g = rows(40, 6, 8, bf16).scattered(9, Scatter::weighted);
  EXPECT_EQ(span(g, Operand::c), 9 * 6);
  EXPECT_EQ(span(g, Operand::d), 9 * 6);
  EXPECT_EQ(span(g, Operand::row_weights), 40);
  EXPECT_EQ(span(g.scattered(9, Scatter::add), Operand::row_weights), 0);
  EXPECT_FALSE(present(g.with_gate(Gate::silu), Operand::c));
  EXPECT_EQ(in_order(g).d.dtype, fp32);
  EXPECT_EQ(in_order(rows(4, 6, 8, fp64).scattered(9, Scatter::add)).d.dtype, fp64);
  const Problem product = product_to_add(Problem::of(g.gathered(50)).value());
  EXPECT_TRUE(gathers(product.gemm));
  EXPECT_EQ(product.gemm.d.ld, 6);
  EXPECT_EQ(scattered_rows(product.gemm), nullptr);
}

TEST(AddedRows, RowsOfGroupsAreThoseBeforeTheLargestEnd) {
  const Gemm g = rows(40, 6, 8);
  const auto in_groups = [&](std::vector<std::int32_t> ends) {
    return rows_in_groups(g, ends.data());
  };
  EXPECT_EQ(in_groups({3, 3, 20}), 20);
  EXPECT_EQ(in_groups({3, 30, 20}), 30);
  EXPECT_EQ(in_groups({3, 30, 400}), 40);
  EXPECT_EQ(in_groups({-3, -30, -1}), 0);
}

/// Two tokens of two experts each, one of one, and a slot that was dropped.
TEST(AddedRows, AreSummedWithTheirWeights) {
  const Gemm gemm =
      Gemm::row_major(6, 2, 2).grouped(2, Grouping::rows).scattered(4, Scatter::weighted);
  const std::vector<float> a{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, b{1, 0, 0, 1, 2, 0, 0, 2};
  const std::vector<std::int32_t> ends{3, 5}, to{0, 1, -1, 99, 0, 2};
  const std::vector<float> weights{1, 10, 7, 3, 0.5, 1};
  const std::vector<float> c{1, 1, 1, 1, 1, 1, 1, 1};
  std::vector<float> d(8, -1);
  Operands operands{.a = a.data(), .b = b.data(), .c = c.data(), .d = d.data(), .beta = 1};
  operands.groups = ends.data();
  operands.index_d = to.data();
  const auto plan = bare_plan(gemm, 1);
  EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("row_weights = null"));
  operands.row_weights = weights.data();
  ASSERT_TRUE(run_plan(*plan, operands));
  // Row 0: 1·(1,2) + 0.5·2·(9,10); row 1: 10·(3,4); row 2: none; row 3: 3·2·(7,8).
  EXPECT_THAT(d, ElementsAre(11, 13, 31, 41, 1, 1, 43, 49));
  operands.c = nullptr, operands.beta = 0;
  ASSERT_TRUE(run_plan(*plan, operands));
  EXPECT_THAT(d, ElementsAre(10, 12, 30, 40, 0, 0, 42, 48));
}

// Where the list falls the group is empty: each row is added once, by the reference as by kernels,
// whose rows are counted up to the largest end.
TEST(AddedRows, OfAListThatFallsAreAddedOnce) {
  const Gemm gemm = Gemm::row_major(6, 1, 1).grouped(3, Grouping::rows).scattered(2, Scatter::add);
  const std::vector<float> a{1, 2, 4, 8, 16, 32}, b{1, 100, 1000};
  const std::vector<std::int32_t> ends{3, 1, 5}, to{0, 1, 0, 1, 0, 1};
  std::vector<float> d(2, -1);
  Operands operands{.a = a.data(), .b = b.data(), .d = d.data()};
  operands.groups = ends.data(), operands.index_d = to.data();
  for (const int threads : {1, 2}) {
    ASSERT_TRUE(run_plan(*bare_plan(gemm, threads), operands));
    EXPECT_THAT(d, ElementsAre(1 + 4 + 16'000, 2 + 8'000));
  }
}

using Change = std::function<void(Operands&)>;

/// Verifies the reference kernel, for which `change` alters the call.
Verdict run(
    const Gemm& gemm, const Change& change = [](Operands&) {}) {
  const Problem problem = Problem::of(gemm).value();
  return verify(gemm, [&](const Operands& operands) -> Status {
    Operands changed = operands;
    change(changed);
    const KilnArgs args = make_args(problem, changed);
    for (int thread = 0; thread < 2; ++thread) run_reference(problem, args, nullptr, thread, 2);
    return {};
  });
}

TEST(AddedRows, TheReferenceKernelIsRight) {
  test::RandomGemm random(test::seed_of_run() + 17, 40);
  int checked = 0;
  for (int i = 0; i < 160; ++i) {
    Gemm gemm = random.next();
    gemm.b_packed = false;
    gemm.epilogue.residual = gemm.epilogue.bias_as_d = false;
    gemm = gemm.grouped(1 + random.below(6), Grouping::rows);
    gemm.a.ld = gemm.b.ld = gemm.c.ld = gemm.d.ld = 0;
    gemm.alignment = 1;
    gemm = gemm.scattered(random.below(60), i % 2 == 0 ? Scatter::add : Scatter::weighted);
    if (i % 3 == 0) gemm = gemm.gathered(random.below(60));
    if (i % 4 == 0) gemm.d.ld = gemm.n + 3;
    if (!validate(gemm)) continue;
    ++checked;
    const Verdict verdict = run(gemm);
    EXPECT_TRUE(verdict) << text(gemm) << ": " << (verdict ? "" : verdict.error().detail);
  }
  EXPECT_GT(checked, 15);
}

/// Sums of so many products that columns of D are chosen.
TEST(AddedRows, SomeColumnsOfLargeOnesAreJudged) {
  const Gemm gemm = rows(300, 500, 900, bf16).scattered(70, Scatter::weighted);
  EXPECT_TRUE(run(gemm));
  const Verdict verdict = run(gemm, [](Operands& x) { x.alpha *= 1.01; });
  ASSERT_FALSE(verdict);
}

TEST(AddedRows, MistakesAreFound) {
  const Gemm gemm = rows(70, 6, 8, bf16).scattered(30, Scatter::weighted);
  ASSERT_TRUE(run(gemm));
  std::vector<std::int32_t> list(70);
  const auto with_list = [&](auto&& alter) {
    return run(gemm, [&](Operands& x) {
      for (std::int64_t i = 0; i < 70; ++i)
        list[i] = alter(static_cast<const std::int32_t*>(x.index_d)[i]);
      x.index_d = list.data();
    });
  };
  EXPECT_FALSE(with_list([](std::int32_t row) { return row < 0 ? 0 : row; }));
  EXPECT_FALSE(with_list([](std::int32_t row) { return row >= 30 ? -1 : row; }));
  EXPECT_FALSE(with_list([](std::int32_t row) { return row + 1; }));
  std::vector<float> ones(70, 1.0f);
  EXPECT_FALSE(run(gemm, [&](Operands& x) { x.row_weights = ones.data(); }));
}

TEST(AddedRows, FollowAnyLaunchOfTheProduct) {
  const Gemm gemm =
      parse_gemm("bf16 N T 300 2000 64 groups=4 grouped=rows rows_of_d=70 align=16 scatter=add")
          .value();
  Gemm plain = gemm.output(fp32);
  std::get<GroupsOfRows>(plain.groups).scatter.reset();
  const DeviceCaps device = caps_named("sm_90a").value();
  const auto space = space_for(Problem::of(gemm).value(), device);
  ASSERT_TRUE(space);
  const Config config = space->legal.front();
  const Family& family = family_of(config, Vendor::nvidia);
  const GpuLaunch added = family.launch(Problem::of(gemm).value(), device, config);
  const GpuLaunch product = family.launch(Problem::of(plain).value(), device, config);
  ASSERT_EQ(added.steps.size(), product.steps.size() + 2);
  EXPECT_EQ(added.steps.front(), product.steps.front());
  EXPECT_EQ(added.maps, product.maps);
  EXPECT_EQ(added.zeroed_bytes, product.zeroed_bytes);
  EXPECT_EQ(added.steps.back().entry, "kiln_add_rows");
  EXPECT_EQ(added.steps.back().grid.x, 70u * 2);
  EXPECT_GE(added.product_at, product.workspace_bytes + (300 + 70) * 4);
  EXPECT_EQ(added.product_at % 256, 0);
  EXPECT_EQ(added.workspace_bytes, added.product_at + 300 * 2000 * 4);
  EXPECT_EQ(product.product_at, 0);
}

TEST(AddedRows, FamiliesThatDoNotKnowThemRefuse) {
  const Gemm gemm = parse_gemm("bf16 N T 64 64 64 groups=2 grouped=rows scatter=add").value();
  EXPECT_FALSE(space_for(Problem::of(gemm).value(), caps_named("gfx942").value()));
  EXPECT_TRUE(space_for(Problem::of(gemm).value(), caps_named("sm_80").value()));
}

}  // namespace kiln::added_rows_test
