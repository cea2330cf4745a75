// The largest magnitude of D on NVIDIA's GPUs, without one: mistakes in what counts, when the word
// is cleared and how lanes join, planted one at a time in each family that finds it.
#include <gtest/gtest.h>

#include <vector>

#include "generator/families/cuda/mma/config.h"
#include "generator/families/cuda/simt/config.h"
#include "generator/families/cuda/weights/config.h"
#include "generator/families/cuda/wgmma/config.h"
#include "support/mutants.h"

namespace kiln::amax_mutants_test {

using test::Base;
using test::Mutant;

const Base kSimt{
    "amax_simt", "sm_80", "fp32 N N 37 45 20 batch=2 epilogue=bias_col amax=1",
    CudaSimt{.block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4}};
const Base kStaged{
    "amax_staged", "sm_80", "fp32 N N 37 45 20 epilogue=gelu+residual amax=1",
    CudaSimt{.block_m = 32, .block_n = 32, .block_k = 8, .thread_m = 4, .thread_n = 4}};
const Base kMma{
    "amax_mma", "sm_80",
    "bf16 N T 70 70 64 groups=3 grouped=rows epilogue=bias_col align=16 amax=1",
    CudaMma{.block_m = 64, .block_n = 64, .block_k = 64, .warps_m = 2, .warps_n = 2, .stages = 2}};
const Base kCodes{"amax_codes", "sm_90a",
                  "bf16 N T 70 70 64 out=fp8_e4m3 scale_d=tensor align=16 amax=1",
                  CudaWgmma{.left = 64, .right = 64, .stages = 3, .warpgroups = 1}};
const Base kWgmma{"amax_wgmma", "sm_90a", "bf16 N T 150 90 200 epilogue=relu align=16 amax=1",
                  CudaWgmma{.left = 128, .right = 96, .stages = 3, .warpgroups = 2}};
// Columns that do not exist have the row's bias, which is larger than the element in some of the
// runs.
const Base kLoneMma{
    "amax_lone_mma", "sm_80", "bf16 N T 1 1 16 epilogue=bias_row align=16 amax=1",
    CudaMma{.block_m = 64, .block_n = 64, .block_k = 64, .warps_m = 2, .warps_n = 2, .stages = 2}};
const Base kLoneWgmma{"amax_lone_wgmma", "sm_90a",
                      "bf16 N T 1 1 16 epilogue=bias_row align=16 amax=1",
                      CudaWgmma{.left = 64, .right = 64, .stages = 3, .warpgroups = 1}};
const Base kRows{"amax_rows", "sm_90a", "bf16 N T 300 90 104 groups=4 grouped=rows align=16 amax=1",
                 CudaWgmma{.left = 64, .right = 64, .stages = 3, .warpgroups = 1}};
const Base kSummed{"amax_summed", "sm_90a",
                   "bf16 N T 60 90 800 batch=2 epilogue=residual align=16 amax=1",
                   CudaWgmma{.left = 64,
                             .right = 96,
                             .stages = 3,
                             .warpgroups = 1,
                             .sharing = Sharing::summed,
                             .splits = 3}};
const Base kMasked{"amax_masked", "sm_90a",
                   "bf16 N T 150 90 104 groups=4 grouped=masked gate=silu align=16 amax=1",
                   CudaWgmma{.left = 64, .right = 64, .stages = 3, .warpgroups = 1}};
const Base kWeights{"amax_weights", "sm_80",
                    "bf16_int4 N T 21 75 512 group=128 epilogue=bias_col lda=520 ldb=544 ldc=80 "
                    "ldd=80 align=16 amax=1",
                    CudaWeights{.tile_n = 64, .tile_m = 16, .warps = 2, .stages = 3}};

const char* const kRaise = "raise_amax(out.amax, out.largest);";

const std::vector<Mutant> kMutants{
    {&kSimt, "does not clear the word", "*static_cast<u32*>(args.amax_d) = 0;", ""},
    {&kSimt, "takes the value for its magnitude", "& 0x7fffffffu", ""},
    {&kSimt, "joins half of the lanes", "int apart = 16;", "int apart = 8;"},
    {&kSimt, "leaves out the last lanes", "apart > 0; apart /= 2", "apart > 1; apart /= 2"},
    {&kSimt, "stores where others raise", "atomicMax(amax, largest);", "*amax = largest;"},
    {&kSimt, "keeps the last value", "return max(largest, ", "return max(u32(0), "},
    {&kSimt, "begins with what was there", "out.largest = 0;", ""},
    {&kSimt, "never raises", kRaise, ""},
    {&kStaged, "never raises", kRaise, ""},
    {&kStaged, "drops the residual", "larger_magnitude(out.largest, x)",
     "larger_magnitude(out.largest, x - to_real(out.x0[row * out.ldd + column]))"},
    {&kMma, "never raises", kRaise, ""},
    {&kLoneMma, "counts columns that do not exist", "if (e + s < columns) out.largest",
     "out.largest"},
    {&kMma, "raises from another lane", "threadIdx.x % 32 == 0", "threadIdx.x == 0"},
    {&kLoneWgmma, "counts columns that do not exist",
     "if (row_of(l, r) < out.rows && column_of(l, r) < out.columns)\n      out.largest",
     "if (row_of(l, r) < out.rows)\n      out.largest"},
    {&kRows, "counts rows of the next group",
     "if (row_of(l, r) < out.rows && column_of(l, r) < out.columns)\n      out.largest",
     "if (column_of(l, r) < out.columns)\n      out.largest"},
    {&kWgmma, "never raises", kRaise, ""},
    {&kMasked, "never raises", kRaise, ""},
    {&kCodes, "never raises", kRaise, "", 1},
    {&kSummed, "never raises", kRaise, ""},
    {&kSummed, "drops the residual", "larger_magnitude(out.largest, x)",
     "larger_magnitude(out.largest, x - to_real(out.x0[row * out.ldd + column]))"},
    {&kWeights, "never raises", kRaise, ""},
    {&kWeights, "counts before the bias", "larger_magnitude(out.largest, y)",
     "larger_magnitude(out.largest, y - out.x0[column + e + s])"},
};

TEST(AmaxMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(AmaxMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kSimt, &kStaged, &kMma, &kCodes, &kLoneMma, &kLoneWgmma, &kWgmma, &kRows,
                      &kSummed, &kMasked, &kWeights});
}

}  // namespace kiln::amax_mutants_test
