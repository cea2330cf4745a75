// Problems whose operands have scales: their rules, their text, where scales lie, and the two
// references against sums written out.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <tuple>

#include "engine/plan.h"
#include "generator/problem/extent.h"
#include "generator/problem/gemm_types.h"
#include "generator/problem/problem.h"
#include "kiln/numeric.hpp"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/reference_kernel.h"
#include "support/opened_engine.h"
#include "tuner/verify/data.h"
#include "tuner/verify/reference.h"
#include "tuner/verify/verify.h"

namespace kiln::scales_test {

using testing::HasSubstr;

/// Row-major, both operands along k.
Gemm mx(std::int64_t m, std::int64_t n, std::int64_t k, DType a, DType b) {
  Gemm g = Gemm::row_major(m, n, k, a).transpose_b().scaled(Scale::mx_32);
  g.b.dtype = b;
  return g;
}

Gemm fp8(std::int64_t m, std::int64_t n, std::int64_t k, Scale a, Scale b) {
  return Gemm::row_major(m, n, k, fp8_e4m3).transpose_b().scaled(a, b);
}

TEST(Scales, TheirExtentsAreThoseOfTheirBlocks) {
  const Gemm g = fp8(300, 129, 260, Scale::line_128, Scale::square_128);
  EXPECT_EQ(extent(g, Operand::scale_a).lines, 300);
  EXPECT_EQ(extent(g, Operand::scale_a).length, 3);
  EXPECT_EQ(extent(g, Operand::scale_b).lines, 2);
  EXPECT_EQ(extent(g, Operand::scale_b).length, 3);
  EXPECT_EQ(span_bytes(g.batched(2), Operand::scale_b), 2 * 2 * 3 * 4);
  const Gemm lines = fp8(300, 129, 260, Scale::line, Scale::none);
  EXPECT_EQ(span_bytes(lines, Operand::scale_a), 300 * 4);
  EXPECT_EQ(span_bytes(lines, Operand::scale_b), 0);
  const Gemm whole = fp8(300, 129, 260, Scale::tensor, Scale::line);
  EXPECT_EQ(span_bytes(whole, Operand::scale_a), 4);
  EXPECT_EQ(span_bytes(whole.batched(3), Operand::scale_a), 3 * 4);
  EXPECT_THAT(validate(fp8(3'000'000'000, 1, 1, Scale::tensor, Scale::line)).error().message,
              HasSubstr("m = 3000000000: scale_a = tensor needs at most 2147483647"));
  const Gemm blocks = mx(5, 7, 96, fp4_e2m1, fp6_e3m2);
  EXPECT_EQ(span_bytes(blocks, Operand::scale_a), 5 * 3);
  EXPECT_EQ(span_bytes(blocks, Operand::scale_b), 7 * 3);
  EXPECT_EQ(span_bytes(blocks, Operand::a), 5 * 48);
  EXPECT_EQ(span_bytes(blocks, Operand::b), 7 * 72);
}

TEST(ScaleOrder, SaysWhereTheyLie) {
  const Gemm g = fp8(301, 130, 260, Scale::line_128, Scale::line_128)
                     .with_scale_order(ScaleOrder::blocks, ScaleOrder::blocks_4)
                     .batched(2);
  ASSERT_TRUE(validate(g));
  EXPECT_EQ(extent(g, Operand::scale_a).lines, 3);
  EXPECT_EQ(extent(g, Operand::scale_a).length, 301);
  EXPECT_EQ(span_bytes(g, Operand::scale_a), 2 * 3 * 301 * 4);
  EXPECT_EQ(leading_dimension(g, Operand::scale_b), 132);
  EXPECT_EQ(batch_stride(g, Operand::scale_b), 3 * 132);
  EXPECT_EQ(span(g, Operand::scale_b), 5 * 132 + 130) << "nothing behind the last scale";
  const ScaleStrides a = strides_of_scales(g, Operand::a), b = strides_of_scales(g, Operand::b);
  EXPECT_EQ(std::tie(a.line, a.block, a.batch), std::tuple(1, 301, 903));
  EXPECT_EQ(std::tie(b.line, b.block, b.batch), std::tuple(1, 132, 396));
  const ScaleStrides of_group = strides_of_scales(g, Operand::a, {.rows = 500});
  EXPECT_EQ(of_group.block, 500);
  const Gemm tight = g.with_scale_order(ScaleOrder::lines);
  const ScaleStrides lines = strides_of_scales(tight, Operand::a);
  EXPECT_EQ(std::tie(lines.line, lines.block, lines.batch), std::tuple(3, 1, 903));
}

TEST(ScaleOrder, HasAText) {
  for (const char* line :
       {"fp8 N T 9 9 300 scale=1x128 scale_order=blocks",
        "fp8 N T 9 9 300 scale=1x128:128x128 scale_order=blocks_4:lines",
        "fp8 N T 9 9 300 groups=3 grouped=masked scale=1x128 scale_order=lines:blocks"}) {
    const auto g = parse_gemm(line);
    ASSERT_TRUE(g) << line << ": " << g.error().message;
    EXPECT_EQ(text(*g), line);
  }
  const auto message = [](const std::string& line) {
    const auto g = parse_gemm(line);
    return g ? "accepted " + line : g.error().message;
  };
  EXPECT_THAT(message("fp8 N T 9 9 300 scale=1x128 scale_order=rows"),
              HasSubstr("scale_order = \"rows\": \"rows\" is none of lines, blocks, blocks_4"));
  EXPECT_THAT(message("fp8 N T 9 9 300 scale=1x128:128x128 scale_order=blocks"),
              HasSubstr("scale_order_b = blocks: scale_b = 128x128: must be 1x128"));
  EXPECT_THAT(message("fp8 N T 9 9 300 scale=line scale_order=blocks_4:lines"),
              HasSubstr("scale_order_a = blocks_4: scale_a = line: must be 1x128"));
  EXPECT_THAT(message("bf16_int4 N T 1 8 128 group=128 scale_order=lines:blocks"),
              HasSubstr("scale_order_b = blocks: b.dtype = s4: must not be weights"));
  EXPECT_THAT(message("fp8 N T 9 8 300 groups=2 grouped=rows gather=rows scale=1x128 "
                      "scale_order=blocks"),
              HasSubstr("scale_order_a = blocks: gather = rows: must be none"));
  Gemm g = fp8(8, 8, 128, Scale::line_128, Scale::line_128);
  g.b.q.order = static_cast<ScaleOrder>(7);
  EXPECT_THAT(validate(g).error().message, HasSubstr("scale_order_b = 7"));
  g = fp8(0x7fffffffffffffff, 0, 0, Scale::line_128, Scale::line_128)
          .with_scale_order(ScaleOrder::blocks_4);
  EXPECT_THAT(validate(g).error().message, HasSubstr("scales do not fit 64 bits"));
}

TEST(Scales, EveryMixOfMxFormatsIsAProblem) {
  const DType formats[] = {fp8_e4m3, fp8_e5m2, fp6_e2m3, fp6_e3m2, fp4_e2m1};
  for (const DType a : formats)
    for (const DType b : formats) {
      const Gemm g = mx(3, 5, 64, a, b);
      ASSERT_TRUE(validate(g)) << validate(g).error().message;
      const auto back = parse_gemm(text(g));
      ASSERT_TRUE(back) << text(g) << ": " << back.error().message;
      EXPECT_EQ(*back, g) << text(g);
      EXPECT_EQ(Problem::of(g).value().gemm.a.q.scale, Scale::mx_32);
    }
}

TEST(Scales, TextNamesThem) {
  EXPECT_EQ(text(mx(1, 2, 32, fp4_e2m1, fp4_e2m1)), "fp4 N T 1 2 32 scale=mx32");
  EXPECT_EQ(text(fp8(1, 2, 3, Scale::line_128, Scale::square_128)),
            "fp8 N T 1 2 3 scale=1x128:128x128");
  for (const char* line :
       {"fp8 N T 1 2 3 scale=line", "fp8 N N 1 2 3 scale=none:line", "fp6 N T 4 4 32 scale=mx32",
        "e4m3e2m1 N T 4 4 32 out=fp32 scale=mx32", "fp8 T N 8 8 8 order=column scale=line:none",
        "fp8 N T 9 9 300 scale=1x128", "fp8 N T 9 9 300 scale=tensor",
        "int8 N T 9 9 300 out=bf16 scale=line", "u8s8 N T 9 9 300 out=fp32 scale=tensor:line",
        "int8 N N 9 9 300 out=fp16 packed_b=1 scale=line",
        "int8 N T 9 9 300 out=s8 scale=line scale_d=line"}) {
    const auto g = parse_gemm(line);
    ASSERT_TRUE(g) << line << ": " << g.error().message;
    EXPECT_EQ(text(*g), line);
  }
}

TEST(Scales, RefusalsNameTheField) {
  const auto message = [](const std::string& line) {
    const auto g = parse_gemm(line);
    return g ? "accepted " + line : g.error().message;
  };
  EXPECT_THAT(message("fp8 N T 1 2 32 scale=rows"), HasSubstr("scale = \"rows\""));
  EXPECT_THAT(message("fp8 N T 1 2 32 scale=line:"), HasSubstr("scale = \"line:\""));
  EXPECT_THAT(message("bf16 N T 1 2 32 scale=line"), HasSubstr("scale_a = line"));
  EXPECT_THAT(message("int8 N T 1 2 32 scale=none:line"),
              HasSubstr("scale_b = line: b.dtype = s8 needs floats in D or scales of it: "
                        "d.dtype = s32"));
  EXPECT_THAT(message("int8 N T 1 2 32 out=s8 scale=line"), HasSubstr("d.dtype = s8"));
  EXPECT_THAT(message("int8 N T 1 2 128 out=bf16 scale=1x128:128x128"),
              HasSubstr("scale_a = 1x128: a.dtype = s8 is summed in s32 along all of k"));
  EXPECT_THAT(message("u8s8 N T 1 2 32 out=bf16 scale=mx32"), HasSubstr("a.dtype = u8 is summed"));
  EXPECT_THAT(message("fp4 N T 1 2 32"), HasSubstr("scale_a = none, scale_b = none"));
  EXPECT_THAT(message("e5m2 N T 1 2 32 scale=line"), HasSubstr("needs mx32"));
  EXPECT_THAT(message("fp6 N T 1 2 32 scale=mx32:none"), HasSubstr("needs mx32"));
  EXPECT_THAT(message("fp8 N T 1 2 32 scale=mx32:1x128"), HasSubstr("blocks along k"));
  EXPECT_THAT(message("fp8 N T 1 2 32 scale=line:1x128"), HasSubstr("blocks along k"));
  EXPECT_THAT(message("fp8 N T 1 2 33 scale=mx32"), HasSubstr("k = 33"));
  EXPECT_THAT(message("fp8fnuz N T 1 2 32 scale=mx32"), HasSubstr("a.dtype = fp8_e4m3fnuz"));
  EXPECT_THAT(message("fp8 N T 1 2 32 scale=line packed_b=1"), HasSubstr("b_packed"));
  EXPECT_THAT(message("fp4 N T 2 2 32 lda=33 scale=mx32"), HasSubstr("lda = 33"));
  EXPECT_THAT(message("fp6 N T 2 2 32 ldb=34 scale=mx32"), HasSubstr("ldb = 34"));
  EXPECT_THAT(message("fp6 N T 2 2 32 batch=2 stride_b=66 scale=mx32"), HasSubstr("stride_b = 66"));
  const Gemm padded =
      parse_gemm("fp4 N T 2 2 32 align=16 out=fp32 ldc=4 ldd=4 lda=48 scale=mx32").value();
  EXPECT_EQ(line_alignment(padded, Operand::a), 8) << "48 elements are 24 bytes";
  Gemm g = mx(1, 1, 32, fp4_e2m1, fp4_e2m1);
  g.b.q.scale = static_cast<Scale>(9);
  EXPECT_THAT(validate(g).error().message, HasSubstr("scale_b = 9"));
}

TEST(Scales, ChangePlacesWithTheirOperands) {
  Gemm g = Gemm::column_major(300, 200, 256, fp8_e4m3)
               .scaled(Scale::line_128, Scale::square_128)
               .with_scale_order(ScaleOrder::blocks);
  ASSERT_TRUE(validate(g));
  const Problem canonical = Problem::of(g).value();
  EXPECT_EQ(canonical.gemm.a.q.scale, Scale::square_128);
  EXPECT_EQ(canonical.gemm.b.q.scale, Scale::line_128);
  EXPECT_EQ(canonical.gemm.a.q.order, ScaleOrder::lines);
  EXPECT_EQ(canonical.gemm.b.q.order, ScaleOrder::blocks);
  int a = 0, b = 0;
  Operands operands;
  operands.scale_a = &a, operands.scale_b = &b;
  EXPECT_EQ(make_args(canonical, operands).scale_a, &b);
  EXPECT_EQ(make_args(canonical, operands).scale_b, &a);
}

/// Scales of a problem, filled.
std::vector<std::byte> filled_scales(const Gemm& g, Operand which) {
  std::vector<std::byte> out(static_cast<std::size_t>(span_bytes(g, scales_of(which))));
  fill(g, scales_of(which), Data::uniform, 5, out.data());
  return out;
}

TEST(Scales, ReferenceSumsAreTheSumsWrittenOut) {
  Gemm g = fp8(140, 133, 300, Scale::line_128, Scale::square_128).batched(2).output(fp32);
  std::vector<std::uint8_t> a(static_cast<std::size_t>(span(g, Operand::a)));
  std::vector<std::uint8_t> b(static_cast<std::size_t>(span(g, Operand::b)));
  std::vector<float> d(static_cast<std::size_t>(span(g, Operand::d)));
  fill(g, Operand::a, Data::uniform, 1, a.data());
  fill(g, Operand::b, Data::uniform, 1, b.data());
  const auto scale_a = filled_scales(g, Operand::a), scale_b = filled_scales(g, Operand::b);
  Operands operands{.a = a.data(), .b = b.data(), .d = d.data()};
  operands.scale_a = scale_a.data(), operands.scale_b = scale_b.data();
  ASSERT_TRUE(reference_gemm(g, operands));
  const auto value = [](const std::vector<std::uint8_t>& x, std::int64_t at) {
    return double(decode(kE4m3fn, x[static_cast<std::size_t>(at)]));
  };
  const auto scale = [](const std::vector<std::byte>& x, std::int64_t at) {
    return load_element(fp32, x.data(), at);
  };
  for (std::int64_t z = 0; z < 2; ++z)
    for (std::int64_t i = 0; i < 140; i += 7)
      for (std::int64_t j = 0; j < 133; j += 3) {
        double sum = 0;
        for (std::int64_t p = 0; p < 300; ++p)
          sum += value(a, (z * 140 + i) * 300 + p) * scale(scale_a, (z * 140 + i) * 3 + p / 128) *
                 value(b, (z * 133 + j) * 300 + p) *
                 scale(scale_b, (z * 2 + j / 128) * 3 + p / 128);
        ASSERT_NEAR(d[static_cast<std::size_t>((z * 140 + i) * 133 + j)], sum, 1e-3)
            << i << " " << j;
      }
}

/// A call with scales in another order, and the same with them line by line.
void expect_the_same(const Gemm& ordered, const std::vector<std::int32_t>& groups = {}) {
  const Gemm plain = ordered.with_scale_order(ScaleOrder::lines);
  std::vector<std::uint8_t> a(static_cast<std::size_t>(span(plain, Operand::a)));
  std::vector<std::uint8_t> b(static_cast<std::size_t>(span(plain, Operand::b)));
  fill(plain, Operand::a, Data::uniform, 1, a.data());
  fill(plain, Operand::b, Data::uniform, 1, b.data());
  const auto run = [&](const Gemm& g, const std::vector<float>& of_a,
                       const std::vector<float>& of_b) {
    std::vector<float> d(static_cast<std::size_t>(span(g, Operand::d)));
    Operands operands{.a = a.data(), .b = b.data(), .d = d.data()};
    operands.scale_a = of_a.data(), operands.scale_b = of_b.data();
    operands.groups = groups.data();
    std::vector<int> index(static_cast<std::size_t>(g.m));
    for (std::size_t i = 0; i < index.size(); ++i) index[i] = static_cast<int>(index.size() - i);
    operands.index_d = index.data();
    const Problem problem = Problem::of(g).value();
    run_reference(problem, make_args(problem, operands), nullptr, 0, 1);
    if (groups.empty()) {
      std::vector<float> exact(d.size());
      operands.d = exact.data();
      EXPECT_TRUE(reference_gemm(g, operands));
      d.insert(d.end(), exact.begin(), exact.end());
    }
    return d;
  };
  const auto lines = [&](Operand which) {
    std::vector<float> out(static_cast<std::size_t>(span(plain, scales_of(which))));
    fill(plain, scales_of(which), Data::uniform, 5, out.data());
    return out;
  };
  // Lines, blocks and batches that are written out here.
  const auto moved = [&](Operand which, const std::vector<float>& from) {
    const ScaleOrder order = which == Operand::a ? ordered.a.q.order : ordered.b.q.order;
    if (order == ScaleOrder::lines) return from;
    const bool of_rows = which == Operand::a && ordered.grouping() == Grouping::rows;
    const bool shared = ordered.grouping() == Grouping::k || of_rows;
    const std::int64_t batches = shared ? 1 : ordered.batch;
    const std::int64_t count = which == Operand::a ? ordered.m : ordered.columns_of_b();
    const std::int64_t blocks = (ordered.k + 127) / 128;
    const std::int64_t pitch = order == ScaleOrder::blocks ? count : (count + 3) / 4 * 4;
    std::vector<float> to(static_cast<std::size_t>(batches * blocks * pitch),
                          std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t z = 0; z < batches; ++z)
      for (std::int64_t i = 0; i < count; ++i)
        for (std::int64_t p = 0; p < blocks; ++p)
          to[static_cast<std::size_t>((z * blocks + p) * pitch + i)] =
              from[static_cast<std::size_t>((z * count + i) * blocks + p)];
    return to;
  };
  const auto of_a = lines(Operand::a), of_b = lines(Operand::b);
  EXPECT_EQ(run(ordered, moved(Operand::a, of_a), moved(Operand::b, of_b)), run(plain, of_a, of_b))
      << text(ordered);
}

TEST(ScaleOrder, GivesTheSameNumbers) {
  for (const char* line :
       {"fp8 N T 21 30 300 batch=2 out=fp32 scale=1x128 scale_order=blocks",
        "fp8 N T 21 30 300 batch=2 out=fp32 scale=1x128:128x128 scale_order=blocks_4:lines",
        "fp8 N N 21 30 300 out=fp32 order=column scale=1x128 scale_order=blocks:blocks_4",
        "fp8 N T 21 30 300 out=fp32 gate=silu scale=1x128 scale_order=lines:blocks_4"})
    expect_the_same(parse_gemm(line).value());
  const std::vector<std::int32_t> rows{5, 5, 21}, counts{3, 0, 21};
  for (const char* order : {"blocks", "blocks_4", "blocks_4:lines", "lines:blocks"}) {
    const auto of = [&](const char* kind) {
      return parse_gemm(fmt::format("fp8 N T 21 30 300 groups=3 grouped={} out=fp32 scale=1x128 "
                                    "scale_order={}",
                                    kind, order))
          .value();
    };
    expect_the_same(of("rows"), rows);
    expect_the_same(of("rows").scattered(40), rows);
    expect_the_same(of("masked"), counts);
    expect_the_same(of("k"), {100, 100, 290});
  }
}

/// Every kind, every pair of types, layouts that turn everything round.
std::vector<Gemm> problems() {
  std::vector<Gemm> out;
  const std::pair<Scale, Scale> kinds[] = {
      {Scale::line, Scale::line},           {Scale::none, Scale::line},
      {Scale::tensor, Scale::tensor},       {Scale::tensor, Scale::line},
      {Scale::line_128, Scale::square_128}, {Scale::square_128, Scale::line_128},
      {Scale::line_128, Scale::line_128},   {Scale::mx_32, Scale::mx_32}};
  int turn = 0;
  for (const TypeRow& row : kAllTypeRows)
    for (const auto& [a, b] : kinds) {
      Gemm g = Gemm::row_major(20, 136, 160, row.a).scaled(a, b);
      g.b.dtype = row.b;
      g.accumulator = row.accumulator;
      if (row.accumulator == s32) g = g.output(bf16);
      ++turn;
      if (turn % 2 == 0) g = g.transpose_b();
      if (turn % 3 == 0) g = g.transpose_a();
      if (turn % 5 == 0) g.a.order = Order::column_major;
      if (turn % 4 == 0) g.c.order = g.d.order = Order::column_major;
      if (turn % 7 == 0) g = g.batched(2);
      const auto order = [&](Scale s, int by) {
        return s == Scale::line_128 ? static_cast<ScaleOrder>(turn / by % 3) : ScaleOrder::lines;
      };
      g = g.with_scale_order(order(a, 1), order(b, 3));
      if (validate(g)) out.push_back(g);
    }
  return out;
}

TEST(Scales, TheReferenceKernelComputesThemAll) {
  const auto all = problems();
  EXPECT_GT(all.size(), 40u);
  for (const Gemm& g : all) {
    const Problem problem = Problem::of(g).value();
    const Verdict verdict = verify(g, [&](const Operands& operands) -> Status {
      const KilnArgs args = make_args(problem, operands);
      for (int t = 0; t < 3; ++t) run_reference(problem, args, nullptr, t, 3);
      return {};
    });
    EXPECT_TRUE(verdict) << text(g) << ": " << verdict.error().detail;
  }
}

TEST(Scales, NeighboursOfProblemsAreProblems) {
  std::vector<Gemm> all = problems();
  all.push_back(mx(8192, 8192, 8192, fp6_e2m3, fp4_e2m1));
  for (const int bytes : {1, 4, 16})
    for (Gemm g : all) {
      g.alignment = bytes;
      if (!validate(g)) continue;
      const auto neighbours = ragged_neighbours(g);
      EXPECT_EQ(neighbours.size(), 2u);
      for (const Gemm& near : neighbours)
        EXPECT_TRUE(validate(near)) << text(near) << ": " << validate(near).error().message;
    }
}

TEST(Scales, TheVerifierMissesNoWrongScale) {
  for (const Scale kind : {Scale::line, Scale::line_128, Scale::mx_32, Scale::tensor}) {
    Gemm g = fp8(24, 20, 256, kind, kind);
    if (kind == Scale::line_128) g = g.with_scale_order(ScaleOrder::blocks);
    const Problem problem = Problem::of(g).value();
    const Verdict verdict = verify(g, [&](const Operands& operands) -> Status {
      // One scale of A, the last, is that of its neighbour.
      const auto bytes = static_cast<std::size_t>(span_bytes(g, Operand::scale_a));
      const auto size = static_cast<std::size_t>(scale_size(kind));
      std::vector<std::byte> wrong(bytes);
      std::memcpy(wrong.data(), operands.scale_a, bytes);
      for (std::size_t i = 0; i < size; ++i)
        wrong[bytes - size + i] ^= size == 1 ? std::byte{1} : std::byte{0x80};
      KilnArgs args = make_args(problem, operands);
      args.scale_a = wrong.data();
      run_reference(problem, args, nullptr, 0, 1);
      return {};
    });
    EXPECT_FALSE(verdict) << text(g);
  }
}

TEST(Scales, OfIntegersAreRoundedAsTheirSums) {
  const Gemm g = parse_gemm("int8 N T 20 30 4096 out=fp32 scale=line").value();
  const Problem problem = Problem::of(g).value();
  const Verdict verdict = verify(g, [&](const Operands& operands) -> Status {
    KilnArgs args = make_args(problem, operands);
    run_reference(problem, args, nullptr, 0, 1);
    auto* d = static_cast<float*>(operands.d);
    // Far less than sums of floats may be off, 16 roundings of the value.
    for (int i = 0; i < 20 * 30; ++i) d[i] *= 1.0F + 16 * 0x1p-23F;
    return {};
  });
  EXPECT_FALSE(verdict);
}

// Products of three pairs whose sum is 0, and in double is not when scales are multiplied first.
TEST(Scales, SumsOfIntegersThatAreZeroStayZero) {
  const Gemm g = parse_gemm("int8 N T 1 1 3 out=bf16 scale=line").value();
  const std::int8_t a[] = {29, -38, 42}, b[] = {74, -43, -90};
  const float scale_a = 0.1F, scale_b = 0.3F;
  Scales scales;
  scales.a = &scale_a, scales.b = &scale_b;
  for (const auto along : {Lines::Along::rows, Lines::Along::columns})
    EXPECT_EQ(products(g, a, b, {along, 0, {0}}, scales).sum[0], 0.0);
  Gemm zeros = g.with_zero_points_of_a();
  const std::int32_t zero = 5, column_sum = 74 - 43 - 90;
  scales.zero_a = &zero, scales.column_sums_b = &column_sum;
  const Products shifted = products(zeros, a, b, {Lines::Along::rows, 0, {0}}, scales);
  EXPECT_EQ(shifted.sum[0], -5.0 * column_sum * (double(scale_a) * scale_b));
  EXPECT_GT(shifted.magnitude[0], 0.0);
}

// As a kernel of the CPU has it that sums in 32 bits, on more data than one seed's.
TEST(Scales, VerificationTakesExactSumsOfIntegers) {
  const Gemm g = parse_gemm("int8 N T 70 96 128 out=bf16 scale=line").value();
  const Problem problem = Problem::of(g).value();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto kernel = [&](const Operands& operands) -> Status {
      run_reference(problem, make_args(problem, operands), nullptr, 0, 1);
      return {};
    };
    const Verdict verdict = verify(g, kernel, {.seed = seed});
    EXPECT_TRUE(verdict) << seed << ": " << verdict.error().detail;
  }
}

/// No host family computes these: the built-in kernel does, and tuning says what is missing.
TEST(Scales, TheEngineRunsThemOnTheCpu) {
  test::Opened engine;
  const Gemm all[] = {mx(20, 30, 96, fp4_e2m1, fp8_e5m2),
                      fp8(20, 30, 300, Scale::line, Scale::line),
                      fp8(20, 30, 300, Scale::none, Scale::none)};
  for (const Gemm& g : all) {
    const Verdict verdict = test::check(*engine.engine, g);
    EXPECT_TRUE(verdict) << text(g) << ": " << test::why(verdict);
    EXPECT_EQ(engine->plan(g)->match(), Match::reference) << text(g);
    const auto tuned = engine->tune(g);
    ASSERT_FALSE(tuned) << text(g);
    EXPECT_EQ(tuned.error().code, ErrorCode::unsupported) << tuned.error().message;
  }
}

// Up to 16 bytes, which tensor maps of scales need; others keep the 4 that loads need.
TEST(Scales, OfBlocksAreAsAlignedAsTheMatrices) {
  Gemm g = fp8(8, 16, 256, Scale::line_128, Scale::square_128);
  for (const auto& [promised, wanted] : {std::pair{1, 4}, {8, 8}, {16, 16}, {256, 16}}) {
    g.alignment = promised;
    EXPECT_EQ(address_alignment(g, Operand::scale_a), wanted);
    EXPECT_EQ(address_alignment(g, Operand::scale_b), wanted);
  }
  for (Gemm other :
       {fp8(8, 16, 256, Scale::line, Scale::tensor), mx(8, 16, 256, fp8_e4m3, fp8_e4m3)}) {
    other.alignment = 16;
    EXPECT_EQ(address_alignment(other, Operand::scale_a), 4);
    EXPECT_EQ(address_alignment(other, Operand::scale_b), 4);
  }
  const Gemm weights =
      parse_gemm("bf16_int4 N T 8 16 256 group=128 scale_type=bf16 align=16").value();
  EXPECT_EQ(address_alignment(weights, Operand::scale_b), 2);
}

TEST(Scales, CallsNeedThem) {
  const Gemm g = fp8(4, 5, 128, Scale::line_128, Scale::square_128);
  const auto plan = bare_plan(g, 1);
  std::vector<std::uint8_t> a(4 * 128), b(5 * 128), d(4 * 5 * 2);
  alignas(4) float scales[8] = {};
  Operands operands{.a = a.data(), .b = b.data(), .d = d.data()};
  operands.scale_a = scales;
  EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("scale_b = null"));
  operands.scale_b = reinterpret_cast<const std::byte*>(scales) + 2;
  EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("scale_b = "));
  operands.scale_b = scales;
  EXPECT_TRUE(run_plan(*plan, operands));
  operands.scale_a = d.data();
  EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("scale_a = "));
}

}  // namespace kiln::scales_test
