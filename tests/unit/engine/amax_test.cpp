// Problems that find the largest magnitude of D: their rules, their text, what a magnitude may be,
// and what calls write without kernels that were tuned.
#include "generator/problem/amax.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/plan.h"
#include "generator/families/cuda/gemv/config.h"
#include "generator/families/cuda/simt/config.h"
#include "generator/families/hip/mfma/config.h"
#include "generator/families/hip/simt/config.h"
#include "generator/problem/extent.h"
#include "generator/problem/gemm_types.h"
#include "generator/problem/problem.h"
#include "generator/space/family.h"
#include "generator/space/space.h"
#include "kiln/numeric.hpp"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/reference_kernel.h"
#include "support/opened_engine.h"
#include "tuner/verify/amax.h"
#include "tuner/verify/reference.h"
#include "tuner/verify/verify.h"

namespace kiln::amax_test {

using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Amax, TextNamesIt) {
  for (const char* line :
       {"fp32 N N 5 20 64 amax=1", "bf16 N T 5 200 64 out=fp8_e4m3 scale_d=tensor amax=1",
        "bf16 N T 50 200 64 groups=3 grouped=masked gate=silu amax=1",
        "fp16 T N 5 20 64 order=column epilogue=bias_row+relu+residual amax=1"}) {
    const auto g = parse_gemm(line);
    ASSERT_TRUE(g) << line << ": " << g.error().message;
    EXPECT_EQ(text(*g), line);
    EXPECT_TRUE(g->amax_d);
    EXPECT_TRUE(is_output(*g, Operand::amax_d));
    EXPECT_EQ(span_bytes(*g, Operand::amax_d), 4) << "one for all batches and groups";
  }
  EXPECT_EQ(parse_gemm("fp32 N N 5 20 64 amax=0").value(), Gemm::row_major(5, 20, 64));
  EXPECT_EQ(span_bytes(Gemm::row_major(0, 20, 64).with_amax_d(), Operand::amax_d), 4);
  EXPECT_EQ(span_bytes(Gemm::row_major(5, 20, 64), Operand::amax_d), 0);
}

TEST(Amax, RefusalsNameTheField) {
  const auto message = [](const std::string& line) {
    const auto g = parse_gemm(line);
    return g ? "accepted " + line : g.error().message;
  };
  EXPECT_THAT(message("fp32 N N 5 20 64 amax=2"), HasSubstr("amax = \"2\": must be 0 or 1"));
  EXPECT_THAT(message("int8 N T 5 20 64 amax=1"),
              HasSubstr("amax_d = true: d.dtype = s32: must be a floating-point type"));
  EXPECT_THAT(message("int8 N T 5 20 64 out=s8 amax=1"), HasSubstr("amax_d = true: d.dtype = s8"));
  EXPECT_THAT(message("bf16 N T 5 200 64 out=s8 scale_d=line amax=1"),
              HasSubstr("amax_d = true: scale_d = line: must be none or tensor"));
  EXPECT_THAT(message("bf16 N T 5 200 64 out=s8 scale_d=1x128 amax=1"),
              HasSubstr("amax_d = true: scale_d = 1x128"));
}

TEST(Amax, FamiliesWithoutItAreRefusedByName) {
  const Problem problem = Problem::of(parse_gemm("bf16 N T 64 64 64 amax=1").value()).value();
  for (const auto& [arch, config] :
       {std::pair{"gfx942", Config{HipMfma{}}}, {"gfx942", HipSimt{}}, {"sm_80", CudaGemv{}}})
    EXPECT_EQ(broken_rule(problem, caps_named(arch).value(), config),
              "the family finds the largest magnitude of D")
        << arch;
}

TEST(Amax, LaunchesClearItFirst) {
  const DeviceCaps device = caps_named("sm_80").value();
  for (const char* line : {"fp32 N N 64 64 64 amax=1", "fp32 N N 0 64 64 amax=1"}) {
    const Gemm gemm = parse_gemm(line).value();
    const GpuLaunch launch = family_of(Config{CudaSimt{}}, Vendor::nvidia)
                                 .launch(Problem::of(gemm).value(), device, CudaSimt{});
    ASSERT_FALSE(launch.steps.empty());
    EXPECT_EQ(launch.steps.front().entry, "kiln_clear");
    EXPECT_FALSE(launch.steps.front().overlaps_previous) << "it may be read until then";
    EXPECT_EQ(launch.steps.size(), gemm.m == 0 ? 1u : 2u);
  }
}

TEST(Amax, BitsAreOrderedAsMagnitudes) {
  const double rising[] = {0, 0x1p-149, -0x1p-126, 1, -2, 3e38, -kInfinity, kNan};
  for (std::size_t i = 1; i < std::size(rising); ++i)
    EXPECT_LT(magnitude_bits(rising[i - 1]), magnitude_bits(rising[i])) << rising[i];
  EXPECT_EQ(magnitude_bits(-0.0), 0u);
  EXPECT_EQ(magnitude_bits(-1e300), magnitude_bits(kInfinity)) << "more than any fp32";
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(magnitude_bits(-kNan))));
}

TEST(Amax, ExpectedElementsBoundIt) {
  ExpectedAmax some;
  some.add(-4, 0.5);
  some.add(3, 0.25);
  for (const bool whole : {false, true}) {
    EXPECT_TRUE(some.accepts(4, whole));
    EXPECT_TRUE(some.accepts(3.5, whole));
    EXPECT_FALSE(some.accepts(3.4375, whole));
    EXPECT_EQ(some.accepts(4.625, whole), !whole) << "another element may be larger";
    EXPECT_EQ(some.accepts(kNan, whole), !whole);
  }
  some.add(kNan, 0);
  EXPECT_TRUE(some.accepts(kNan, true));
  EXPECT_FALSE(some.accepts(4, false)) << "one of them is NaN";
}

TEST(Amax, StoredElementsFollowFromIt) {
  StoredAmax all;
  all.add(1);
  all.add(-257);  // no bf16
  EXPECT_TRUE(all.may_follow(fp32, 257, 1) && all.holds(fp32, 257, 1));
  EXPECT_FALSE(all.may_follow(fp32, 256, 1));
  EXPECT_TRUE(all.may_follow(fp32, 258, 1));
  EXPECT_FALSE(all.holds(fp32, 258, 1));
  StoredAmax rounded;
  rounded.add(-256);
  EXPECT_TRUE(rounded.holds(bf16, 256.5F, 1)) << "what is rounded to it";
  EXPECT_FALSE(rounded.holds(bf16, 260, 1));
  EXPECT_FALSE(rounded.may_follow(bf16, kNan, 1) && rounded.holds(bf16, kNan, 1));
  rounded.add(kNan);
  EXPECT_TRUE(rounded.holds(bf16, kNan, 1));
  EXPECT_FALSE(rounded.may_follow(bf16, 256, 1));
  StoredAmax codes;
  codes.add(-128);
  EXPECT_TRUE(codes.may_follow(s8, 1000, 2) && codes.holds(s8, 1000, 2)) << "saturated";
  EXPECT_FALSE(codes.holds(s8, 100, 2));
  EXPECT_TRUE(codes.holds(s8, kNan, 2)) << "which s8 does not show";
  StoredAmax wide;
  wide.add(0.1);
  EXPECT_TRUE(wide.may_follow(fp64, 0.1F, 1) && wide.holds(fp64, 0.1F, 1));
  EXPECT_FALSE(wide.holds(fp64, 0.2F, 1));
}

/// One problem of each pair of types, with what else reaches D.
std::vector<Gemm> problems() {
  std::vector<Gemm> out;
  int turn = 0;
  for (const TypeRow& row : kAllTypeRows)
    for (int i = 0; i < 6; ++i) {
      Gemm g = Gemm::row_major(8, 24, 32, row.a);
      g.b.dtype = row.b;
      g.accumulator = row.accumulator;
      g.c.dtype = g.d.dtype = row.usual_output();
      if (needs_mx(row)) g = g.scaled(Scale::mx_32);
      if (has_weights(g)) g = g.with_weights(row.b, Scale::line_32);
      ++turn;
      if (!is_floating(g.d.dtype) || turn % 4 == 0)
        g = g.quantised(turn % 8 == 0 ? s8 : fp8_e4m3, Scale::tensor);
      if (turn % 3 == 0) g = g.with_bias(Bias::per_column);
      if (turn % 5 == 0) g = g.batched(2);
      if (turn % 7 == 0) g = g.with_gate(Gate::silu);
      if (turn % 2 == 0) g = g.grouped(3, static_cast<Grouping>(1 + turn / 2 % 3));
      if (g.grouping() == Grouping::rows && turn % 3 != 0 && g.d.q.scale == Scale::none)
        g = g.gathered(5).scattered(11);
      if (turn % 11 == 0 && g.d.q.scale == Scale::none) g = g.with_activation(Activation::gelu_erf);
      if (const Gemm with = g.with_amax_d(); validate(with)) out.push_back(with);
    }
  return out;
}

RunKernel reference_run(const Gemm& g, int threads) {
  return [problem = Problem::of(g).value(), threads](const Operands& operands) -> Status {
    const HostArgs args = make_args(problem, operands);
    clear_amax(args);
    for (int t = 0; t < threads; ++t) run_reference(problem, args, nullptr, t, threads);
    return {};
  };
}

TEST(Amax, TheReferenceKernelFindsIt) {
  const auto all = problems();
  EXPECT_GT(all.size(), 60u);
  for (const Gemm& g : all) {
    const Verdict verdict = verify(g, reference_run(g, 3));
    EXPECT_TRUE(verdict) << text(g) << ": " << verdict.error().detail;
  }
}

/// A float away either way, left alone, cleared, or of D after it was rounded.
TEST(Amax, TheVerifierMissesNoWrongOne) {
  for (const char* line : {"bf16 N T 24 20 40 amax=1", "fp32 N N 24 20 40 batch=2 amax=1",
                           "bf16 N T 24 20 40 groups=3 grouped=masked amax=1",
                           "bf16 N T 24 20 40 out=fp8_e4m3 scale_d=tensor amax=1"}) {
    const Gemm g = parse_gemm(line).value();
    const RunKernel right = reference_run(g, 1);
    const auto wrong_by = [&](auto&& change) {
      return verify(g, [&](const Operands& operands) -> Status {
        Status ran = right(operands);
        change(*static_cast<float*>(operands.amax_d));
        return ran;
      });
    };
    const float before = 0.37F;
    EXPECT_FALSE(wrong_by([](float& x) { x = std::nextafter(x, kInfinity) * 1.5F; })) << line;
    EXPECT_FALSE(wrong_by([](float& x) { x = std::nextafter(x, 0.0F); })) << line;
    EXPECT_FALSE(wrong_by([](float& x) { x = -x; })) << line;
    EXPECT_FALSE(wrong_by([](float& x) { x = 0; })) << line;
    EXPECT_FALSE(wrong_by([&](float& x) { x = before; })) << line;
    EXPECT_FALSE(wrong_by([](float& x) { x = kNan; })) << line;
    EXPECT_TRUE(wrong_by([](float&) {})) << line;
  }
}

TEST(Amax, CallsWriteItAnew) {
  const Gemm g = Gemm::row_major(2, 3, 2).with_amax_d();
  const std::array a{1.0F, 0.0F, 0.0F, 1.0F};
  std::array b{1.0F, -7.0F, 2.0F, 3.0F, 4.0F, 5.0F};
  std::array<float, 6> d{};
  float amax = 100;
  Operands operands{.a = a.data(), .b = b.data(), .d = d.data()};
  operands.amax_d = &amax;
  test::Opened engine;
  ASSERT_TRUE(engine->gemm(g, operands));
  EXPECT_EQ(amax, 7) << "of this call alone";
  ASSERT_TRUE(engine->gemm(g.with_activation(Activation::relu), operands));
  EXPECT_EQ(amax, 5) << "after the activation";
  operands.alpha = -2;
  ASSERT_TRUE(engine->gemm(g, operands));
  EXPECT_EQ(amax, 14);
  b[2] = kNan;
  ASSERT_TRUE(engine->gemm(g, operands));
  EXPECT_TRUE(std::isnan(amax));
  amax = 3;
  for (const Gemm& empty : {Gemm::row_major(0, 3, 2), Gemm::row_major(2, 0, 2)}) {
    amax = 3;
    ASSERT_TRUE(engine->gemm(empty.with_amax_d(), operands));
    EXPECT_EQ(amax, 0) << "of no element";
  }
  amax = 3;
  ASSERT_TRUE(engine->gemm(Gemm::row_major(2, 3, 0).with_amax_d(), operands));
  EXPECT_EQ(amax, 0) << "of zeros";
  amax = 3;
  ASSERT_TRUE(engine->gemm(Gemm::row_major(2, 3, 2), operands));
  EXPECT_EQ(amax, 3) << "nobody asked";
}

TEST(Amax, TheReferenceOfHigherPrecisionWritesIt) {
  const std::array a{3.0F, 4.0F};
  float d = 0, amax = 9;
  Operands operands{.a = a.data(), .b = a.data(), .d = &d, .alpha = -1};
  EXPECT_THAT(reference_gemm(Gemm::row_major(1, 1, 2).with_amax_d(), operands).error().message,
              HasSubstr("amax_d = null"));
  operands.amax_d = &amax;
  ASSERT_TRUE(reference_gemm(Gemm::row_major(1, 1, 2).with_amax_d(), operands));
  EXPECT_EQ(amax, 25);
  ASSERT_TRUE(reference_gemm(Gemm::row_major(0, 1, 2).with_amax_d(), operands));
  EXPECT_EQ(amax, 0);
}

TEST(Amax, CallsNeedAWordOfItsOwn) {
  const Gemm g = Gemm::row_major(4, 8, 8).with_amax_d();
  const auto plan = bare_plan(g, 1);
  std::vector<float> a(4 * 8), b(8 * 8), d(4 * 8);
  alignas(8) std::array<float, 2> amax{};
  Operands operands{.a = a.data(), .b = b.data(), .d = d.data()};
  const auto message = [&](void* to) {
    operands.amax_d = to;
    const Status ran = run_plan(*plan, operands);
    return ran ? "ran" : ran.error().message;
  };
  EXPECT_THAT(message(nullptr), HasSubstr("amax_d = null"));
  EXPECT_THAT(message(reinterpret_cast<std::byte*>(amax.data()) + 2), HasSubstr("must be 4-byte"));
  EXPECT_THAT(message(&a[3]), testing::AllOf(HasSubstr("a = "), HasSubstr("overlaps amax_d = ")));
  EXPECT_THAT(message(&d[31]), HasSubstr("overlaps"));
  EXPECT_EQ(message(amax.data()), "ran");
  const auto empty = bare_plan(Gemm::row_major(0, 8, 8).with_amax_d(), 1);
  operands.amax_d = nullptr;
  EXPECT_THAT(run_plan(*empty, operands).error().message, HasSubstr("amax_d = null"));
}

}  // namespace kiln::amax_test
