// Problems that are the same in memory or on a device have one spelling.
#include "generator/problem/spelling.h"

#include <gtest/gtest.h>

#include "cache/keys.h"
#include "generator/problem/extent.h"
#include "generator/problem/problem.h"

namespace kiln::spelling_test {

Gemm gemm(const char* line) { return parse_gemm(line).value(); }

Gemm aligned(Gemm gemm) {
  gemm.alignment = kUsualAlignment;
  return gemm;
}

/// Both are one problem: they have one key, and generated code sees no difference.
void expect_same(const char* given, const char* joined) {
  const Gemm x = gemm(given), y = gemm(joined);
  EXPECT_EQ(key_text(normalised(x)), key_text(normalised(y))) << given;
  EXPECT_EQ(Problem::of(x).value().gemm, Problem::of(y).value().gemm) << given;
  EXPECT_EQ(Problem::of(x).value().a_k_major, Problem::of(y).value().a_k_major) << given;
  EXPECT_EQ(Problem::of(x).value().b_k_major, Problem::of(y).value().b_k_major) << given;
  EXPECT_EQ(with_alignment_of_pitches(aligned(x)).alignment,
            with_alignment_of_pitches(aligned(y)).alignment)
      << given;
}

TEST(Spelling, LinesOfOneElementAreJoined) {
  expect_same("bf16 T N 1 512 4096", "bf16 N N 1 512 4096");
  expect_same("bf16 T N 1 512 4096 batch=3", "bf16 N N 1 512 4096 batch=3");
  expect_same("fp32 N N 40 1 64", "fp32 N T 40 1 64 order=rrcc");
  expect_same("fp32 N N 40 1 64 epilogue=bias_row+residual",
              "fp32 N T 40 1 64 epilogue=bias_row+residual order=rrcc");
}

TEST(Spelling, AProblemForAGpuHasTheUsualAlignmentWhateverItsPitches) {
  const DeviceCaps gpu = caps_named("sm_90a").value(), cpu = caps_named("avx2").value();
  EXPECT_EQ(with_defaults_of(gemm("bf16 N T 3 5 7"), gpu).alignment, 16);
  EXPECT_EQ(with_defaults_of(gemm("bf16 N T 3 5 7 align=2"), gpu).alignment, 2);
  EXPECT_EQ(with_defaults_of(gemm("bf16 N T 3 5 7"), cpu).alignment, 1);
}

TEST(Spelling, EarlierDatabasesHadTheAlignmentOfPitches) {
  const auto earlier = [](const char* line) {
    return with_alignment_of_pitches(aligned(gemm(line))).alignment;
  };
  EXPECT_EQ(earlier("bf16 N N 64 64 64"), 16);
  EXPECT_EQ(earlier("bf16 N N 64 63 64"), 2);
  EXPECT_EQ(earlier("bf16 N N 64 68 64"), 8);
  EXPECT_EQ(earlier("bf16 N T 3 5000 777"), 2);
  EXPECT_EQ(earlier("int8 N N 64 64 63"), 1);
  EXPECT_EQ(earlier("fp4 N T 1 64 64 lda=65 scale=mx32"), 1);
  EXPECT_EQ(earlier("bf16 T N 1 512 4096"), 16);
  EXPECT_EQ(earlier("bf16 N N 64 1 64"), 16);
}

TEST(Spelling, OthersStayAsTheyAre) {
  for (const char* line :
       {"bf16 T N 1 512 4096 lda=8", "fp32 N N 40 2 64", "fp32 N N 1 1 1", "fp32 N T 40 50 1",
        "fp32 N N 40 1 64 packed_b=1", "bf16 N T 1 512 4096"})
    EXPECT_EQ(with_joined_lines(gemm(line)), gemm(line)) << line;
  // A C that cannot be turned keeps D as it is.
  const Gemm padded = gemm("fp32 N T 40 1 64 ldc=3");
  EXPECT_EQ(with_joined_lines(padded), padded);
}

TEST(Spelling, TurningTwiceChangesNothing) {
  for (const char* line : {"bf16 T N 1 512 4096", "fp32 N N 40 1 64"}) {
    const Gemm joined = with_joined_lines(gemm(line));
    EXPECT_NE(joined, gemm(line)) << line;
    EXPECT_TRUE(validate(joined)) << line;
    EXPECT_EQ(with_joined_lines(joined), joined) << line;
    for (const Operand which : kMatrices)
      EXPECT_EQ(span_bytes(joined, which), span_bytes(gemm(line), which)) << line;
  }
}

TEST(Spelling, NumericsCountWhereSumsAreTruncated) {
  const Gemm fast = gemm("fp8 N T 64 64 64 numerics=fast");
  EXPECT_EQ(numerics_on(fast, caps_named("sm_90a").value()), Numerics::fast);
  EXPECT_EQ(numerics_on(fast, caps_named("sm_89").value()), Numerics::fast);
  EXPECT_EQ(numerics_on(fast, caps_named("gfx942").value()), Numerics::ieee);
  EXPECT_EQ(numerics_on(fast, caps_named("sm_80").value()), Numerics::ieee);
  const Gemm tensor = gemm("fp32 N T 64 64 64 numerics=tensor");
  EXPECT_EQ(numerics_on(tensor, caps_named("sm_90a").value()), Numerics::tensor);
  EXPECT_EQ(numerics_on(tensor, caps_named("sm_80").value()), Numerics::ieee);
  EXPECT_EQ(numerics_on(tensor, caps_named("amx").value()), Numerics::tensor);
  EXPECT_EQ(numerics_on(tensor, caps_named("avx512").value()), Numerics::ieee);
}

/// Weights are rounded with the scales of their groups, by one device, where A's type has their
/// range.
TEST(Spelling, NumericsCountWhereWeightsAreRounded) {
  const auto on = [](const char* line, const char* device) {
    return numerics_on(gemm(line), caps_named(device).value());
  };
  const char* groups = "bf16_int4 N T 64 64 128 group=128 numerics=fast";
  EXPECT_EQ(on(groups, "sm_90a"), Numerics::fast);
  for (const char* device : {"sm_89", "sm_90", "sm_100a", "sm_80", "gfx942", "amx"})
    EXPECT_EQ(on(groups, device), Numerics::ieee) << device;
  EXPECT_EQ(on("bf16_int8 N T 64 64 128 group=k numerics=fast", "sm_90a"), Numerics::ieee);
  EXPECT_EQ(on("fp16_int4 N T 64 64 128 group=64 numerics=fast", "sm_90a"), Numerics::ieee);
  EXPECT_EQ(on("fp16_fp4 N T 64 64 128 group=mx32 numerics=fast", "sm_90a"), Numerics::ieee);
  EXPECT_EQ(on("fp16_int4 N T 64 64 128 group=64 scale_type=fp16 numerics=fast", "sm_90a"),
            Numerics::fast);
}

TEST(Spelling, NumericsAreRefusedWhereTheySayNothing) {
  const auto message = [](const char* line) { return parse_gemm(line).error().message; };
  EXPECT_EQ(message("bf16 N T 64 64 64 numerics=fast"),
            "numerics = fast: a.dtype = bf16 is not an 8-bit float, nor does B hold weights");
  EXPECT_EQ(message("int8 N T 64 64 64 numerics=fast"),
            "numerics = fast: a.dtype = s8 is not an 8-bit float, nor does B hold weights");
  EXPECT_EQ(message("fp8 N T 64 64 128 scale=1x128 numerics=fast"),
            "numerics = fast: scale_a = 1x128 is applied to each block's sum in fp32");
  EXPECT_EQ(message("tf32 N T 64 64 64 numerics=tensor"),
            "numerics = tensor: a.dtype = tf32 is not fp32");
  EXPECT_EQ(message("bf16_int4 N T 64 64 64 group=64 numerics=tensor"),
            "numerics = tensor: a.dtype = bf16 is not fp32");
  EXPECT_EQ(message("fp8 N T 64 64 128 numerics=quick"),
            "numerics = \"quick\": must be ieee, fast or tensor");
}

}  // namespace kiln::spelling_test
