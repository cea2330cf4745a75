// Right kernels must pass, and each planted fault must be found and named.
#include "tuner/verify/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/naive_gemm.h"

namespace kiln::verify_test {

using test::Faults;
using test::naive_gemm;
using testing::AllOf;
using testing::HasSubstr;
using Kind = Failure::Kind;

/// Odd sizes, loose leading dimensions, two batches.
Gemm loose(DType type) {
  Gemm g = Gemm::row_major(19, 23, 37, type).batched(2);
  g.a.ld = 41;
  g.b.ld = 27;
  g.c.ld = g.d.ld = 29;
  g.d.batch_stride = g.c.batch_stride = 19 * 29 + 3;
  return g;
}

RunKernel naive(const Gemm& g, Faults faults = {}) {
  return [g, faults](const Operands& operands) -> Status {
    naive_gemm(g, operands, faults);
    return {};
  };
}

/// The right kernel, and then something else.
RunKernel followed_by(const Gemm& g, std::function<void(const Operands&)> deed) {
  return [g, deed](const Operands& operands) -> Status {
    naive_gemm(g, operands);
    deed(operands);
    return {};
  };
}

void expect_right(const Gemm& g, const RunKernel& run, VerifyOptions options = {}) {
  const Verdict verdict = verify(g, run, options);
  EXPECT_TRUE(verdict) << text(g) << ": " << verdict.error().detail;
}

Failure failure_of(const Gemm& g, const RunKernel& run, VerifyOptions options = {}) {
  const Verdict verdict = verify(g, run, options);
  EXPECT_FALSE(verdict) << "a planted fault was not found: " << text(g);
  return verdict ? Failure{} : verdict.error();
}

void expect_wrong(const Gemm& g, const Faults& faults) {
  const Failure failure = failure_of(g, naive(g, faults));
  EXPECT_EQ(failure.kind, Kind::wrong_result) << failure.detail;
}

TEST(Verify, AcceptsARightKernelOfEveryType) {
  const std::pair<DType, std::vector<DType>> types[] = {{fp32, {fp32, bf16, fp16}},
                                                        {fp64, {fp64}},
                                                        {fp16, {fp16, bf16, fp32}},
                                                        {bf16, {bf16, fp16, fp32}},
                                                        {s8, {s32, fp32, s8, u8, bf16, fp16}},
                                                        {u8, {s32, fp32, s8, u8, bf16, fp16}}};
  for (const auto& [input, outputs] : types)
    for (DType output : outputs) {
      const Gemm g = loose(input).output(output);
      expect_right(g, naive(g));
      const Gemm busy =
          g.with_bias(Bias::per_column).with_activation(Activation::relu).with_residual();
      expect_right(busy, naive(busy));
    }
}

TEST(Verify, AcceptsARightKernelOfEveryLayoutAndEpilogue) {
  for (Order order : {Order::row_major, Order::column_major})
    for (bool ta : {false, true})
      for (bool tb : {false, true})
        for (Activation f : {Activation::none, Activation::relu, Activation::gelu_tanh,
                             Activation::gelu_erf, Activation::silu}) {
          Gemm g = order == Order::row_major ? Gemm::row_major(13, 17, 21, bf16)
                                             : Gemm::column_major(13, 17, 21, bf16);
          g.a.transposed = ta;
          g.b.transposed = tb;
          g.epilogue = {ta ? Bias::per_row : Bias::per_column, f, tb};
          expect_right(g, naive(g));
        }
}

TEST(Verify, AcceptsEmptyAndTinyProblems) {
  for (auto [m, n, k] : {std::array{0, 5, 3}, {5, 0, 3}, {5, 4, 0}, {0, 0, 0}, {1, 1, 1}}) {
    const Gemm g = Gemm::row_major(m, n, k);
    expect_right(g, naive(g));
  }
}

TEST(Verify, AcceptsRoundingErrors) {
  const Gemm g = Gemm::row_major(16, 16, 300);
  // Summation in another order, as a vector kernel would: four interleaved partial sums.
  expect_right(g, [&](const Operands& in) -> Status {
    naive_gemm(g, in);
    const auto *a = static_cast<const float*>(in.a), *b = static_cast<const float*>(in.b);
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 16; ++j) {
        float part[4] = {};
        for (int p = 0; p < 300; ++p) part[p % 4] += a[i * 300 + p] * b[p * 16 + j];
        float v = float(in.alpha) * ((part[0] + part[1]) + (part[2] + part[3]));
        if (in.beta == 0.0) static_cast<float*>(in.d)[i * 16 + j] = v;
      }
    return {};
  });
}

TEST(Verify, AcceptsALastBitOnUniformDataButNotOnExactData) {
  const Gemm g = Gemm::row_major(9, 9, 64);
  const auto nudged = [&](bool exact_too) {
    return Faults{.at_store = [=](auto, auto, auto, double v) -> double {
      const bool exact = v == std::nearbyint(v) || std::abs(v) < std::numeric_limits<float>::min();
      if (!std::isfinite(v) || (exact && !exact_too)) return v;
      return std::nextafter(static_cast<float>(v), std::numeric_limits<float>::infinity());
    }};
  };
  expect_right(g, naive(g, nudged(false)));
  EXPECT_THAT(failure_of(g, naive(g, nudged(true))).detail, HasSubstr("exact data"));
}

TEST(Verify, NamesTheOneWrongElement) {
  const Gemm g = loose(fp32);
  const Faults faults{.at_store = [](auto batch, auto i, auto j, double v) -> double {
    return batch == 1 && i == 18 && j == 22 ? v + 0.5 : v;
  }};
  const Failure failure = failure_of(g, naive(g, faults), {.seed = 77});
  EXPECT_EQ(failure.kind, Kind::wrong_result);
  EXPECT_THAT(failure.detail, AllOf(HasSubstr("batch 1 row 18 column 22"), HasSubstr("seed 77"),
                                    HasSubstr("alpha 1, beta 0"), HasSubstr("expected")));
}

TEST(Verify, FindsAnUnwrittenElement) {
  for (DType type : {fp32, fp64, bf16, fp16, s8}) {
    const Gemm g = loose(type);
    // Puts back what was there before the kernel ran.
    const Failure failure = failure_of(g, [&](const Operands& in) -> Status {
      const std::int64_t at = (2 * 29 + 5) * size_of(g.d.dtype);
      auto* element = static_cast<std::byte*>(in.d) + at;
      std::vector<std::byte> before(element, element + size_of(g.d.dtype));
      naive_gemm(g, in);
      std::ranges::copy(before, element);
      return {};
    });
    EXPECT_EQ(failure.kind, Kind::wrong_result);
    EXPECT_THAT(failure.detail, HasSubstr("row 2 column 5")) << name(type);
    EXPECT_THAT(failure.detail, HasSubstr("never written")) << name(type);
  }
}

TEST(Verify, FindsAReadOfCWhenBetaIsZero) {
  for (DType type : {fp32, fp64, bf16, fp16}) expect_wrong(loose(type), {.always_reads_c = true});
}

TEST(Verify, FindsEdgesAndScalars) {
  for (DType type : {fp32, fp64, bf16, fp16, s8, u8}) {
    const Gemm g = loose(type);
    expect_wrong(g, {.skip_last_k = 1});
    expect_wrong(g, {.alpha_factor = 1.01});
    Gemm narrower = g;
    narrower.n = g.n - 1;  // the last column is left out
    narrower.d.batch_stride = g.stride_d(), narrower.c.batch_stride = g.stride_c();
    narrower.b.batch_stride = g.stride_b();
    EXPECT_EQ(failure_of(g, naive(narrower)).kind, Kind::wrong_result);
  }
}

TEST(Verify, FindsIgnoredBeta) {
  const Gemm g = loose(fp32);
  const Failure failure = failure_of(g, [&](Operands in) -> Status {
    in.beta = 0.0;
    naive_gemm(g, in);
    return {};
  });
  EXPECT_EQ(failure.kind, Kind::wrong_result);
  EXPECT_THAT(failure.detail, HasSubstr("beta -0.6"));
}

TEST(Verify, FindsAWrongOrderOfTheEpilogue) {
  const Gemm biased = loose(fp32).with_bias(Bias::per_row).with_activation(Activation::relu);
  expect_wrong(biased, {.activation_before_bias = true});
  const Gemm smooth = biased.with_activation(Activation::silu);
  expect_wrong(smooth, {.activation_before_bias = true});
  const Gemm added = loose(bf16).with_activation(Activation::gelu_tanh).with_residual();
  expect_wrong(added, {.residual_before_activation = true});
}

TEST(Verify, FindsTheWrongKindOfGelu) {
  const Gemm g = loose(fp32).with_activation(Activation::gelu_erf);
  const Gemm other = g.with_activation(Activation::gelu_tanh);
  EXPECT_EQ(failure_of(g, naive(other)).kind, Kind::wrong_result);
}

TEST(Verify, FindsWrongSaturationAndRounding) {
  expect_wrong(loose(s8).output(s8), {.wraps_instead_of_saturating = true});
  expect_wrong(loose(bf16), {.truncates_output = true});
  // Sums kept in 16 bits, as vpmaddubsw does, overflow on full-range bytes.
  const Gemm g = loose(u8);
  const Faults narrow{.at_store = [](auto, auto, auto, double v) -> double {
    return std::clamp(v, -32768.0, 32767.0);
  }};
  expect_wrong(g, narrow);
}

TEST(Verify, FindsWritesIntoPaddingBetweenRows) {
  for (DType type : {fp32, bf16, s8}) {
    const Gemm g = loose(type);
    const Failure failure = failure_of(g, followed_by(g, [&](const Operands& in) {
                                         store_element(g.d.dtype, in.d, 3 * 29 + 23, 0.0);
                                       }));
    EXPECT_EQ(failure.kind, Kind::out_of_bounds);
    EXPECT_THAT(failure.detail, HasSubstr("before line 4 of batch 0, 0 past the end"));
  }
}

TEST(Verify, FindsWritesBetweenBatches) {
  const Gemm g = loose(fp32);
  const Failure failure = failure_of(g, followed_by(g, [&](const Operands& in) {
                                       static_cast<float*>(in.d)[19 * 29 + 2] = 1.0f;
                                     }));
  EXPECT_EQ(failure.kind, Kind::out_of_bounds);
  EXPECT_THAT(failure.detail, HasSubstr("before line 0 of batch 1"));
}

TEST(Verify, AcceptsBatchesSideBySideAndFindsWritesBesideThem) {
  Gemm g = Gemm::row_major(6, 5, 7).batched(3);
  g.c.ld = g.d.ld = 20;
  g.c.batch_stride = g.d.batch_stride = 6;
  expect_right(g, naive(g));
  const Failure failure = failure_of(
      g, followed_by(g, [&](const Operands& in) { static_cast<float*>(in.d)[20 + 6 + 5] = 1.0f; }));
  EXPECT_EQ(failure.kind, Kind::out_of_bounds);
  EXPECT_THAT(failure.detail, HasSubstr("before line 1 of batch 2"));
}

TEST(Verify, FindsWritesPastTheEnd) {
  const Gemm g = Gemm::row_major(5, 5, 5);
  const Failure failure = failure_of(
      g, followed_by(g, [&](const Operands& in) { static_cast<float*>(in.d)[25] = 1.0f; }));
  EXPECT_EQ(failure.kind, Kind::out_of_bounds);
  EXPECT_THAT(failure.detail, AllOf(HasSubstr("D:"), HasSubstr("past the end")));
}

TEST(Verify, FindsAChangedInput) {
  const Gemm g = loose(fp32).with_bias(Bias::per_row).with_residual();
  const std::pair<const char*, const void * Operands::*> inputs[] = {
      {"a", &Operands::a},
      {"b", &Operands::b},
      {"bias", &Operands::bias},
      {"residual", &Operands::residual}};
  for (const auto& [name, member] : inputs) {
    const auto deed = [member = member](const Operands& in) {
      static_cast<float*>(const_cast<void*>(in.*member))[1] += 1.0f;
    };
    const Failure failure = failure_of(g, followed_by(g, deed));
    EXPECT_EQ(failure.kind, Kind::out_of_bounds);
    EXPECT_THAT(failure.detail, HasSubstr(std::string("input ") + name));
  }
}

TEST(Verify, FindsUseOfWhatLiesBetweenTheLinesOfAnInput) {
  const Gemm g = loose(fp32);
  const Failure failure =
      failure_of(g, followed_by(g, [&](const Operands& in) {
                   // One k step too many for the first element: row 0 of A is followed by what pads
                   // it.
                   static_cast<float*>(in.d)[0] +=
                       static_cast<const float*>(in.a)[g.k] * static_cast<const float*>(in.b)[0];
                 }));
  EXPECT_EQ(failure.kind, Kind::wrong_result);
  EXPECT_THAT(failure.detail, HasSubstr("row 0 column 0: got nan"));
}

TEST(Verify, FindsLostNaN) {
  const Gemm g = loose(fp32).with_activation(Activation::relu);
  const Faults faults{.at_store = [](auto, auto, auto, double v) -> double {
    return std::isnan(v) ? 0.0 : v;  // relu as max(0, x) on x86
  }};
  EXPECT_THAT(failure_of(g, naive(g, faults)).detail, HasSubstr("with NaN and infinity"));
}

TEST(Verify, FindsLostInfinity) {
  const Gemm g = loose(fp32);
  const Faults faults{.at_store = [](auto, auto, auto, double v) -> double {
    return std::isinf(v) ? std::copysign(std::numeric_limits<float>::max(), v) : v;
  }};
  EXPECT_THAT(failure_of(g, naive(g, faults)).detail, HasSubstr("with NaN and infinity"));
}

TEST(Verify, FindsMixedUpPrecision) {
  const Gemm g = Gemm::row_major(16, 16, 64);
  // Inputs cut to bf16 on the way, as a fast mode of matrix units does.
  const Failure failure = failure_of(g, [&](const Operands& in) -> Status {
    std::vector<float> a(16 * 64);
    for (std::size_t i = 0; i < a.size(); ++i)
      a[i] = bf16_to_float(float_to_bf16(static_cast<const float*>(in.a)[i]));
    Operands cut = in;
    cut.a = a.data();
    naive_gemm(g, cut);
    return {};
  });
  EXPECT_THAT(failure.detail, HasSubstr("uniform data"));
}

TEST(Verify, PassesAFailedCallOn) {
  const Gemm g = Gemm::row_major(2, 2, 2);
  const Failure failure = failure_of(
      g, [](const Operands&) -> Status { return fail(ErrorCode::device, "lane 3 is on fire"); });
  EXPECT_THAT(failure.detail, HasSubstr("lane 3 is on fire"));
}

TEST(Verify, RefusesAProblemThatIsNone) {
  EXPECT_EQ(Verifier::make(Gemm::row_major(-1, 2, 2)).error().code, ErrorCode::bad_input);
}

TEST(Verifier, JudgesManyKernelsAndSameSeedsAlike) {
  const Gemm g = loose(bf16);
  Verifier verifier = Verifier::make(g, {.seed = 5}).value();
  EXPECT_EQ(verifier.runs(), 8);
  const RunKernel wrong = naive(g, {.skip_last_k = 1});
  const Verdict first = verifier.check(wrong);
  EXPECT_TRUE(verifier.check(naive(g)));
  const Verdict again = verifier.check(wrong);
  ASSERT_FALSE(first);
  ASSERT_FALSE(again);
  EXPECT_EQ(first.error(), again.error());
  EXPECT_EQ(verify(g, wrong, {.seed = 5}).error(), first.error());
}

TEST(Verifier, KnowsItsAddresses) {
  const Gemm g = Gemm::row_major(4, 4, 4);
  Verifier verifier = Verifier::make(g).value();
  const void *a = nullptr, *d = nullptr;
  EXPECT_TRUE(verifier.check([&](const Operands& in) -> Status {
    a = in.a, d = in.d;
    naive_gemm(g, in);
    return {};
  }));
  EXPECT_TRUE(verifier.owns(a));
  EXPECT_TRUE(verifier.owns(d));
  EXPECT_FALSE(verifier.owns(&g));
}

TEST(Verifier, KeepsThePromisedAlignmentAndNoMore) {
  for (int alignment : {4, 16, 64}) {
    Gemm g = Gemm::row_major(3, 16, 16);  // D takes 3 * 64 bytes, an odd number of cache lines
    g.alignment = alignment;
    bool less_seen = false;
    EXPECT_TRUE(verify(g, [&](const Operands& in) -> Status {
      for (const void* p : {in.a, in.b, static_cast<const void*>(in.d)})
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u);
      less_seen = less_seen || reinterpret_cast<std::uintptr_t>(in.d) % 128 != 0;
      naive_gemm(g, in);
      return {};
    }));
    EXPECT_TRUE(less_seen) << alignment;
  }
}

TEST(RaggedNeighbours, AreValidRaggedAndNear) {
  for (Gemm g : {Gemm::row_major(4096, 4096, 4096), Gemm::row_major(1, 4096, 4096, bf16),
                 Gemm::column_major(64, 64, 64).transpose_a(),
                 Gemm::row_major(16, 6144, 4096, u8).output(s8).batched(3),
                 Gemm::row_major(65536, 16, 65536), Gemm::row_major(1, 1, 2)}) {
    g.alignment = g.n % 16 == 0 && g.m % 16 == 0 ? 16 : 1;
    const std::vector<Gemm> near = ragged_neighbours(g);
    EXPECT_FALSE(near.empty());
    for (const Gemm& r : near) {
      EXPECT_TRUE(validate(r)) << text(r) << ": " << validate(r).error().message;
      EXPECT_NE(r, g);
      EXPECT_LE(r.flops(), 0x1p29);
      EXPECT_EQ(r.m % 2 + r.n % 2 + r.k % 2, 3) << text(r);
      EXPECT_LE(r.m, g.m);
      EXPECT_LE(r.n, g.n);
      EXPECT_LE(r.k, g.k);
      EXPECT_GT(r.ldd(), r.d.order == Order::row_major ? r.n : r.m);
      EXPECT_EQ(r.alignment, g.alignment);
      EXPECT_EQ(r.epilogue, g.epilogue);
    }
  }
  EXPECT_TRUE(ragged_neighbours(Gemm::row_major(4, 0, 4)).empty());
}

// Code sees a tight column of D as a row: elsewhere the bias is one of columns.
TEST(RaggedNeighbours, OfAColumnAreColumns) {
  for (const char* line : {"bf16 N T 65 1 257 epilogue=bias_col", "bf16 N N 65 1 257",
                           "int8 N T 65 1 257 out=bf16 scale=line:tensor"}) {
    const Gemm g = parse_gemm(line).value();
    const Problem problem = Problem::of(g).value();
    ASSERT_TRUE(problem.swapped) << line;
    for (const Gemm& r : ragged_neighbours(g)) {
      const Problem near = Problem::of(r).value();
      EXPECT_EQ(near.swapped, problem.swapped) << text(r);
      EXPECT_EQ(near.gemm.epilogue, problem.gemm.epilogue) << text(r);
      EXPECT_EQ(near.gemm.a.q.scale, problem.gemm.a.q.scale) << text(r);
      EXPECT_EQ(near.a_k_major, problem.a_k_major) << text(r);
      EXPECT_EQ(near.b_k_major, problem.b_k_major) << text(r);
    }
  }
}

}  // namespace kiln::verify_test
