// Mistakes in the gated kernels of CPUs, planted one at a time: in where the columns of both
// factors come from, where their sums wait and where they meet. Verification must find each of
// them. They run natively, so none reaches beyond the operands and the workspace.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cpu/dot/config.h"
#include "generator/families/cpu/packed/config.h"
#include "support/host_mutants.h"

namespace kiln::gated_mutants_test {

using Base = test::HostBase;
using Mutant = test::HostMutant;

const Base kPacked{"avx2", "fp32 N T 13 29 60 gate=silu epilogue=bias_col+residual",
                   HostPacked{.isa = Isa::avx2, .mr = 2, .nv = 4, .kc = 16, .mc = 6, .nc = 16}};
const Base kPairs{"avx2", "fp32 N N 13 29 60 gate=sigmoid:interleaved epilogue=bias_col",
                  HostPacked{.isa = Isa::avx2, .mr = 2, .nv = 4, .kc = 16, .mc = 6, .nc = 16}};
const Base kInPlace{"avx512", "fp32 N N 13 45 60 gate=relu ldb=99",
                    HostPacked{.mr = 3, .nv = 4, .kc = 16, .mc = 6, .nc = 32, .pack_b = false}};
const Base kDot{"avx2", "fp32 N T 5 11 70 gate=gelu epilogue=bias_col",
                HostDot{.isa = Isa::avx2, .mr = 2, .nr = 4}};
const Base kDotPairs{"avx2", "fp32 N T 5 11 70 gate=gelu_erf:interleaved epilogue=bias_col",
                     HostDot{.isa = Isa::avx2, .mr = 1, .nr = 6}};
/// Weights: the second factor begins within a byte.
const Base kCodes{"avx2", "bf16_uint4 N N 7 37 224 batch=2 group=32 zero=int gate=silu",
                  HostPacked{.isa = Isa::avx2, .mr = 2, .nv = 4, .kc = 96, .mc = 6, .nc = 16}};
const Base kCodePairs{"avx2", "bf16_int4 N T 7 37 224 group=32 gate=silu:interleaved",
                      HostPacked{.isa = Isa::avx2, .mr = 2, .nv = 4, .kc = 96, .mc = 6, .nc = 16}};
const Base kCodeSquares{
    "avx2", "bf16_fp8 N T 7 70 384 batch=2 group=128x128 gate=silu",
    HostPacked{.isa = Isa::avx2, .mr = 2, .nv = 4, .kc = 96, .mc = 6, .nc = 16}};
/// Gates that are expressions.
const Base kWritten{"avx2", "fp32 N T 13 29 60 epilogue=d=silu(acc0)*acc1+b[n]",
                    HostPacked{.isa = Isa::avx2, .mr = 2, .nv = 4, .kc = 16, .mc = 6, .nc = 16}};
const Base kWrittenPairs{"avx2",
                         "fp32 N T 5 11 70 epilogue=d=exp(acc0-max[m](acc0))*acc1 "
                         "gate=expression:interleaved",
                         HostDot{.isa = Isa::avx2, .mr = 1, .nr = 6}};

const std::vector<Mutant> kMutants{
    {&kWritten, "takes one factor twice", "const Value acc1 = second;", "const Value acc1 = v;"},
    {&kWritten, "takes the second factor twice", "const Value acc0 = v;",
     "const Value acc0 = second;"},
    {&kWritten, "forgets what is made of both", "v = fused(", "fused("},
    {&kWrittenPairs, "does not separate the factors", "separate(first, second, Iota<L>{});", ""},
    {&kWrittenPairs, "keeps the first product twice", "column, acc1, columns)",
     "column, acc0, columns)"},
    {&kCodes, "decodes the first factor's columns twice", "weights, k0, args.n + j, width",
     "weights, k0, j, width"},
    {&kCodes, "begins the second factor with a byte", "column % 2 != 0", "false"},
    {&kCodes, "counts half of a batch's scales", "batch * 2 * args.n * w.groups",
     "batch * args.n * w.groups"},
    {&kCodePairs, "decodes half of a block's columns", "2 * (block_columns.end - j)",
     "(block_columns.end - j)"},
    {&kCodePairs, "decodes from D's column on", "weights, k0, 2 * j,", "weights, k0, j,"},
    {&kCodeSquares, "counts half of a batch's squares", "(2 * args.n + kGroupColumns - 1)",
     "(args.n + kGroupColumns - 1)"},
    {&kPacked, "packs the first factor's columns twice", "args.n + j, width", "j, width"},
    {&kPacked, "reads the first factor's panels twice", "second + (j - N / 2) * pitch",
     "first + (j - N / 2) * pitch"},
    {&kPacked, "takes the factors for each other", "fused(silu(acc0), acc1, x0)",
     "fused(silu(acc1), acc0, x0)"},
    {&kPacked, "adds the first factor's bias to both", "out.bias + out.columns + column",
     "out.bias + column"},
    {&kPacked, "passes the gate before k ends", "if (!pass.last) {", "if (false) {"},
    {&kPacked, "keeps one factor's sums", "+ which * L;", ";"},
    {&kPacked, "keeps sums where the next row's are", "waiting_in_row(args), rows.begin",
     "waiting_in_row(args) / 2, rows.begin"},
    {&kPacked, "forgets alpha of a factor",
     "__builtin_convertvector(high, Vec<Real, L>) * out.alpha",
     "__builtin_convertvector(high, Vec<Real, L>)"},
    {&kPacked, "forgets the residual", "fused(silu(acc0), acc1, x0)", "silu(acc0) * acc1"},
    {&kPairs, "does not separate the factors", "separate(first, second, Iota<L>{});", ""},
    {&kPairs, "packs half of a block's columns", "2 * (block_columns.end - j)",
     "(block_columns.end - j)"},
    {&kPairs, "has one bias for both vectors", "2 * column + L, 2 * columns - L",
     "2 * column, 2 * columns"},
    {&kInPlace, "masks as if the factors were one", "columns - j % (N / 2) * kLanes",
     "columns - j * kLanes"},
    {&kInPlace, "reads one factor twice", "in.apart = args.n;", "in.apart = 0;"},
    {&kDot, "reads one factor twice", "j / kColumns * out.columns - column", "- column"},
    {&kDot, "adds the first factor's bias to both", "out.bias + out.columns + column",
     "out.bias + column"},
    {&kDotPairs, "does not separate the factors", "separate(first, second, Iota<L>{});", ""},
    {&kDot, "repeats a factor's first row", "smaller(j % kColumns, columns / 2 - 1)", "0"},
    {&kDotPairs, "has the vectors of either factor full", "constexpr int kApart = kFinishLanes;",
     "constexpr int kApart = kColumns;"},
};

TEST(GatedMutants, AreCaught) { test::expect_caught_on_host(kMutants); }

TEST(GatedMutants, UnchangedKernelsAreRight) {
  const std::vector<const Base*> bases{&kPacked,   &kPairs,       &kInPlace,   &kDot,
                                       &kDotPairs, &kCodes,       &kCodePairs, &kCodeSquares,
                                       &kWritten,  &kWrittenPairs};
  test::expect_right_on_host(bases);
}

}  // namespace kiln::gated_mutants_test
