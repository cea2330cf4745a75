// Grouped products as problems: their text, what is refused, sizes of operands, a group alone, and
// what the verification sees.
#include "generator/problem/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "cache/keys.h"
#include "engine/plan.h"
#include "generator/problem/extent.h"
#include "kiln/engine.hpp"
#include "kiln/numeric.hpp"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/reference_kernel.h"
#include "support/random_gemm.h"
#include "support/seed.h"
#include "tuner/verify/data.h"
#include "tuner/verify/data_set.h"
#include "tuner/verify/reference.h"
#include "tuner/verify/verify.h"

namespace kiln::groups_test {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const Gemm& gemm) {
  const Status status = validate(gemm);
  return status ? std::string() : status.error().message;
}

TEST(Groups, AreWrittenAndReadAsText) {
  const Gemm g = parse_gemm("bf16 N T 4096 7168 2048 groups=8 grouped=rows").value();
  EXPECT_EQ(g.grouping(), Grouping::rows);
  EXPECT_EQ(g.batch, 8);
  EXPECT_EQ(text(g), "bf16 N T 4096 7168 2048 groups=8 grouped=rows");
  EXPECT_EQ(g, Gemm::row_major(4096, 7168, 2048, bf16).transpose_b().grouped(8, Grouping::rows));
  EXPECT_EQ(text(parse_gemm("fp32 N N 3 5 7 grouped=masked groups=1").value()),
            "fp32 N N 3 5 7 groups=1 grouped=masked");
  const auto wrong = parse_gemm("bf16 N T 3 5 7 groups=2 grouped=columns");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("grouped = \"columns\""));
}

TEST(Groups, ShareRowsOrHaveTheirOwn) {
  const Gemm rows = Gemm::row_major(40, 6, 8).grouped(3, Grouping::rows);
  EXPECT_EQ(span(rows, Operand::a), 40 * 8);
  EXPECT_EQ(span(rows, Operand::b), 3 * 8 * 6);
  EXPECT_EQ(span(rows, Operand::d), 40 * 6);
  EXPECT_EQ(span(rows, Operand::groups), 3);
  EXPECT_EQ(span(rows.with_bias(Bias::per_column), Operand::bias), 3 * 6);
  EXPECT_EQ(span(rows.with_bias(Bias::per_row), Operand::bias), 40);
  EXPECT_EQ(rows.flops(), 2.0 * 40 * 6 * 8);
  const Gemm masked = Gemm::row_major(40, 6, 8).grouped(3, Grouping::masked);
  EXPECT_EQ(span(masked, Operand::d), 3 * 40 * 6);
  EXPECT_EQ(span(masked.with_bias(Bias::per_row), Operand::bias), 3 * 40);
  EXPECT_EQ(masked.flops(), 3 * 2.0 * 40 * 6 * 8);
}

// As docs/guide/grouped.md says: what belongs to rows of a shared A or D is there once, what
// belongs to B once for each group.
TEST(Groups, OfRowsHaveOneTensorScaleOfAAndDAndOneOfEachB) {
  const Gemm one = Gemm::row_major(40, 6, 8, s8)
                       .scaled(Scale::tensor)
                       .with_zero_points_of_a(Zero::tensor)
                       .quantised(s8, Scale::tensor);
  for (const Grouping how : {Grouping::rows, Grouping::masked}) {
    const Gemm g = one.grouped(3, how);
    EXPECT_EQ(refusal(g), "");
    for (const Operand which : {Operand::scale_a, Operand::scale_d, Operand::zero_a})
      EXPECT_EQ(span(g, which), how == Grouping::rows ? 1 : 3) << name(which);
    EXPECT_EQ(span(g, Operand::scale_b), 3);
  }
  Gemm of_k = one.grouped(3, Grouping::k);
  of_k.a.q.zero = Zero::none;
  for (const Operand which : {Operand::scale_a, Operand::scale_b, Operand::scale_d})
    EXPECT_EQ(span(of_k, which), 3) << name(which);
}

TEST(Groups, OfKShareAAndB) {
  const Gemm g = parse_gemm("bf16 T N 40 6 80 groups=3 grouped=k epilogue=bias_row").value();
  EXPECT_EQ(text(g), "bf16 T N 40 6 80 groups=3 grouped=k epilogue=bias_row");
  EXPECT_EQ(span(g, Operand::a), 40 * 80);
  EXPECT_EQ(span(g, Operand::b), 80 * 6);
  EXPECT_EQ(span(g, Operand::d), 3 * 40 * 6);
  EXPECT_EQ(span(g, Operand::bias), 3 * 40);
  EXPECT_EQ(span(g, Operand::groups), 3);
  EXPECT_EQ(g.flops(), 2.0 * 40 * 6 * 80);
}

TEST(Groups, OfKRefuseWhatTheyDoNotKnow) {
  const Gemm g = Gemm::row_major(40, 6, 256, bf16).transpose_a().grouped(3, Grouping::k);
  EXPECT_EQ(refusal(g), "");
  EXPECT_THAT(refusal(g.with_packed_b()), HasSubstr("grouping = k: b_packed = true"));
  EXPECT_THAT(refusal(g.with_gate(Gate::silu)),
              HasSubstr("grouping = k: epilogue.gate = silu: must be none"));
  EXPECT_THAT(refusal(Gemm::column_major(4, 6, 8).grouped(2, Grouping::k)),
              HasSubstr("grouping = k: d.order = column"));
  EXPECT_THAT(refusal(Gemm::row_major(40, 6, 256, bf16)
                          .with_weights(DType::s8, Scale::line)
                          .grouped(3, Grouping::k)),
              HasSubstr("grouping = k: b.dtype = s8: must not be weights"));
  EXPECT_THAT(refusal(Gemm::row_major(40, 6, 256, DType::fp8_e4m3)
                          .scaled(Scale::mx_32)
                          .grouped(3, Grouping::k)),
              HasSubstr("grouping = k: scale_a = mx32: a group may begin within a block"));
  for (const Operand which : {Operand::a, Operand::b}) {
    Gemm strided = g;
    (which == Operand::a ? strided.a : strided.b).batch_stride = 99999;
    EXPECT_THAT(refusal(strided), HasSubstr(" = 99999: all groups are in one matrix"));
  }
  Gemm long_k = g;
  long_k.k = std::int64_t{1} << 31;
  EXPECT_THAT(refusal(long_k), HasSubstr("k = 2147483648: groups of k are counted in 32 bits"));
}

// Blocks of scales are those of all of k, whatever the groups.
TEST(Groups, OfKShareBlocksOfScales) {
  const Gemm g = Gemm::row_major(20, 150, 300, fp8_e4m3)
                     .transpose_b()
                     .scaled(Scale::line_128, Scale::square_128)
                     .grouped(3, Grouping::k);
  EXPECT_EQ(refusal(g), "");
  EXPECT_EQ(text(g), "fp8 N T 20 150 300 groups=3 grouped=k scale=1x128:128x128");
  EXPECT_EQ(span(g, Operand::scale_a), 20 * 3);
  EXPECT_EQ(span(g, Operand::scale_b), 2 * 3);
  EXPECT_EQ(to_group(g, Operand::scale_a, 2, {200, 50}), 0);
  EXPECT_EQ(part_of_k(g, {200, 50}).first, 200);
  EXPECT_EQ(part_of_k(g, {200, 50}).all, 300);
  const Gemm lines = g.scaled(Scale::line);
  EXPECT_EQ(span(lines, Operand::scale_a), 3 * 20) << "of lines each group has its own";
  EXPECT_EQ(to_group(lines, Operand::scale_a, 2, {200, 50}), 2 * 20);
}

// A product of two groups that part within a block, written out.
TEST(Groups, OfKAreSummedWithTheScalesOfTheirElements) {
  const Gemm g = Gemm::row_major(1, 1, 260, fp8_e4m3)
                     .transpose_b()
                     .scaled(Scale::line_128)
                     .output(fp32)
                     .grouped(2, Grouping::k);
  const auto one = float_to_fp8(kE4m3, 1.0F);
  const std::vector<std::uint8_t> a(260, one), b(260, one);
  const std::vector<float> scale_a{1, 2, 4}, scale_b{1, 8, 64};
  const std::vector<std::int32_t> ends{200, 260};
  std::vector<float> d(2, -1);
  const auto plan = bare_plan(g, 1);
  Operands operands{.a = a.data(), .b = b.data(), .d = d.data()};
  operands.scale_a = scale_a.data(), operands.scale_b = scale_b.data();
  operands.groups = ends.data();
  ASSERT_TRUE(run_plan(*plan, operands));
  EXPECT_EQ(d[0], 128.0F * 1 + 72.0F * 16);
  EXPECT_EQ(d[1], 56.0F * 16 + 4.0F * 256);
  const std::vector<ProductPart> parts = parts_of(g, ends.data());
  for (std::size_t i = 0; i < 2; ++i) {
    Operands of = operands;
    move_to_group(g, of, parts[i].group, parts[i].segment);
    const Products known = products(parts[i].gemm, of.a, of.b, {Lines::Along::rows, 0, {0}},
                                    scales_in(of, part_of_k(g, parts[i].segment)));
    EXPECT_EQ(known.sum[0], d[i]);
  }
}

// Whether zeros are multiplied by a NaN is a kernel's own.
TEST(Groups, EmptyOnesOfKHaveFiniteScales) {
  const Gemm g = Gemm::row_major(3, 4, 20, fp8_e4m3).scaled(Scale::line).grouped(40, Grouping::k);
  int spoilt = 0;
  for (std::uint64_t seed = 1; seed < 60; ++seed) {
    const DataSet set =
        DataSet::make(g, {.data = Data::uniform, .seed = seed, .nonfinite = true}).value();
    for (const ProductPart& part : set.parts()) {
      Operands of;
      set.bind(of, part);
      for (std::int64_t i = 0; i < g.m; ++i) {
        const bool nan = std::isnan(load_element(fp32, of.scale_a, i));
        EXPECT_FALSE(nan && part.segment.count == 0) << seed;
        spoilt += nan;
      }
    }
  }
  EXPECT_GT(spoilt, 5);
}

// Groups begin at any token, so operands whose tokens lie side by side have no alignment.
TEST(Groups, OfKBeginAnywhereAlongLinesOfTokens) {
  Gemm g = Gemm::row_major(40, 16, 256, bf16).transpose_a().grouped(3, Grouping::k);
  g.alignment = 16;
  EXPECT_EQ(line_alignment(g, Operand::a), 16);
  EXPECT_EQ(line_alignment(g, Operand::b), 16);
  g.a.transposed = false;
  g.b.transposed = true;
  EXPECT_EQ(line_alignment(g, Operand::a), 2);
  EXPECT_EQ(line_alignment(g, Operand::b), 2);
  EXPECT_EQ(line_alignment(g, Operand::d), 16);
}

TEST(Groups, RefuseWhatTheyDoNotKnow) {
  const Gemm g = Gemm::row_major(40, 6, 8, bf16).grouped(3, Grouping::rows);
  EXPECT_EQ(refusal(g), "");
  EXPECT_THAT(refusal(g.with_packed_b()), HasSubstr("grouping = rows: b_packed = true"));
  EXPECT_THAT(refusal(Gemm::row_major(4, 6, 8).grouped(2, MaskedGroups{-1})),
              HasSubstr("expected_rows = -1: must be 0 or more"));
  EXPECT_THAT(refusal(Gemm::column_major(4, 6, 8).grouped(2, Grouping::masked)),
              HasSubstr("grouping = masked: d.order = column"));
  Gemm strided = g;
  strided.d.batch_stride = 240;
  EXPECT_THAT(refusal(strided), HasSubstr("stride_d = 240: all groups are in one matrix"));
  Gemm many = g;
  many.m = std::int64_t{1} << 31;
  EXPECT_THAT(refusal(many), HasSubstr("counted in 32 bits"));
  const Gemm codes = Gemm::row_major(40, 7, 96, bf16)
                         .transpose_b()
                         .with_weights(u4, Scale::line_32, fp32, Zero::integer);
  EXPECT_EQ(refusal(codes.batched(2)), "");
  EXPECT_THAT(refusal(codes.grouped(2, Grouping::rows)),
              HasSubstr("zero = int: a group's 7 x 3 zero points of u4 are not whole bytes"));
  EXPECT_EQ(refusal(codes.with_gate(Gate::silu).grouped(2, Grouping::masked)), "");
  Gemm across = g.transpose_a();
  across.alignment = 16;
  EXPECT_EQ(line_alignment(across, Operand::a), 2) << "groups begin at any element";
  EXPECT_EQ(line_alignment(across, Operand::d), 4);
  EXPECT_THAT(refusal(Gemm::row_major(40, 6, 256, DType::fp8_e4m3)
                          .scaled(Scale::square_128)
                          .grouped(3, Grouping::rows)),
              HasSubstr("a group may begin within a square"));
}

TEST(Groups, ListsThatSayTooMuchAreCut) {
  const Gemm rows = Gemm::row_major(10, 6, 8).grouped(5, Grouping::rows);
  const std::vector<std::int32_t> list{-3, 4, 2, 7, 99};
  std::vector<std::int64_t> first, count;
  for (int group = 0; group < 5; ++group) {
    const Segment of = segment_of(rows, list.data(), group);
    first.push_back(of.first), count.push_back(of.count);
  }
  EXPECT_THAT(count, ElementsAre(0, 4, 0, 3, 3));
  EXPECT_THAT(first, ElementsAre(0, 0, 4, 4, 7)) << "each begins behind all groups before it";
  const Gemm masked = Gemm::row_major(10, 6, 8).grouped(5, Grouping::masked);
  EXPECT_EQ(segment_of(masked, list.data(), 4).count, 10);
  EXPECT_EQ(segment_of(masked, list.data(), 0).count, 0);
  const Gemm of_k = Gemm::row_major(3, 6, 10).grouped(5, Grouping::k);
  EXPECT_EQ(segment_of(of_k, list.data(), 3).first, 4);
  EXPECT_EQ(segment_of(of_k, list.data(), 4).count, 3) << "the last one ends with k";
  const auto parts = parts_of(of_k, list.data());
  ASSERT_EQ(parts.size(), 5) << "empty groups have a D";
  EXPECT_EQ(parts[2].gemm.k, 0);
  EXPECT_EQ(parts_of(rows, list.data()).size(), 3);
}

// Whatever a list says, its groups lie behind one another, and the walk over them finds what each
// has alone.
TEST(Groups, NoRowIsOfTwoGroups) {
  test::RandomGemm random(test::seed_of_run() + 3, 10);
  const Gemm rows = Gemm::row_major(50, 6, 8).grouped(12, Grouping::rows);
  const Gemm of_k = Gemm::row_major(3, 6, 50).grouped(12, Grouping::k);
  for (int drawn = 0; drawn < 200; ++drawn) {
    std::vector<std::int32_t> list(12);
    for (std::int32_t& end : list) end = static_cast<std::int32_t>(random.below(80)) - 15;
    for (const Gemm& gemm : {rows, of_k}) {
      Segments segments(gemm, list.data());
      std::int64_t end = 0;
      for (std::int64_t group = 0; group < 12; ++group) {
        const Segment own = segment_of(gemm, list.data(), group), walked = segments.of(group);
        EXPECT_EQ(own.first, end);
        EXPECT_GE(own.count, 0);
        EXPECT_EQ(walked.first, own.first);
        EXPECT_EQ(walked.count, own.count);
        end = own.first + own.count;
      }
      EXPECT_EQ(end, std::clamp(*std::ranges::max_element(list), 0, 50));
    }
  }
}

// Each group has another B, so D tells which of them computed each row.
TEST(Groups, ACallWhoseListFallsComputesEachRowOnce) {
  const Gemm gemm = Gemm::row_major(8, 1, 1).grouped(4, Grouping::rows);
  const std::vector<float> a(8, 1), b{1, 10, 100, 1000};
  const std::vector<std::int32_t> falls{3, 1, 6, 5};
  for (const int threads : {1, 2}) {
    std::vector<float> d(8, -1);
    Operands operands{.a = a.data(), .b = b.data(), .d = d.data()};
    operands.groups = falls.data();
    ASSERT_TRUE(run_plan(*bare_plan(gemm, threads), operands));
    EXPECT_THAT(d, ElementsAre(1, 1, 1, 100, 100, 100, -1, -1));
  }
}

// The scales of D divide n, which groups of k do not.
TEST(Groups, OfKHaveADAndItsScalesEach) {
  const Gemm g = Gemm::row_major(1, 3, 18, bf16)
                     .transpose_a()
                     .quantised(s8, Scale::line_128)
                     .grouped(3, Grouping::k);
  EXPECT_EQ(refusal(g), "");
  EXPECT_EQ(span(g, Operand::d), 9);
  EXPECT_EQ(span(g, Operand::scale_d), 3);
  EXPECT_EQ(to_group(g, Operand::d, 2, {12, 6}), 6);
  EXPECT_EQ(to_group(g, Operand::scale_d, 2, {12, 6}), 2);
  const std::vector<std::uint16_t> a(18, float_to_bf16(1)), b(54, float_to_bf16(1));
  const std::vector<std::int32_t> ends{6, 12, 18};
  std::vector<std::int8_t> d(64, -1);
  std::vector<float> scales(4, -1);
  Operands operands{.a = a.data(), .b = b.data(), .d = d.data()};
  operands.groups = ends.data(), operands.scale_d = scales.data();
  ASSERT_TRUE(run_plan(*bare_plan(g, 1), operands));
  EXPECT_EQ(std::count(d.begin(), d.begin() + 9, 127), 9);
  EXPECT_EQ(std::count(d.begin() + 9, d.end(), -1), 55) << "nothing behind D is written";
  const float scale = 6.0F / 127;
  EXPECT_THAT(scales, ElementsAre(scale, scale, scale, -1));
}

// Half a byte has no address, so a group may not begin with one.
TEST(Groups, BeginWithAWholeByte) {
  const Gemm plain = Gemm::row_major(40, 6, 64, DType::fp4_e2m1).transpose_b().scaled(Scale::mx_32);
  for (const DType type : {DType::fp4_e2m1, DType::fp6_e2m3, DType::fp6_e3m2, DType::fp8_e4m3}) {
    Gemm g = plain.grouped(2, Grouping::rows);
    g.a.dtype = g.b.dtype = type;
    EXPECT_EQ(refusal(g), "") << name(type);
    Gemm across = g, columns = g;
    across.a.transposed = true;
    columns.a.order = Order::column_major;
    const auto refused = [&](const std::string& how) {
      return "grouping = rows: " + how +
             ": a group may begin within a byte of a.dtype = " + std::string(name(type)) +
             ", whose rows must be lines of memory";
    };
    const bool bytes = bits_of(type) == 8;
    EXPECT_EQ(refusal(across), bytes ? "" : refused("a.order = row, a.transposed = true"));
    EXPECT_EQ(refusal(columns), bytes ? "" : refused("a.order = column, a.transposed = false"));
    Gemm both = columns;
    both.a.transposed = true;
    EXPECT_EQ(refusal(both), "") << "a transposed column-major A has rows that are lines";
    EXPECT_EQ(refusal(across.grouped(2, Grouping::masked)), "") << "each has an A of its own";
  }
}

TEST(Groups, OneAloneIsAProblemOfItsOwn) {
  Gemm g = Gemm::row_major(40, 6, 8, bf16).grouped(3, Grouping::rows);
  g.a.ld = 11;
  const Gemm one = alone(g, 5);
  EXPECT_EQ(refusal(one), "");
  EXPECT_EQ(text(one), "bf16 N N 5 6 8 lda=11 ldb=6 ldc=6 ldd=6");
  const Segment seven{7, 5};
  EXPECT_EQ(to_group(g, Operand::a, 2, seven), 7 * 11);
  EXPECT_EQ(to_group(g, Operand::b, 2, seven), 2 * 6 * 8);
  EXPECT_EQ(to_group(g, Operand::d, 2, seven), 7 * 6);
  EXPECT_EQ(to_group(g.transpose_a(), Operand::a, 2, seven), 7);
  EXPECT_EQ(to_group(g.with_bias(Bias::per_column), Operand::bias, 2, seven), 2 * 6);
  EXPECT_EQ(to_group(g.with_bias(Bias::per_row), Operand::bias, 2, seven), 7);
}

TEST(Groups, OneOfKAloneIsAProblemOfItsOwn) {
  Gemm g = Gemm::row_major(40, 6, 80, bf16).transpose_a().grouped(3, Grouping::k);
  EXPECT_EQ(text(alone(g, 0)), "bf16 T N 40 6 0 lda=40 ldb=6 ldc=6 ldd=6");
  EXPECT_EQ(refusal(alone(g, 0)), "");
  const Segment seven{7, 5};
  EXPECT_EQ(to_group(g, Operand::a, 2, seven), 7 * 40);
  EXPECT_EQ(to_group(g, Operand::b, 2, seven), 7 * 6);
  EXPECT_EQ(to_group(g, Operand::d, 2, seven), 2 * 40 * 6);
  EXPECT_EQ(to_group(g.transpose_a().transpose_b(), Operand::a, 2, seven), 7);
  g.b.transposed = true;
  EXPECT_EQ(to_group(g, Operand::b, 2, seven), 7);
  g.b.order = Order::column_major;
  EXPECT_EQ(to_group(g, Operand::b, 2, seven), 7 * 6);
  EXPECT_EQ(to_group(g.with_bias(Bias::per_row), Operand::bias, 2, seven), 2 * 40);
  EXPECT_EQ(to_group(g.with_bias(Bias::per_column), Operand::bias, 2, seven), 2 * 6);
}

TEST(Groups, ExactDataAreHostileAndUniformOnesEven) {
  const Gemm g = Gemm::row_major(3000, 6, 8).grouped(40, Grouping::rows);
  std::vector<std::int32_t> list(40);
  bool empty = false, rest = false, beyond = false, falls = false;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    fill(g, Operand::groups, Data::exact, seed, list.data());
    empty |= std::ranges::adjacent_find(list) != list.end();
    rest |= std::ranges::max(list) < 3000;
    beyond |= std::ranges::max(list) > 3000;
    falls |= !std::ranges::is_sorted(list);
  }
  EXPECT_TRUE(empty && rest && beyond && falls);
  // Rows that have no row of D of their own are of no group.
  const Gemm fewer = g.scattered(700);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    fill(fewer, Operand::groups, Data::exact, seed, list.data());
    EXPECT_LE(std::ranges::max(list), 700);
  }
  fill(g, Operand::groups, Data::uniform, 3, list.data());
  EXPECT_EQ(list.back(), 3000);
  for (int group = 0; group < 40; ++group)
    EXPECT_NEAR(double(segment_of(g, list.data(), group).count), 75, 26);
}

TEST(Groups, ExactDataOfKAreHostileToo) {
  const Gemm g = Gemm::row_major(6, 8, 3000).grouped(40, Grouping::k);
  std::vector<std::int32_t> list(40);
  bool first_empty = false, last_empty = false, rest = false, beyond = false, falls = false;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    fill(g, Operand::groups, Data::exact, seed, list.data());
    first_empty |= list[0] == 0;
    last_empty |= list[39] == list[38];
    rest |= std::ranges::max(list) < 3000;
    beyond |= std::ranges::max(list) > 3000;
    falls |= !std::ranges::is_sorted(list);
  }
  EXPECT_TRUE(first_empty && last_empty && rest && beyond && falls);
  fill(g, Operand::groups, Data::uniform, 3, list.data());
  EXPECT_EQ(list.back(), 3000);
}

/// Runs the reference kernel on a grouped problem; `also` is told of D afterwards.
Verdict run(const Gemm& gemm, const std::function<void(const Operands&)>& also) {
  const Problem problem = Problem::of(gemm).value();
  return verify(gemm, [&](const Operands& operands) -> Status {
    const KilnArgs args = make_args(problem, operands);
    for (int thread = 0; thread < 2; ++thread) run_reference(problem, args, nullptr, thread, 2);
    also(operands);
    return {};
  });
}

TEST(Groups, TheReferenceKernelIsRight) {
  test::RandomGemm random(test::seed_of_run(), 40);
  int checked = 0;
  for (int i = 0; i < 90; ++i) {
    Gemm gemm = random.next();
    gemm.b_packed = false;
    constexpr Grouping kKinds[] = {Grouping::rows, Grouping::masked, Grouping::k};
    gemm = gemm.grouped(1 + random.below(6), kKinds[i % 3]);
    gemm.a.ld = gemm.b.ld = gemm.c.ld = gemm.d.ld = 0;
    gemm.alignment = 1;
    if (!validate(gemm)) continue;
    ++checked;
    const Verdict verdict = run(gemm, [](const Operands&) {});
    EXPECT_TRUE(verdict) << text(gemm) << ": " << verdict.error().detail;
  }
  EXPECT_GT(checked, 15);
}

TEST(Groups, UniformDataHaveAsManyRowsAsAreExpected) {
  const auto mean = [](const Gemm& gemm) {
    std::vector<std::int32_t> counts(static_cast<std::size_t>(gemm.batch));
    fill(gemm, Operand::groups, Data::uniform, 1, counts.data());
    return std::accumulate(counts.begin(), counts.end(), 0.0) / double(gemm.batch);
  };
  const Gemm masked = Gemm::row_major(4096, 6, 8).grouped(64, Grouping::masked);
  EXPECT_NEAR(mean(masked), 2048, 150);
  EXPECT_NEAR(mean(masked.grouped(64, MaskedGroups{20})), 20, 2);
  EXPECT_LE(mean(masked.grouped(64, MaskedGroups{1 << 20})), 4096) << "m is the most";
}

// What is expected is not part of the code: kernels of other expectations serve a problem.
TEST(Groups, WhatIsExpectedChangesTheKeyAndNotTheClass) {
  const Gemm masked = Gemm::row_major(4096, 6, 8).grouped(64, Grouping::masked);
  const Gemm few = masked.grouped(64, MaskedGroups{20});
  EXPECT_NE(key_text(masked), key_text(few));
  EXPECT_EQ(class_text(masked), class_text(few));
  EXPECT_EQ(text(few), "fp32 N N 4096 6 8 groups=64 grouped=masked expected_rows=20");
}

TEST(Groups, RowsThatAreNoGroupsMustStayAsTheyWere) {
  for (const Grouping how : {Grouping::rows, Grouping::masked}) {
    const Gemm gemm = Gemm::row_major(2000, 4, 8).grouped(3, how);
    const Verdict verdict = run(gemm, [&](const Operands& operands) {
      static_cast<float*>(operands.d)[span(gemm, Operand::d) - 1] = 0;
    });
    ASSERT_FALSE(verdict);
    EXPECT_THAT(verdict.error().detail,
                HasSubstr("which belongs to no group, was written at column 3"));
  }
}

// Two groups of tokens beside an empty one, whose D is beta·C plus its bias.
TEST(Groups, ACallOfKWritesEveryGroup) {
  const Gemm gemm =
      Gemm::row_major(4, 2, 8).transpose_a().with_bias(Bias::per_column).grouped(3, Grouping::k);
  const auto plan = bare_plan(gemm, 1);
  std::vector<float> a(32, 1), b(16, 1), c(24, 1), d(24, -1), bias{0, 0, 100, 200, 0, 0};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::fill(a.begin() + 6 * 4, a.end(), nan);  // tokens of no group
  std::fill(b.begin() + 6 * 2, b.end(), nan);
  const std::vector<std::int32_t> list{5, 5, 6};
  Operands operands{
      .a = a.data(), .b = b.data(), .c = c.data(), .d = d.data(), .bias = bias.data(), .beta = 2};
  operands.groups = list.data();
  ASSERT_TRUE(run_plan(*plan, operands));
  EXPECT_EQ(std::vector(d.begin(), d.begin() + 8), std::vector<float>(8, 7));
  EXPECT_THAT(std::vector(d.begin() + 8, d.begin() + 16),
              ElementsAre(102, 202, 102, 202, 102, 202, 102, 202));
  EXPECT_EQ(std::vector(d.begin() + 16, d.end()), std::vector<float>(8, 3));
}

TEST(Groups, ACallNeedsItsList) {
  const Gemm gemm = Gemm::row_major(8, 4, 4).grouped(2, Grouping::rows);
  const auto plan = bare_plan(gemm, 1);
  std::vector<float> a(32, 1), b(32, 1), d(32, -1);
  Operands operands{.a = a.data(), .b = b.data(), .d = d.data()};
  EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("groups = null"));
  const std::vector<std::int32_t> list{3, 5};
  operands.groups = list.data();
  ASSERT_TRUE(run_plan(*plan, operands));
  EXPECT_EQ(std::accumulate(d.begin(), d.begin() + 20, 0.0F), 80);
  EXPECT_EQ(std::accumulate(d.begin() + 20, d.end(), 0.0F), -12);
  operands.groups = d.data();
  EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("groups = "));
}

}  // namespace kiln::groups_test
