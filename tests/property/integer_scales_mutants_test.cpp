// Mistakes in how kernels scale sums of integers and take A's zero points off them, planted one at
// a time in each family that does it: verification must find every one of them. GPUs' kernels run
// on the emulator, CPUs' natively, where no planted bug reaches beyond the operands.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "generator/families/cpu/dot/config.h"
#include "generator/families/cpu/packed/config.h"
#include "generator/families/cuda/gemv/config.h"
#include "generator/families/cuda/mma/config.h"
#include "generator/families/cuda/simt/config.h"
#include "generator/families/cuda/wgmma/config.h"
#include "generator/families/hip/mfma/config.h"
#include "support/host_mutants.h"
#include "support/mutants.h"

namespace kiln::integer_scales_mutants_test {

using test::Base;
using test::Mutant;

const Base kWgmma{"wgmma", "sm_90a",
                  "int8 N T 150 80 96 batch=2 align=16 out=bf16 scale=line zero_a=line "
                  "epilogue=bias_col",
                  CudaWgmma{.left = 128, .right = 64, .stages = 3, .warpgroups = 2}};
const Base kTensor{"tensor", "sm_90a",
                   "int8 N T 150 80 96 batch=2 align=16 out=fp32 scale=tensor zero_a=tensor",
                   CudaWgmma{.left = 64, .right = 64, .stages = 3, .warpgroups = 1, .swap = true}};
const Base kGate{"gate", "sm_90a",
                 "int8 N T 90 72 96 batch=2 align=16 out=bf16 scale=line zero_a=line gate=silu",
                 CudaWgmma{.left = 64, .right = 64, .stages = 3, .warpgroups = 1}};
const Base kSummed{"summed", "sm_90a",
                   "int8 N T 70 80 800 batch=2 align=16 out=bf16 scale=line zero_a=line",
                   CudaWgmma{.left = 64,
                             .right = 64,
                             .stages = 3,
                             .warpgroups = 1,
                             .sharing = Sharing::summed,
                             .splits = 2}};
const Base kGroups{"groups", "sm_90a",
                   "int8 N T 200 80 96 groups=4 grouped=rows align=16 out=bf16 scale=line "
                   "zero_a=line",
                   CudaWgmma{.left = 64, .right = 64, .stages = 3, .warpgroups = 1}};
const Base kMasked{"masked", "sm_90a",
                   "int8 N T 90 80 96 groups=4 grouped=masked align=16 out=bf16 scale=line "
                   "zero_a=line",
                   CudaWgmma{.left = 64, .right = 64, .stages = 3, .warpgroups = 1}};
const Base kMma{"mma", "sm_80",
                "int8 N T 71 75 100 lda=112 ldb=112 ldc=80 ldd=80 align=16 batch=2 out=bf16 "
                "scale=line zero_a=line",
                CudaMma{.block_m = 64,
                        .block_n = 64,
                        .block_k = 64,
                        .warps_m = 2,
                        .warps_n = 2,
                        .stages = 3,
                        .instruction_k = 32,
                        .bits_a = 2,
                        .base_a = 4,
                        .shift_a = 1,
                        .bits_b = 2,
                        .base_b = 4,
                        .shift_b = 1}};
const Base kSimt{
    "simt", "sm_80", "u8s8 N T 75 83 61 batch=2 out=fp32 scale=line zero_a=line",
    CudaSimt{.block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4, .group = 4}};
const Base kGemv{"gemv", "sm_90a", "int8 N T 3 101 777 batch=2 out=bf16 scale=line zero_a=line",
                 CudaGemv{.rows = 2, .width = 0, .warps = 4}};
const Base kMfma{"mfma", "gfx942", "int8 N T 100 120 200 batch=2 out=bf16 scale=line zero_a=line",
                 HipMfma{.rows = 16,
                         .k = 32,
                         .tile_m = 64,
                         .tile_n = 64,
                         .depth = 64,
                         .waves_m = 2,
                         .waves_n = 2,
                         .staging = Staging::twice,
                         .chunk = 0}};

constexpr const char* kRowOfA = "x = product(x, out.scale_a[row])";
constexpr const char* kColumnOfB = "x = product(x, out.scale_b[column])";

const std::vector<Mutant> kMutants{
    {&kWgmma, "counts a scaled float as an integer", "product(real_of(sums[i + e]), out.alpha)",
     "product(first_real(sums[i + e]), out.alpha)"},
    {&kWgmma, "takes the first row's scale", kRowOfA, "x = product(x, out.scale_a[0])"},
    {&kWgmma, "forgets the columns' scales", kColumnOfB, ""},
    {&kWgmma, "forgets the batch of the rows' scales", "(args.scale_a) + batch * args.m",
     "(args.scale_a)"},
    {&kWgmma, "forgets the batch of the zero points", "(args.zero_a) + batch * args.m",
     "(args.zero_a)"},
    {&kWgmma, "forgets the batch of the columns' sums", "(args.column_sums_b) + batch * args.n",
     "(args.column_sums_b)"},
    {&kWgmma, "adds the zero points", "Acc(u32(sum) - added_by_zero",
     "Acc(u32(sum) + added_by_zero"},
    {&kWgmma, "takes the row's sum of B", "out.zero_a[row] * out.column_sums_b[column]",
     "out.zero_a[row] * out.column_sums_b[row]"},
    {&kWgmma, "takes the zero point of the column", "out.zero_a[row] * out.column_sums_b[column]",
     "out.zero_a[column] * out.column_sums_b[column]"},
    {&kWgmma, "forgets the zero points",
     "subtract_zeros(out, sums[i + e], row_of(l, r), column_of(l, r));", ""},
    {&kWgmma, "exchanges rows and columns of zero points",
     "subtract_zeros(out, sums[i + e], row_of(l, r), column_of(l, r));",
     "subtract_zeros(out, sums[i + e], column_of(l, r), row_of(l, r));"},
    {&kTensor, "takes the row's zero point", "*out.zero_a * out", "out.zero_a[row] * out"},
    {&kTensor, "forgets the batch's zero point", "(args.zero_a) + batch", "(args.zero_a)"},
    {&kGate, "takes the first factor's sums of B for both",
     "added_by_zero(out, row, second_factor(out, column))",
     "added_by_zero(out, row, first_factor(out, column))"},
    {&kGate, "counts half of a batch's sums of B", "(args.column_sums_b) + batch * 2 * args.n",
     "(args.column_sums_b) + batch * args.n"},
    {&kGate, "leaves the second factor as it is",
     "second = Acc(u32(second) - added_by_zero(out, row, second_factor(out, column)));", ""},
    {&kSummed, "forgets the zero points of reduced sums", "subtract_zeros(out, sum, row, column);",
     ""},
    {&kGroups, "takes the first rows' zero points for every group",
     "(args.zero_a) + first_row - group * rows", "(args.zero_a) - group * rows"},
    {&kMasked, "takes the zero points of rows that are not used",
     "(args.zero_a) + group * (args.m - rows)", "(args.zero_a)"},
    {&kMma, "takes the first column's scale for all of a word",
     "scaled(out, Real(word.sum[s]), row, column + e + s)",
     "scaled(out, Real(word.sum[s]), row, column)"},
    {&kMma, "takes the first column's sum of B for all of a word",
     "subtract_zeros(out, word.sum[s], row, column + e + s)",
     "subtract_zeros(out, word.sum[s], row, column)"},
    {&kSimt, "forgets the zero points", "subtract_zeros(out, sum, row, column);", ""},
    {&kSimt, "forgets the scales", "scaled(out, Real(sum), row, column)", "Real(sum)"},
    {&kGemv, "forgets the zero points", "subtract_zeros(out, sum, row, column);", ""},
    {&kMfma, "forgets the rows' scales", "x *= out.scale_a[row];", ""},
    {&kMfma, "takes the rows' scales for the columns", "x *= out.scale_b[column];",
     "x *= out.scale_b[row];"},
    {&kMfma, "forgets the zero points",
     "sum = Acc(u32(sum) - out.zero_a[row] * out.column_sums_b[column]);", ""},
    {&kMfma, "forgets the batch of the columns' sums", "(args.column_sums_b) + batch * args.n",
     "(args.column_sums_b)"},
};

TEST(IntegerScalesMutants, AreCaughtOnGpus) { test::expect_caught(kMutants); }

TEST(IntegerScalesMutants, UnchangedKernelsOfGpusAreClean) {
  test::expect_clean(
      {&kWgmma, &kTensor, &kGate, &kSummed, &kGroups, &kMasked, &kMma, &kSimt, &kGemv, &kMfma});
}

using CpuBase = test::HostBase;
using CpuMutant = test::HostMutant;

const CpuBase kPacked{"avx2", "int8 N T 13 29 60 batch=2 out=bf16 scale=line zero_a=line",
                      HostPacked{.isa = Isa::avx2, .mr = 2, .nv = 2, .kc = 16, .mc = 6, .nc = 16}};
const CpuBase kDot{"avx2", "u8s8 N T 5 11 70 batch=2 out=fp32 scale=tensor:line zero_a=tensor",
                   HostDot{.isa = Isa::avx2, .mr = 2, .nr = 4}};
const CpuBase kPair{
    "avx2", "int8 N T 5 11 70 batch=2 out=bf16 scale=line zero_a=line gate=silu:interleaved",
    HostDot{.isa = Isa::avx2, .mr = 1, .nr = 6}};
const CpuBase kStacked{"avx2",
                       "int8 N T 13 29 60 batch=2 out=bf16 scale=line zero_a=line gate=relu",
                       HostPacked{.isa = Isa::avx2, .mr = 2, .nv = 4, .kc = 16, .mc = 6, .nc = 16}};

const std::vector<CpuMutant> kCpuMutants{
    {&kPacked, "takes the first row's scale", "x *= out.scale_a[row];", "x *= out.scale_a[0];"},
    {&kPacked, "takes the first columns' scales", "load_first<L>(out.scale_b + column, columns)",
     "load_first<L>(out.scale_b, columns)"},
    {&kPacked, "takes the first columns' sums of B",
     "load_first<L>(out.column_sums_b + column, columns)",
     "load_first<L>(out.column_sums_b, columns)"},
    {&kPacked, "takes the first row's zero point", "zero = out.zero_a[row]",
     "zero = out.zero_a[0]"},
    {&kPacked, "adds the zero point", "(sum) - of_zero", "(sum) + of_zero"},
    {&kPacked, "forgets the batch of the rows' scales", "(args.scale_a) + batch * args.m",
     "(args.scale_a)"},
    {&kPacked, "forgets the batch of the columns' scales", "(args.scale_b) + batch * args.n",
     "(args.scale_b)"},
    {&kPacked, "forgets the batch of the zero points", "(args.zero_a) + batch * args.m",
     "(args.zero_a)"},
    {&kPacked, "forgets the batch of the columns' sums", "(args.column_sums_b) + batch * args.n",
     "(args.column_sums_b)"},
    {&kPacked, "scales before k ends",
     "if (!pass.last) return store_first<L>(out.partial.at(row, column), sum, columns);",
     "if (!pass.last) return store_first<L>(out.partial.at(row, column), "
     "__builtin_convertvector(scaled<L>(out, sum, row, column, columns), Vec<Acc, L>), columns);"},
    {&kDot, "takes the first batch's scale of A", "(args.scale_a) + batch", "(args.scale_a)"},
    {&kDot, "takes the first batch's zero point", "(args.zero_a) + batch", "(args.zero_a)"},
    {&kPair, "has one vector of columns for both",
     "scaled<L>(out, high, row, 2 * column + L, 2 * columns - L)",
     "scaled<L>(out, high, row, 2 * column, 2 * columns)"},
    {&kPair, "counts half of a batch's scales of B", "(args.scale_b) + batch * 2 * args.n",
     "(args.scale_b) + batch * args.n"},
    {&kStacked, "takes the first factor's columns twice",
     "scaled<L>(out, high, row, out.columns + column, columns)",
     "scaled<L>(out, high, row, column, columns)"},
    {&kStacked, "counts half of a batch's sums of B", "(args.column_sums_b) + batch * 2 * args.n",
     "(args.column_sums_b) + batch * args.n"},
};

TEST(IntegerScalesMutants, AreCaughtOnCpus) { test::expect_caught_on_host(kCpuMutants); }

TEST(IntegerScalesMutants, UnchangedKernelsOfCpusAreRight) {
  const std::vector<const CpuBase*> bases{&kPacked, &kDot, &kPair, &kStacked};
  test::expect_right_on_host(bases);
}

}  // namespace kiln::integer_scales_mutants_test
