#include "kiln/gemm.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <tuple>

#include "generator/problem/extent.h"
#include "generator/problem/gemm_types.h"

namespace kiln::gemm_test {

using testing::HasSubstr;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

/// The message of a refused problem; fails the test when it is accepted.
std::string refusal(const Gemm& gemm, ErrorCode code = ErrorCode::bad_input) {
  const Status status = validate(gemm);
  EXPECT_FALSE(status) << text(gemm);
  if (status) return {};
  EXPECT_EQ(status.error().code, code) << status.error().message;
  return status.error().message;
}

TEST(Gemm, BuildersGiveTheUsualTypes) {
  struct Row {
    DType type, a, b, accumulator, d;
  };
  for (const Row& row : {Row{fp32, fp32, fp32, fp32, fp32}, Row{fp64, fp64, fp64, fp64, fp64},
                         Row{fp16, fp16, fp16, fp32, fp16}, Row{bf16, bf16, bf16, fp32, bf16},
                         Row{s8, s8, s8, s32, s32}, Row{u8, u8, s8, s32, s32}}) {
    const Gemm g = Gemm::row_major(2, 3, 4, row.type);
    EXPECT_EQ(g.a.dtype, row.a);
    EXPECT_EQ(g.b.dtype, row.b);
    EXPECT_EQ(g.accumulator, row.accumulator);
    EXPECT_EQ(g.d.dtype, row.d);
    EXPECT_EQ(g.c.dtype, row.d);
    EXPECT_TRUE(validate(g));
  }
}

TEST(Gemm, LeadingDimensionsFollowOrderAndTransposition) {
  const Gemm row = Gemm::row_major(2, 3, 5);
  EXPECT_EQ(row.lda(), 5);
  EXPECT_EQ(row.ldb(), 3);
  EXPECT_EQ(row.ldd(), 3);
  EXPECT_EQ(row.transpose_a().lda(), 2);
  EXPECT_EQ(row.transpose_b().ldb(), 5);
  const Gemm column = Gemm::column_major(2, 3, 5);
  EXPECT_EQ(column.lda(), 2);
  EXPECT_EQ(column.ldb(), 5);
  EXPECT_EQ(column.ldc(), 2);
  EXPECT_EQ(column.transpose_a().lda(), 5);
  EXPECT_EQ(column.transpose_b().ldb(), 3);
}

TEST(Gemm, TightStridesCoverOneMatrix) {
  Gemm g = Gemm::row_major(2, 3, 5).batched(4);
  EXPECT_EQ(g.stride_a(), 10);
  EXPECT_EQ(g.stride_b(), 15);
  EXPECT_EQ(g.stride_d(), 6);
  g.a.ld = 8;
  EXPECT_EQ(g.stride_a(), 16);
  g.a.batch_stride = 100;
  EXPECT_EQ(g.stride_a(), 100);
  EXPECT_EQ(span(g, Operand::a), 3 * 100 + 8 + 5);
}

TEST(Gemm, EmptyProblemsAreValidAndNeedNoMemory) {
  for (const Gemm& g : {Gemm::row_major(0, 3, 5), Gemm::row_major(2, 0, 5),
                        Gemm::column_major(2, 3, 0), Gemm::row_major(0, 0, 0).batched(3)}) {
    EXPECT_TRUE(validate(g)) << text(g);
    EXPECT_GE(g.lda(), 1);
    EXPECT_GE(g.stride_d(), 1);
  }
  EXPECT_EQ(span(Gemm::row_major(2, 3, 0), Operand::a), 0);
  EXPECT_EQ(span(Gemm::row_major(2, 3, 0), Operand::d), 6);
}

TEST(Gemm, SizesThatCannotBeAreNamed) {
  EXPECT_THAT(refusal(Gemm::row_major(-1, 3, 5)), HasSubstr("m = -1"));
  EXPECT_THAT(refusal(Gemm::row_major(1, -3, 5)), HasSubstr("n = -3"));
  EXPECT_THAT(refusal(Gemm::row_major(1, 3, -5)), HasSubstr("k = -5"));
  EXPECT_THAT(refusal(Gemm::row_major(1, 3, 5).batched(0)), HasSubstr("batch = 0"));
  EXPECT_THAT(refusal(Gemm::row_major(1LL << 31, 1LL << 31, 4)), HasSubstr("m*n*k*batch"));
  EXPECT_THAT(refusal(Gemm::row_major(8, 8, 8).batched(kHuge)), HasSubstr("m*n*k*batch"));
}

// Counted in bits or rounded up by adding, these would wrap.
TEST(Gemm, BytesOfTheLargestSizesAreRight) {
  const std::int64_t large = std::int64_t{1} << 60;
  const Gemm thin = Gemm::row_major(1, 1, large, s8);
  ASSERT_TRUE(validate(thin));
  EXPECT_EQ(span_bytes(thin, Operand::a), large);
  EXPECT_EQ(bytes_of(fp32, large), 4 * large);
  Gemm scaled = parse_gemm("fp8 N T 0 0 9223372036854775807 scale=1x128").value();
  EXPECT_EQ(extent(scaled, Operand::scale_a).length, std::int64_t{1} << 56);
}

TEST(Gemm, LeadingDimensionsThatCannotBeAreNamed) {
  const Gemm good = Gemm::row_major(4, 6, 8);
  for (const Operand which : kMatrices) {
    const std::string field = fmt::format("ld{}", name(which));
    Gemm g = good;
    Matrix& stored = *g.matrices()[index_of(which)];
    const std::int64_t tight = which == Operand::a ? 8 : 6;
    stored.ld = tight;
    EXPECT_TRUE(validate(g));
    stored.ld = tight - 1;
    EXPECT_THAT(refusal(g), HasSubstr(field + " = " + std::to_string(tight - 1)));
    stored.ld = -1;
    EXPECT_THAT(refusal(g), HasSubstr(field + " = -1"));
    stored.ld = kHuge;
    EXPECT_THAT(refusal(g), HasSubstr(field + " = 92233"));
  }
  Gemm g = Gemm::row_major(0, 6, 8);
  g.a.ld = kHuge / 2;
  EXPECT_THAT(refusal(g), HasSubstr("lda = "));
}

TEST(Gemm, BatchesOfInputsMayOverlapThoseOfTheOutputNot) {
  Gemm g = Gemm::row_major(4, 6, 8).batched(3);
  g.a.batch_stride = g.b.batch_stride = g.c.batch_stride = 1;
  EXPECT_TRUE(validate(g));
  g.d.batch_stride = 23;
  EXPECT_THAT(refusal(g), HasSubstr("stride_d = 23"));
  g.d.batch_stride = 24;
  EXPECT_TRUE(validate(g));
  g.d.batch_stride = -24;
  EXPECT_THAT(refusal(g), HasSubstr("stride_d = -24"));
  g.d.batch_stride = kHuge / 2;
  EXPECT_THAT(refusal(g), HasSubstr("stride_d = 4611"));
}

TEST(Gemm, BatchesOfTheOutputMayLieBesideEachOther) {
  Gemm g = Gemm::row_major(4, 6, 8).batched(3);
  g.d.ld = 18;
  g.d.batch_stride = 6;
  EXPECT_TRUE(validate(g));
  g.d.batch_stride = 5;
  EXPECT_THAT(refusal(g), HasSubstr("stride_d = 5"));
  g.d.batch_stride = 7;
  EXPECT_THAT(refusal(g), HasSubstr("stride_d = 7"));
}

/// Every overlap that validate() lets through would be two threads writing one element.
TEST(Gemm, AcceptedOutputBatchesNeverShareAnElement) {
  int accepted = 0;
  for (std::int64_t m = 1; m <= 3; ++m)
    for (std::int64_t n = 1; n <= 3; ++n)
      for (std::int64_t ld = n; ld <= 8; ++ld)
        for (std::int64_t stride = 1; stride <= 20; ++stride) {
          Gemm g = Gemm::row_major(m, n, 1).batched(3);
          g.d.ld = ld;
          g.d.batch_stride = stride;
          if (!validate(g)) continue;
          ++accepted;
          std::set<std::int64_t> seen;
          for (std::int64_t b = 0; b < 3; ++b)
            for (std::int64_t i = 0; i < m; ++i)
              for (std::int64_t j = 0; j < n; ++j)
                ASSERT_TRUE(seen.insert(b * stride + i * ld + j).second) << text(g);
          EXPECT_EQ(*seen.rbegin() + 1, span(g, Operand::d));
        }
  EXPECT_GT(accepted, 100);
}

TEST(Gemm, ExactlyTheSupportedTypesAreAccepted) {
  int accepted = 0;
  for (const auto& a : kDTypes)
    for (const auto& b : kDTypes)
      for (const auto& acc : kDTypes)
        for (const auto& d : kDTypes) {
          Gemm g = Gemm::row_major(2, 3, 4).output(d.type);
          g.a.dtype = a.type;
          g.b.dtype = b.type;
          g.accumulator = acc.type;
          const Status status = validate(g);
          if (!status) {
            EXPECT_EQ(status.error().code, ErrorCode::unsupported);
          }
          accepted += status.has_value();
        }
  // fp32 3, fp64 1, fp16 3, bf16 3, 6 for each of the three integer pairs, tf32 3, and 3 for each
  // of the six fp8 pairs.
  EXPECT_EQ(accepted, 3 + 1 + 3 + 3 + 3 * 6 + 3 + 6 * 3);
}

TEST(Gemm, UnsupportedTypesAreNamed) {
  const auto unsupported = [](const Gemm& g) { return refusal(g, ErrorCode::unsupported); };
  Gemm g = Gemm::row_major(2, 3, 4, u8);
  g.b.dtype = u8;
  EXPECT_THAT(unsupported(g), HasSubstr("a.dtype = u8, b.dtype = u8"));
  EXPECT_THAT(unsupported(Gemm::row_major(2, 3, 4, fp64).output(fp32)),
              HasSubstr("d.dtype = fp32"));
  g = Gemm::row_major(2, 3, 4, bf16);
  g.accumulator = bf16;
  EXPECT_THAT(unsupported(g), HasSubstr("accumulator = bf16"));
  g = Gemm::row_major(2, 3, 4, bf16);
  g.c.dtype = fp32;
  EXPECT_THAT(unsupported(g), HasSubstr("c.dtype = fp32"));
}

TEST(Gemm, OutputLayoutRulesAreNamed) {
  Gemm g = Gemm::row_major(2, 3, 4);
  g.c.order = Order::column_major;
  EXPECT_THAT(refusal(g), HasSubstr("c.order"));
  g = Gemm::row_major(2, 3, 4);
  g.d.transposed = true;
  EXPECT_THAT(refusal(g), HasSubstr("d.transposed"));
  EXPECT_THAT(refusal(Gemm::column_major(2, 3, 4).with_packed_b(), ErrorCode::unsupported),
              HasSubstr("b_packed"));
}

TEST(Gemm, AlignmentIsAPowerOfTwoUpToAPage) {
  Gemm g = Gemm::row_major(16, 30, 47);
  g.alignment = 64;
  EXPECT_TRUE(validate(g)) << "of addresses: pitches say what they are themselves";
  g.alignment = 3;
  EXPECT_THAT(refusal(g), HasSubstr("alignment = 3"));
  g.alignment = 8192;
  EXPECT_THAT(refusal(g), HasSubstr("alignment = 8192"));
}

TEST(Gemm, LinesAreAsAlignedAsAddressPitchAndStrideAre) {
  Gemm g = Gemm::row_major(16, 30, 47, DType::bf16);
  EXPECT_EQ(line_alignment(g, Operand::b), 1) << "nothing is promised";
  g.alignment = 16;
  EXPECT_EQ(line_alignment(g, Operand::a), 2);
  EXPECT_EQ(line_alignment(g, Operand::b), 4);
  EXPECT_EQ(alignment_of_d(g), 4);
  g.d.ld = 40;
  EXPECT_EQ(line_alignment(g, Operand::d), 16);
  EXPECT_EQ(line_alignment(g, Operand::residual), 16) << "stored as D is";
  EXPECT_EQ(alignment_of_d(g), 4) << "C's pitch is 30";
  g.c.ld = 40;
  EXPECT_EQ(alignment_of_d(g), 16);
  g = g.batched(2);
  g.d.batch_stride = 16 * 40 + 4;
  EXPECT_EQ(line_alignment(g, Operand::d), 8);
  EXPECT_EQ(line_alignment(g.with_packed_b(), Operand::b), 16)
      << "packed bytes have no pitch of B's";
}

TEST(Gemm, AlignmentAsksNothingOfEmptyOperands) {
  for (const auto& [m, n, k] : {std::tuple{0, 16, 16}, {16, 0, 16}, {16, 16, 0}, {0, 0, 0}})
    for (const std::int64_t batch : {1, 3})
      for (const auto make : {&Gemm::row_major, &Gemm::column_major}) {
        Gemm g = make(m, n, k, fp32).batched(batch);
        g.alignment = 64;
        EXPECT_TRUE(validate(g)) << text(g) << ": " << validate(g).error().message;
        g.a.transposed = g.b.transposed = true;
        EXPECT_TRUE(validate(g)) << text(g) << ": " << validate(g).error().message;
      }
}

TEST(Gemm, EnumeratorsFromOutsideAreChecked) {
  // As the C interface would: by bytes.
  const auto set = [](auto& field, std::uint8_t value) { std::memcpy(&field, &value, 1); };
  Gemm g = Gemm::row_major(2, 3, 4);
  set(g.b.dtype, 77);
  EXPECT_THAT(validate(g).error().message, HasSubstr("b.dtype = 77"));
  g = Gemm::row_major(2, 3, 4);
  set(g.a.order, 2);
  EXPECT_THAT(validate(g).error().message, HasSubstr("a.order = 2"));
  g = Gemm::row_major(2, 3, 4);
  set(g.epilogue.activation, 9);
  EXPECT_THAT(validate(g).error().message, HasSubstr("activation = 9"));
  g = Gemm::row_major(2, 3, 4);
  set(g.epilogue.bias, 3);
  EXPECT_THAT(validate(g).error().message, HasSubstr("bias = 3"));
  g = Gemm::row_major(2, 3, 4);
  set(g.accumulator, 99);
  EXPECT_THAT(validate(g).error().message, HasSubstr("accumulator = 99"));
}

TEST(GemmText, OneLine) {
  EXPECT_EQ(text(Gemm::row_major(512, 4096, 4096).transpose_b()), "fp32 N T 512 4096 4096");
  Gemm g = Gemm::row_major(8, 9, 10, u8)
               .transpose_a()
               .output(bf16)
               .batched(3)
               .with_bias(Bias::per_column)
               .with_activation(Activation::gelu_tanh)
               .with_residual();
  g.b.ld = 12;
  g.d.batch_stride = 100;
  g.b.order = Order::column_major;
  g.alignment = 2;
  EXPECT_EQ(text(g),
            "u8s8 T N 8 9 10 batch=3 ldb=12 stride_d=100 order=rcrr out=bf16 "
            "epilogue=bias_col+gelu+residual align=2");
  EXPECT_EQ(text(Gemm::column_major(1, 2, 3)), "fp32 N N 1 2 3 order=column");
}

TEST(GemmText, ReadsWhatPeopleWrite) {
  const auto g = parse_gemm("  bf16\tN T 16 32 64 out=fp32 epilogue=silu # a gate\r\n");
  ASSERT_TRUE(g) << g.error().message;
  EXPECT_EQ(*g, Gemm::row_major(16, 32, 64, bf16)
                    .transpose_b()
                    .output(fp32)
                    .with_activation(Activation::silu));
  EXPECT_EQ(*parse_gemm("int8 N N 1 2 3 packed_b=1"), Gemm::row_major(1, 2, 3, s8).with_packed_b());
  EXPECT_EQ(*parse_gemm("fp32 N N 1 2 3 order=column acc=fp32"), Gemm::column_major(1, 2, 3));
}

TEST(GemmText, RandomProblemsSurviveTheRoundTrip) {
  std::mt19937_64 random(7);
  const auto upto = [&random](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
  };
  int valid = 0;
  for (int i = 0; i < 20000; ++i) {
    const TypeRow& types = kTypeRows[upto(std::size(kTypeRows) - 1)];
    Gemm g = upto(1) ? Gemm::row_major(upto(50), upto(50), upto(50)) : Gemm::column_major(7, 8, 9);
    g.a.dtype = types.a;
    g.b.dtype = types.b;
    g.accumulator = types.accumulator;
    g = g.output(kDTypes[static_cast<std::size_t>(upto(11))].type).batched(1 + upto(2));
    if (upto(1)) g = g.transpose_a();
    if (upto(1)) g = g.transpose_b();
    for (Matrix* m : g.matrices()) {
      if (upto(3) == 0) m->ld = upto(80);
      if (upto(3) == 0) m->batch_stride = upto(9000);
    }
    if (upto(3) == 0) g.a.order = Order::column_major;
    g.epilogue = {.bias = static_cast<Bias>(upto(2)),
                  .activation = static_cast<Activation>(upto(4)),
                  .residual = upto(1) == 1};
    g.b_packed = upto(3) == 0;
    g.alignment = 1 << upto(2);
    if (!validate(g)) continue;
    ++valid;
    const auto back = parse_gemm(text(g));
    ASSERT_TRUE(back) << text(g) << ": " << back.error().message;
    ASSERT_EQ(*back, g) << text(g);
  }
  EXPECT_GT(valid, 1000);
}

TEST(GemmText, ErrorsNameFieldAndValue) {
  const auto message = [](std::string_view line) {
    const auto g = parse_gemm(line);
    EXPECT_FALSE(g) << line;
    return g ? std::string() : g.error().message;
  };
  EXPECT_THAT(message(""), HasSubstr("0 of its 6 fields"));
  EXPECT_THAT(message("fp32 N N 1 2 # 3"), HasSubstr("5 of its 6 fields"));
  EXPECT_THAT(message("fp31 N N 1 2 3"), HasSubstr("dtype = \"fp31\""));
  EXPECT_THAT(message("fp32 X N 1 2 3"), HasSubstr("ta = \"X\""));
  EXPECT_THAT(message("fp32 N c 1 2 3"), HasSubstr("tb = \"c\""));
  EXPECT_THAT(message("fp32 N N 1x 2 3"), HasSubstr("m = \"1x\""));
  EXPECT_THAT(message("fp32 N N 1 +2 3"), HasSubstr("n = \"+2\""));
  EXPECT_THAT(message("fp32 N N 1 2 99999999999999999999"), HasSubstr("k = \"9999"));
  EXPECT_THAT(message("fp32 N N 1 2 -3"), HasSubstr("k = -3"));
  EXPECT_THAT(message("fp32 N N 1 2 3 4"), HasSubstr("\"4\": must be key=value"));
  EXPECT_THAT(message("fp32 N N 1 2 3 ldx=4"), HasSubstr("\"ldx\""));
  EXPECT_THAT(message("fp32 N N 1 2 3 lda="), HasSubstr("lda = \"\""));
  EXPECT_THAT(message("fp32 N N 1 2 3 lda=2"), HasSubstr("lda = 2"));
  EXPECT_THAT(message("fp32 N N 1 2 3 lda=9 lda=9"), HasSubstr("lda: given twice"));
  EXPECT_THAT(message("fp32 N N 1 2 3 order=rc"), HasSubstr("order = \"rc\""));
  EXPECT_THAT(message("fp32 N N 1 2 3 out=fp8"), HasSubstr("out = \"fp8\""));
  EXPECT_THAT(message("fp32 N N 1 2 3 out=s8"), HasSubstr("d.dtype = s8"));
  EXPECT_THAT(message("fp32 N N 1 2 3 acc=fp64"), HasSubstr("accumulator = fp64"));
  EXPECT_THAT(message("fp32 N N 1 2 3 epilogue=tanh"), HasSubstr("\"tanh\""));
  EXPECT_THAT(message("fp32 N N 1 2 3 epilogue="), HasSubstr("epilogue = \"\""));
  EXPECT_THAT(message("fp32 N N 1 2 3 epilogue=relu+silu"), HasSubstr("more than one activation"));
  EXPECT_THAT(message("fp32 N N 1 2 3 epilogue=bias_row+bias_col"),
              HasSubstr("more than one bias"));
  EXPECT_THAT(message("fp32 N N 1 2 3 align=0"), HasSubstr("align = 0"));
  EXPECT_THAT(message("fp32 N N 1 2 3 align=3"), HasSubstr("alignment = 3"));
  EXPECT_THAT(message("fp32 N N 1 2 3 packed_b=yes"), HasSubstr("packed_b = \"yes\""));
  EXPECT_THAT(message("fp32 N N 1 2 3 batch=0"), HasSubstr("batch = 0"));
}

}  // namespace kiln::gemm_test
