// Rows of A and D by index: their text, what is refused, sizes of operands, rows in order, the data
// that lists get, and what the verification sees.
#include "generator/problem/indices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "cache/keys.h"
#include "engine/plan.h"
#include "generator/problem/groups.h"
#include "generator/space/space.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/reference_kernel.h"
#include "support/random_gemm.h"
#include "support/seed.h"
#include "tuner/verify/data.h"
#include "tuner/verify/verify.h"

namespace kiln::indices_test {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const Gemm& gemm) {
  const Status status = validate(gemm);
  return status ? std::string() : status.error().message;
}

Gemm rows(std::int64_t m, std::int64_t n, std::int64_t k, DType type = fp32) {
  return Gemm::row_major(m, n, k, type).grouped(3, Grouping::rows);
}

TEST(Indices, AreWrittenAndReadAsText) {
  const std::string line =
      "bf16 N T 4096 7168 2048 groups=8 grouped=rows rows_of_a=1024 rows_of_d=8192 gather=rows "
      "scatter=rows";
  const Gemm g = parse_gemm(line).value();
  EXPECT_EQ(text(g), line);
  EXPECT_EQ(g, Gemm::row_major(4096, 7168, 2048, bf16)
                   .transpose_b()
                   .grouped(8, Grouping::rows)
                   .gathered(1024)
                   .scattered(8192));
  const auto wrong = parse_gemm("bf16 N T 3 5 7 groups=2 grouped=rows gather=columns");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("gather = \"columns\""));
}

TEST(Indices, RefuseWhatTheyDoNotKnow) {
  const Gemm g = rows(40, 6, 8);
  EXPECT_EQ(refusal(g.gathered(7).scattered(9)), "");
  EXPECT_EQ(Gemm::row_major(4, 6, 8).gathered().grouping(), Grouping::rows);
  for (const char* groups : {"", " groups=2 grouped=masked", " groups=2 grouped=k"}) {
    const auto masked = parse_gemm(std::string("fp32 N N 4 6 8 scatter=add") + groups);
    ASSERT_FALSE(masked);
    EXPECT_THAT(masked.error().message,
                HasSubstr("scatter = add: must be none without groups of rows"));
  }
  EXPECT_THAT(refusal(g.transpose_a().gathered()), HasSubstr("gather = rows: a.transposed = true"));
  EXPECT_EQ(refusal(g.transpose_a().scattered()), "");
  EXPECT_THAT(refusal(g.with_residual().scattered()),
              HasSubstr("scatter = rows: epilogue.residual = true"));
  EXPECT_EQ(refusal(g.with_residual().gathered()), "");
  EXPECT_THAT(refusal(rows(40, 6, 8, bf16).quantised(s8, Scale::line).scattered()),
              HasSubstr("scatter = rows: scale_d = line"));
  EXPECT_THAT(
      refusal(
          rows(40, 6, 8, s8).output(bf16).scaled(Scale::line).with_zero_points_of_a().gathered()),
      HasSubstr("gather = rows: zero_a = line: must be none"));
  EXPECT_THAT(refusal(g.gathered(-1)), HasSubstr("rows_of_a = -1: must be 0 (m) or more"));
  EXPECT_THAT(refusal(g.scattered(std::int64_t{1} << 31)),
              HasSubstr("rows_of_d = 2147483648: rows are counted in 32 bits"));
}

TEST(Indices, SayHowManyRowsThereAre) {
  const Gemm g = rows(40, 6, 8).gathered(7).scattered(50);
  EXPECT_EQ(span(g, Operand::a), 7 * 8);
  EXPECT_EQ(span(g, Operand::d), 50 * 6);
  EXPECT_EQ(span(g, Operand::index_a), 40);
  EXPECT_EQ(span(g, Operand::index_d), 40);
  EXPECT_EQ(span(g, Operand::c), 0);
  EXPECT_EQ(span(rows(40, 6, 8).gathered(), Operand::a), 40 * 8);
  const Gemm scaled = rows(40, 6, 256, fp8_e4m3).scaled(Scale::line_128).gathered(7);
  EXPECT_EQ(span(scaled, Operand::scale_a), 7 * 2);
  EXPECT_EQ(g.flops(), rows(40, 6, 8).flops());
}

TEST(Indices, KeysNameThemOnlyWhereTheyAre) {
  const Gemm g = rows(40, 6, 8);
  EXPECT_EQ(key_text(g).find("gather"), std::string::npos);
  EXPECT_NE(key_text(g.gathered(7)), key_text(g.gathered(8)));
  EXPECT_EQ(class_text(g.gathered(7)), class_text(g.gathered(8)));
  EXPECT_NE(class_text(g), class_text(g.gathered()));
  EXPECT_EQ(normalised(g.gathered(40)), normalised(g.gathered()));
}

TEST(Indices, InOrderRowsAreTight) {
  Gemm g = rows(40, 6, 8);
  g.a.ld = 11, g.d.ld = 13, g.c.ld = 13;
  const Gemm gathered = in_order(g.gathered(7)), scattered = in_order(g.scattered(90));
  EXPECT_EQ(gathered.lda(), 8);
  EXPECT_EQ(gathered.ldd(), 13);
  EXPECT_EQ(scattered.lda(), 11);
  EXPECT_EQ(scattered.ldd(), 6);
  EXPECT_EQ(in_order(g), g);
  EXPECT_EQ(alone(g.gathered(7).scattered(9), 5).lda(), 8);
}

TEST(Indices, BeyondTheRowsCountAsTheNearest) {
  const std::vector<std::int32_t> list{-5, 2, 6, 7, 1 << 30};
  std::vector<std::int64_t> at;
  for (std::int64_t row = 0; row < 5; ++row) at.push_back(row_at(list.data(), row, 7));
  EXPECT_THAT(at, ElementsAre(0, 2, 6, 6, 6));
}

TEST(Indices, DataRepeatRowsOfAAndNameEachRowOfDOnce) {
  for (const std::int64_t d_rows : {0, 100, 700}) {
    const Gemm g = rows(300, 6, 8).gathered(150).scattered(d_rows);
    const std::int64_t all = rows_of_d(g), named = std::min<std::int64_t>(300, all);
    for (const Data kind : {Data::exact, Data::uniform}) {
      std::vector<std::int32_t> a(300), d(300), groups(3);
      fill(g, Operand::index_a, kind, 5, a.data());
      fill(g, Operand::index_d, kind, 5, d.data());
      fill(g, Operand::groups, kind, 5, groups.data());
      EXPECT_LE(groups.back(), named);
      std::set<std::int64_t> of_a, of_d;
      for (std::int64_t i = 0; i < 300; ++i) of_a.insert(row_at(a.data(), i, 150));
      for (std::int64_t i = 0; i < named; ++i) of_d.insert(row_at(d.data(), i, all));
      EXPECT_LT(of_a.size(), 150) << "some are of none";
      EXPECT_GT(of_a.size(), 90);
      EXPECT_EQ(std::ssize(of_d), named);
      const auto beyond = [](std::int64_t of) { return [of](int x) { return x < 0 || x >= of; }; };
      EXPECT_EQ(std::ranges::any_of(a, beyond(150)), kind == Data::exact);
      EXPECT_FALSE(kind == Data::uniform && std::ranges::any_of(d, beyond(all)));
    }
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

/// A list of a call's rows, altered by one function.
Change with_list(const Gemm& gemm, Operand which, std::int32_t (*alter)(std::int32_t, std::int64_t),
                 std::vector<std::int32_t>& room) {
  return [&gemm, which, alter, &room](Operands& operands) {
    const auto* const list = static_cast<const std::int32_t*>(pointer(operands, which));
    const Operand of = which == Operand::index_a ? Operand::a : Operand::d;
    room.assign(list, list + gemm.m);
    for (std::int32_t& row : room) row = alter(row, extent(gemm, of).lines);
    (which == Operand::index_a ? operands.index_a : operands.index_d) = room.data();
  };
}

TEST(Indices, TheReferenceKernelIsRight) {
  test::RandomGemm random(test::seed_of_run() + 7, 40);
  int checked = 0;
  for (int i = 0; i < 120; ++i) {
    Gemm gemm = random.next();
    gemm.b_packed = false;
    gemm = gemm.grouped(1 + random.below(6), Grouping::rows);
    gemm.a.ld = gemm.b.ld = gemm.c.ld = gemm.d.ld = 0;
    gemm.alignment = 1;
    if (i % 3 != 0) gemm = gemm.gathered(random.below(60));
    if (i % 3 != 1) gemm = gemm.scattered(random.below(60));
    if (i % 4 == 0) gemm.a.ld = gemm.k + 3;
    if (!validate(gemm)) continue;
    ++checked;
    const Verdict verdict = run(gemm);
    EXPECT_TRUE(verdict) << text(gemm) << ": " << (verdict ? "" : verdict.error().detail);
  }
  EXPECT_GT(checked, 15);
}

TEST(Indices, WrongRowsAreFound) {
  const Gemm gemm = rows(70, 6, 8).gathered(50).scattered(90);
  ASSERT_TRUE(run(gemm));
  std::vector<std::int32_t> room;
  const auto next = [](std::int32_t row, std::int64_t) { return row + 1; };
  const auto uncut = [](std::int32_t row, std::int64_t of) {
    return row < 0 ? 1 : row >= of ? static_cast<std::int32_t>(of) - 2 : row;
  };
  EXPECT_FALSE(run(gemm, with_list(gemm, Operand::index_a, next, room)));
  EXPECT_FALSE(run(gemm, with_list(gemm, Operand::index_d, next, room)));
  EXPECT_FALSE(run(gemm, with_list(gemm, Operand::index_a, uncut, room)));
  EXPECT_FALSE(run(gemm, with_list(gemm, Operand::index_d, uncut, room)));
}

TEST(Indices, RowsOfDThatNoneNamesMustStayAsTheyWere) {
  const Gemm gemm = rows(4, 4, 8).scattered(400);
  const Problem problem = Problem::of(gemm).value();
  const Verdict verdict = verify(gemm, [&](const Operands& operands) -> Status {
    run_reference(problem, make_args(problem, operands), nullptr, 0, 1);
    const auto* const index = static_cast<const std::int32_t*>(operands.index_d);
    std::int64_t free = 0;
    while (std::any_of(index, index + 4, [&](int x) { return std::max(0, x) == free; })) ++free;
    static_cast<float*>(operands.d)[free * 4 + 3] = 0;
    return {};
  });
  ASSERT_FALSE(verdict);
  EXPECT_THAT(verdict.error().detail,
              HasSubstr("which belongs to no group, was written at column 3"));
}

TEST(Indices, ACallNeedsItsLists) {
  const Gemm gemm = Gemm::row_major(4, 2, 2).grouped(2, Grouping::rows).gathered(2).scattered(5);
  const auto plan = bare_plan(gemm, 1);
  const std::vector<float> a{1, 2, 10, 20}, b{1, 0, 0, 1, 2, 0, 0, 2};
  std::vector<float> d(10, -1);
  const std::vector<std::int32_t> list{1, 3}, from{1, 0, 99, 1}, to{4, 0, -7, 2};
  Operands operands{.a = a.data(), .b = b.data(), .d = d.data()};
  operands.groups = list.data();
  EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("index_a = null"));
  operands.index_a = from.data();
  EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("index_d = null"));
  const std::vector<std::int32_t> other{4, 3, -7, 2};
  operands.index_d = other.data();
  ASSERT_TRUE(run_plan(*plan, operands));
  EXPECT_THAT(d, ElementsAre(20, 40, -1, -1, -1, -1, 2, 4, 10, 20));
}

TEST(Indices, HipFamiliesRefuseThem) {
  const Gemm gemm = parse_gemm("bf16 N T 64 64 64 groups=2 grouped=rows gather=rows").value();
  const auto space = space_for(Problem::of(gemm).value(), caps_named("gfx942").value());
  EXPECT_FALSE(space);
}

}  // namespace kiln::indices_test
