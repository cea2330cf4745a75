// Products of floats with weights in groups: their rules, their text, where scales and zero
// points lie, and the two references against sums written out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

#include "engine/plan.h"
#include "generator/problem/extent.h"
#include "generator/problem/gemm_types.h"
#include "generator/problem/problem.h"
#include "generator/space/space.h"
#include "kiln/numeric.hpp"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/reference_kernel.h"
#include "support/opened_engine.h"
#include "tuner/verify/data.h"
#include "tuner/verify/reference.h"
#include "tuner/verify/verify.h"
#include "tuner/verify/view.h"

namespace kiln::weights_test {

using testing::HasSubstr;

constexpr Scale kGroups[] = {Scale::line,     Scale::line_32,    Scale::line_64,
                             Scale::line_128, Scale::square_128, Scale::mx_32};
constexpr Zero kZeros[] = {Zero::none, Zero::integer, Zero::floating};

// A tight operand without elements has whole bytes between its lines, of which there is none.
TEST(Nibbles, OfEmptyProductsNeedNoLeadingDimension) {
  std::vector<Gemm> all;
  for (const std::int64_t batch : {1, 3})
    for (const auto& [m, n, k] :
         {std::array<std::int64_t, 3>{7, 0, 128}, {7, 4, 0}, {0, 4, 128}, {7, 1, 0}, {0, 0, 0}})
      for (int layout = 0; layout < 16; ++layout) {
        const auto put = [&](Gemm g) {
          g.a.transposed = layout % 2 != 0, g.b.transposed = layout / 2 % 2 != 0;
          g.a.order = layout / 4 % 2 != 0 ? Order::column_major : Order::row_major;
          g.b.order = layout / 8 % 2 != 0 ? Order::column_major : Order::row_major;
          all.push_back(g.batched(batch));
        };
        for (const DType codes : {s4, u4, DType::fp4_e2m1})
          put(Gemm::row_major(m, n, k, bf16).with_weights(codes, Scale::line_32));
        for (const DType type : {DType::fp4_e2m1, DType::fp6_e2m3, DType::fp6_e3m2})
          put(Gemm::row_major(m, n, k, type).scaled(Scale::mx_32));
      }
  int legal = 0;
  for (const Gemm& g : all) {
    const Status status = validate(g);
    // An operand that has elements keeps its rule: seven rows of A, or one column of B, side by
    // side.
    const bool odd_lines = (span(g, Operand::a) > 0 && extent(g, Operand::a).length == 7) ||
                           (span(g, Operand::b) > 0 && extent(g, Operand::b).length == 1);
    if (odd_lines && !status) continue;
    ASSERT_TRUE(status) << text(g) << ": " << status.error().message;
    ++legal;
    for (const Operand which : {Operand::a, Operand::b}) {
      const int whole = elements_of_whole_bytes(matrix(g, which).dtype);
      // Lines of seven rows that have no elements, since k is 0, are never read.
      if (span(g, which) > 0 || extent(g, which).length > 0) continue;
      EXPECT_GE(leading_dimension(g, which), 1);
      EXPECT_EQ(leading_dimension(g, which) % whole, 0) << text(g);
      EXPECT_EQ(batch_stride(g, which) % whole, 0) << text(g);
    }
  }
  EXPECT_GT(legal, 600);
  Gemm odd = Gemm::row_major(7, 3, 128, bf16).with_weights(s4, Scale::line_32);
  EXPECT_THAT(
      validate(odd).error().message,
      HasSubstr("ldb = 0 (tight): 3 elements are not whole bytes of s4: give a multiple of 2"));
  odd.b.ld = 5;
  EXPECT_THAT(validate(odd).error().message, HasSubstr("ldb = 5: must be a multiple of 2"));
}

// D of a product without k is what the epilogue adds to 0.
TEST(Nibbles, AProductWithoutKWritesItsD) {
  const Gemm g = Gemm::row_major(7, 4, 0, bf16)
                     .transpose_b()
                     .with_weights(s4, Scale::line_128)
                     .with_bias(Bias::per_column);
  const std::vector<float> bias{1, 2, 3, 4};
  std::vector<std::uint16_t> d(28, 7);
  Operands operands{.d = d.data(), .bias = bias.data()};
  test::Opened engine;
  const Status ran = engine->gemm(g, operands);
  ASSERT_TRUE(ran) << ran.error().message;
  for (std::size_t i = 0; i < d.size(); ++i) EXPECT_EQ(d[i], float_to_bf16(bias[i % 4])) << i;
  EXPECT_TRUE(engine->gemm(Gemm::row_major(7, 0, 128, bf16).with_weights(s4, Scale::line_32), {}));
}

TEST(Nibbles, AreIntegersOfTheirType) {
  const std::uint8_t bytes[] = {0x8f, 0x70};
  const int as_signed[] = {-1, -8, 0, 7}, as_unsigned[] = {15, 8, 0, 7};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(load_element(s4, bytes, i), as_signed[i]);
    EXPECT_EQ(load_element(u4, bytes, i), as_unsigned[i]);
  }
  std::uint8_t out[] = {0xff, 0xff};
  store_element(s4, out, 1, -9.0);
  store_element(u4, out, 2, 2.5);
  EXPECT_EQ(out[0], 0x8f);
  EXPECT_EQ(out[1], 0xf2);
  store_element(u4, out, 0, std::numeric_limits<double>::quiet_NaN());
  store_element(s4, out, 3, 100);
  EXPECT_EQ(out[0], 0x80);
  EXPECT_EQ(out[1], 0x72);
}

TEST(Nibbles, RowsAreWrittenAndReadAsElementsAre) {
  const std::vector<double> values{-10, -8.5, -0.5, 0.5, 1.5, 7, 7.5, 15, 1e9, NAN, -1};
  for (const DType type : {s4, u4})
    for (std::int64_t first = 0; first < 4; ++first)
      for (std::int64_t count = 0; count <= std::ssize(values); ++count) {
        std::vector<std::uint8_t> rows(9, 0xa5), elements = rows;
        const MatrixView along{rows.data(), type, 1, 16, 16, 1};
        store_row(along, 0, first, count, values.data());
        for (std::int64_t i = 0; i < count; ++i)
          store_element(type, elements.data(), first + i, values[static_cast<std::size_t>(i)]);
        EXPECT_EQ(rows, elements) << name(type) << " " << first << " " << count;
        std::vector<double> read(16), across(16);
        load_block(along, 0, 1, first, count, read.data());
        load_block(along.transposed(), first, count, 0, 1, across.data());
        for (std::int64_t i = 0; i < count; ++i) {
          const double expected = load_element(type, elements.data(), first + i);
          EXPECT_EQ(read[static_cast<std::size_t>(i)], expected);
          EXPECT_EQ(across[static_cast<std::size_t>(i)], expected);
        }
      }
}

TEST(Weights, TextNamesThem) {
  for (const char* line :
       {"bf16_int4 N T 1 4096 4096 group=128", "bf16_uint4 N T 1 8 64 group=64 zero=int",
        "fp16_int4 N N 3 8 96 group=32 scale_type=fp16 zero=float", "bf16_int8 N T 2 3 5 group=k",
        "fp16_uint4 N T 2 3 64 out=fp32 group=k scale_type=bf16", "fp16_int8 T N 2 3 32 group=32",
        "bf16_fp8 N T 1 4096 4096 group=128x128", "fp16_fp8 N N 3 8 96 group=32 scale_type=bf16",
        "bf16_fp8 N T 2 3 5 group=k", "bf16_uint4 N T 2 130 128 group=128x128 zero=int",
        "bf16_fp4 N T 1 4096 4096 group=mx32", "fp16_fp4 N N 3 8 96 group=32 scale_type=bf16",
        "bf16_fp8 N T 2 3 64 group=mx32", "fp16_fp4 N T 2 3 6 group=k"}) {
    const auto g = parse_gemm(line);
    ASSERT_TRUE(g) << line << ": " << g.error().message;
    EXPECT_EQ(text(*g), line);
  }
  const Gemm built = Gemm::row_major(1, 8, 64, bf16)
                         .with_weights(u4, Scale::line_64, bf16, Zero::integer)
                         .transpose_b();
  EXPECT_EQ(text(built), "bf16_uint4 N T 1 8 64 group=64 scale_type=bf16 zero=int");
  const Gemm floats =
      Gemm::row_major(1, 8, 128, fp16).transpose_b().with_weights(fp8_e4m3, Scale::square_128);
  EXPECT_EQ(text(floats), "fp16_fp8 N T 1 8 128 group=128x128");
  EXPECT_EQ(parse_gemm("bf16_int4 N T 1 8 128 scale=none:1x128").value(),
            parse_gemm("bf16_int4 N T 1 8 128 group=128").value());
  EXPECT_EQ(parse_gemm("bf16_fp4 N T 1 8 128 scale=none:mx32").value(),
            Gemm::row_major(1, 8, 128, bf16).transpose_b().with_weights(fp4_e2m1, Scale::mx_32));
}

TEST(Weights, RefusalsNameTheField) {
  const auto message = [](const std::string& line) {
    const auto g = parse_gemm(line);
    return g ? "accepted " + line : g.error().message;
  };
  EXPECT_THAT(message("bf16_int4 N T 1 2 64"), HasSubstr("scale_b = none: bf16_int4 needs scales"));
  EXPECT_THAT(message("bf16_int4 N T 1 2 64 group=16"), HasSubstr("group = \"16\""));
  EXPECT_THAT(message("bf16_int4 N T 1 2 96 group=64"), HasSubstr("k = 96: groups of 64"));
  EXPECT_THAT(message("bf16_int4 N T 1 2 64 group=64 zero=yes"), HasSubstr("zero = \"yes\""));
  EXPECT_THAT(message("bf16_int4 N T 1 2 64 group=64 scale_type=s8"),
              HasSubstr("scale_type = s8: must be fp32, bf16 or fp16"));
  EXPECT_THAT(message("bf16_int4 N T 1 2 64 group=64 scale=line"), HasSubstr("scale = line"));
  EXPECT_THAT(message("bf16_int4 N T 1 2 64 scale=tensor:line"), HasSubstr("scale_a = tensor"));
  EXPECT_THAT(message("bf16_int4 N T 1 2 64 scale=none:mx32"), HasSubstr("scale_b = mx32"));
  EXPECT_THAT(message("bf16_int4 N T 1 2 63 group=k"), HasSubstr("ldb = 0 (tight): 63 elements"));
  EXPECT_THAT(message("bf16_int4 N N 1 3 64 group=k"), HasSubstr("ldb = 0 (tight): 3 elements"));
  EXPECT_THAT(message("bf16_int4 N T 1 2 64 group=k order=column"), HasSubstr("d.order = column"));
  EXPECT_THAT(message("bf16_int4 N T 1 2 64 group=k packed_b=1"), HasSubstr("b_packed = true"));
  EXPECT_THAT(message("bf16 N T 1 2 64 zero=int"),
              HasSubstr("zero = int: needs a quantised B, b.dtype = bf16"));
  EXPECT_THAT(message("fp8 N T 1 2 64 scale_type=bf16"),
              HasSubstr("scale_type = bf16: needs a quantised B, b.dtype"));
  EXPECT_THAT(message("fp8 N T 1 2 64 group=64"), HasSubstr("scale_b = 1x64"));
  for (const char* zero : {"int", "float"})
    EXPECT_THAT(message(std::string("bf16_fp8 N T 1 2 64 group=64 zero=") + zero),
                HasSubstr(std::string("zero = ") + zero + ": b.dtype = fp8_e4m3 has no zero"));
  EXPECT_THAT(message("fp16_fp4 N T 1 2 64 group=64 zero=int"),
              HasSubstr("zero = int: b.dtype = fp4_e2m1 has no zero"));
  EXPECT_THAT(message("bf16_fp4 N T 1 2 64 group=mx32 scale_type=bf16"),
              HasSubstr("scale_type = bf16: scales of mx32 are e8m0"));
  EXPECT_THAT(message("bf16_fp4 N T 1 2 48 group=mx32"), HasSubstr("k = 48: groups of 32"));
  EXPECT_THAT(message("bf16_int8 N T 1 2 64 group=mx32"),
              HasSubstr("scale_b = mx32: b.dtype = s8 is not an MX format"));
  EXPECT_THAT(message("bf16_fp4 N T 1 2 63 group=k"), HasSubstr("ldb = 0 (tight): 63 elements"));
  EXPECT_THAT(message("bf16_fp8 N T 1 2 64"), HasSubstr("scale_b = none: bf16_fp8 needs scales"));
  EXPECT_THAT(message("bf16_fp8 N T 1 2 192 group=128x128"), HasSubstr("k = 192: groups of 128"));
  EXPECT_THAT(message("bf16_fp8 N T 1 2 64 group=64 numerics=tensor"), HasSubstr("a.dtype = bf16"));
  EXPECT_THAT(message("bf16_fp8 N T 1 2 64 group=64 scale=tensor"), HasSubstr("scale = tensor"));
  Gemm g = parse_gemm("bf16_int4 N T 1 2 64 group=64").value();
  g.b.q.zero = static_cast<Zero>(7);
  EXPECT_THAT(validate(g).error().message, HasSubstr("zero = 7"));
}

TEST(Weights, ScalesAndZeroPointsLieByColumn) {
  const Gemm g =
      parse_gemm("bf16_int4 N T 2 5 96 batch=3 group=32 scale_type=fp16 zero=int").value();
  EXPECT_EQ(span_bytes(g, Operand::b), 3 * 5 * 48);
  EXPECT_EQ(span_bytes(g, Operand::scale_b), 3 * 5 * 3 * 2);
  EXPECT_EQ(span(g, Operand::zero_b), 3 * 5 * 3);
  EXPECT_EQ(span_bytes(g, Operand::zero_b), 23);
  EXPECT_EQ(dtype_of(g, Operand::zero_b), s4);
  Gemm floating = g;
  floating.b.q.zero = Zero::floating;
  EXPECT_EQ(dtype_of(floating, Operand::zero_b), fp16);
  EXPECT_EQ(address_alignment(floating, Operand::scale_b), 2);
  const Gemm squares = parse_gemm("bf16_fp8 N T 2 130 384 batch=3 group=128x128").value();
  EXPECT_EQ(span_bytes(squares, Operand::b), 3 * 130 * 384);
  EXPECT_EQ(span(squares, Operand::scale_b), 3 * 2 * 3);
  const Gemm mx = parse_gemm("bf16_fp4 N T 2 5 96 batch=3 group=mx32").value();
  EXPECT_EQ(span_bytes(mx, Operand::b), 3 * 5 * 48);
  EXPECT_EQ(span_bytes(mx, Operand::scale_b), 3 * 5 * 3);
  EXPECT_EQ(address_alignment(mx, Operand::scale_b), 1);
}

/// Every pair, group and kind of zero points, in turns of scales' types and layouts.
std::vector<Gemm> problems() {
  std::vector<Gemm> out;
  const DType scale_types[] = {fp32, bf16, fp16};
  std::size_t turn = 0;
  for (const TypeRow& row : kWeightTypeRows)
    for (const Scale group : kGroups)
      for (const Zero zero : kZeros) {
        if (zero != Zero::none && !code_format(row.b)->has_zero_points()) continue;
        const bool mx = group == Scale::mx_32;
        if (mx && !is_mx_element(row.b)) continue;
        const DType scale_type = scale_types[turn++ % 3];
        Gemm g = Gemm::row_major(7, group == Scale::square_128 ? 140 : 18, 256, row.a)
                     .with_weights(row.b, group, mx ? fp32 : scale_type, zero);
        if (turn % 2 == 0) g = g.transpose_b();
        if (turn % 3 == 0) g = g.transpose_a();
        if (turn % 5 == 0) g.b.order = Order::column_major;
        if (turn % 7 == 0) g = g.batched(3);
        if (turn % 4 == 0) g = g.output(fp32);
        EXPECT_TRUE(validate(g)) << text(g) << ": " << validate(g).error().message;
        out.push_back(g);
      }
  return out;
}

TEST(Weights, ReferenceSumsAreTheSumsWrittenOut) {
  for (const Gemm& g : problems()) {
    std::array<std::vector<std::byte>, kOperandCount> memory;
    Operands operands;
    for (const Operand which : kOperands) {
      auto& bytes = memory[index_of(which)];
      bytes.resize(static_cast<std::size_t>(span_bytes(g, which)) + 1);
      if (which != Operand::d) fill(g, which, Data::uniform, 3, bytes.data());
    }
    const auto at = [&](Operand which, std::int64_t index) {
      return load_element(dtype_of(g, which), memory[index_of(which)].data(), index);
    };
    const auto scale_at = [&](std::int64_t index) {
      const double stored = at(Operand::scale_b, index);
      return g.b.q.scale == Scale::mx_32 ? std::exp2(stored - 127) : stored;
    };
    const auto data = [&](Operand which) { return memory[index_of(which)].data(); };
    operands.a = data(Operand::a), operands.b = data(Operand::b), operands.d = data(Operand::d);
    operands.scale_b = data(Operand::scale_b), operands.zero_b = data(Operand::zero_b);
    ASSERT_TRUE(reference_gemm(g, operands)) << text(g);
    const int along = g.b.q.scale == Scale::line ? int(g.k) : scale_block(g.b.q.scale).along;
    const int columns = scale_block(g.b.q.scale).lines;
    const std::int64_t lines = (g.n + columns - 1) / columns;
    const bool b_lines_are_columns = g.b.transposed != (g.b.order == Order::column_major);
    for (std::int64_t z = 0; z < g.batch; ++z)
      for (std::int64_t i = 0; i < g.m; i += 3)
        for (std::int64_t j = 0; j < g.n; ++j) {
          double sum = 0, size = 0;
          for (std::int64_t p = 0; p < g.k; ++p) {
            const std::int64_t a = g.a.transposed ? p * g.m + i : i * g.k + p;
            const std::int64_t b = b_lines_are_columns ? j * g.k + p : p * g.n + j;
            const std::int64_t group = (z * lines + j / columns) * (g.k / along) + p / along;
            const double zero = g.b.q.zero == Zero::none ? 0 : at(Operand::zero_b, group);
            const double term = at(Operand::a, z * g.m * g.k + a) *
                                ((at(Operand::b, z * g.n * g.k + b) - zero) * scale_at(group));
            sum += term, size += std::fabs(term);
          }
          const double got = at(Operand::d, (z * g.m + i) * g.n + j);
          const double unit = g.d.dtype == fp32 ? 0x1p-23 : g.d.dtype == fp16 ? 0x1p-10 : 0x1p-7;
          if (std::fabs(sum) < 60000) {
            ASSERT_NEAR(got, sum, unit * std::fabs(sum) + size * 1e-9) << text(g);
          }
        }
  }
}

TEST(Weights, TheReferenceKernelComputesThemAll) {
  for (const Gemm& g : problems()) {
    const Problem problem = Problem::of(g).value();
    const Verdict verdict = verify(g, [&](const Operands& operands) -> Status {
      const KilnArgs args = make_args(problem, operands);
      for (int t = 0; t < 2; ++t) run_reference(problem, args, nullptr, t, 2);
      return {};
    });
    EXPECT_TRUE(verdict) << text(g) << ": " << verdict.error().detail;
  }
}

/// Each operand that only weights have is wrong in one place.
TEST(Weights, TheVerifierMissesNoWrongScaleOrZeroPoint) {
  for (const Scale group : kGroups)
    for (const Zero zero : kZeros)
      for (const Operand which : {Operand::scale_b, Operand::zero_b}) {
        const bool mx = group == Scale::mx_32;
        const Gemm g = Gemm::row_major(5, 6, 256, bf16)
                           .transpose_b()
                           .with_weights(mx ? fp4_e2m1 : u4, group, mx ? fp32 : bf16, zero);
        if (!present(g, which) || !validate(g)) continue;
        const Problem problem = Problem::of(g).value();
        const Verdict verdict = verify(g, [&](const Operands& operands) -> Status {
          KilnArgs args = make_args(problem, operands);
          const auto* from = static_cast<const std::byte*>(pointer(operands, which));
          std::vector<std::byte> wrong(from, from + span_bytes(g, which));
          wrong.back() ^=
              which == Operand::zero_b && zero == Zero::integer ? std::byte{0x10} : std::byte{0x80};
          (which == Operand::scale_b ? args.scale_b : args.zero_b) = wrong.data();
          run_reference(problem, args, nullptr, 0, 1);
          return {};
        });
        EXPECT_FALSE(verdict) << text(g) << " " << name(which);
      }
}

/// Sums of large numbers would hide how small ones are decoded.
TEST(Weights, DataOfFloatsHaveEveryFiniteCode) {
  const Gemm g = parse_gemm("bf16_fp8 N T 1 64 512 group=128").value();
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(span_bytes(g, Operand::b)));
  fill(g, Operand::b, Data::uniform, 1, codes.data());
  std::set<int> large, small;
  for (std::size_t i = 0; i < codes.size(); ++i)
    (i / 512 % kLinesOfLowest == kLinesOfLowest - 1 ? small : large).insert(codes[i]);
  EXPECT_EQ(large.size(), 254u);
  EXPECT_EQ(large.count(0x7f) + large.count(0xff), 0u);
  EXPECT_EQ(small.size(), 16u);
  EXPECT_EQ(*small.rbegin(), 0x87);
}

TEST(Weights, DataOfFourBitsHaveEveryCode) {
  const Gemm g = parse_gemm("bf16_fp4 N T 1 64 512 group=mx32").value();
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(span_bytes(g, Operand::b)));
  fill(g, Operand::b, Data::uniform, 1, codes.data());
  std::set<int> large, small;
  for (std::size_t i = 0; i < 2 * codes.size(); ++i)
    (i / 512 % kLinesOfLowest == kLinesOfLowest - 1 ? small : large)
        .insert(codes[i / 2] >> i % 2 * 4 & 15);
  EXPECT_EQ(large.size(), 16u);
  EXPECT_EQ(small, (std::set<int>{0, 1, 8, 9}));
}

TEST(Weights, NeighboursOfProblemsAreProblems) {
  for (const Gemm& g : problems())
    for (const Gemm& near : ragged_neighbours(g))
      EXPECT_TRUE(validate(near)) << text(near) << ": " << validate(near).error().message;
  const Gemm groups =
      parse_gemm("bf16_uint4 N T 90 70 512 groups=5 grouped=rows group=128 zero=int").value();
  for (const Gemm& near : ragged_neighbours(groups))
    EXPECT_TRUE(validate(near)) << text(near) << ": " << validate(near).error().message;
}

TEST(Weights, GpusWithoutAFamilyRefuseThemByName) {
  for (const char* device : {"sm_75", "gfx942"}) {
    const auto space = space_for(
        Problem::of(parse_gemm("bf16_int4 N T 64 128 256 group=128 align=16").value()).value(),
        caps_named(device).value(), Determinism::run_to_run);
    ASSERT_FALSE(space) << device;
    EXPECT_EQ(space.error().code, ErrorCode::unsupported);
  }
}

TEST(Weights, CallsNeedScalesAndZeroPoints) {
  const Gemm g = parse_gemm("bf16_uint4 N T 2 3 64 group=32 zero=int").value();
  const auto plan = bare_plan(g, 1);
  std::vector<std::uint8_t> a(2 * 64 * 2), b(3 * 32), d(2 * 3 * 2), zeros(3);
  std::vector<float> scales(6);
  Operands operands{.a = a.data(), .b = b.data(), .d = d.data()};
  EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("scale_b = null"));
  operands.scale_b = scales.data();
  EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("zero_b = null"));
  operands.zero_b = d.data();
  EXPECT_THAT(run_plan(*plan, operands).error().message, HasSubstr("zero_b = "));
  operands.zero_b = zeros.data();
  EXPECT_TRUE(run_plan(*plan, operands));
}

TEST(Weights, TheEngineRunsThemAll) {
  test::Opened engine;
  for (const Gemm& g : problems()) {
    const Verdict verdict = test::check(*engine.engine, g);
    EXPECT_TRUE(verdict) << text(g) << ": " << test::why(verdict);
  }
}

}  // namespace kiln::weights_test
