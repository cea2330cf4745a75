// cuda_gemv_n: lines at any address, k divided or not, fewer rows than there is room for; bugs
// planted in its kernel, each of which must be caught.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "generator/families/cuda/gemv_n/config.h"
#include "support/mutants.h"

namespace kiln::emulated_gemv_n_test {

using test::Base;
using test::Mutant;

struct Case {
  const char* arch;
  const char* line;
  CudaGemvN config;
};

const Case kCases[] = {
    {"sm_90a", "bf16 N N 3 301 777 lda=779 ldb=303 align=2", {.thin = 4, .splits = 3}},
    {"sm_90a", "bf16 N N 1 37 1", {.thin = 1, .ahead = 2}},
    {"sm_90a", "bf16 T N 5 70 13 ldb=75 align=2", {.thin = 8, .ahead = 3, .splits = 4}},
    {"sm_90a", "bf16 N N 2 3 50", {.thin = 2}},
    {"sm_80",
     "fp16 T N 300 3 97 lda=303 align=2 epilogue=bias_row+silu+residual",
     {.thin = 4, .splits = 2, .swap = true}},
    {"sm_75", "fp16 N N 2 40 259 ldb=41 align=2 batch=3", {.thin = 2, .splits = 5}},
    {"sm_75", "fp32 N N 1 41 3 ldb=43 align=4 batch=2", {.thin = 1, .warps = 4, .ahead = 1}},
    {"sm_90a", "fp32 N N 16 20 1101 ldb=21 align=4", {.thin = 16, .ahead = 2}},
    {"sm_80",
     "fp64 N N 2 79 77 align=8 epilogue=bias_col+gelu_erf",
     {.thin = 2, .warps = 2, .splits = 2}},
    {"sm_80",
     "int8 N N 3 667 83 ldb=669 align=1",
     {.thin = 4, .warps = 16, .ahead = 2, .splits = 3}},
    {"sm_80", "u8s8 N N 2 33 5 ldb=37 align=1", {.thin = 2, .warps = 16}},
    {"sm_90a",
     "fp8 N N 3 550 101 align=1 scale=line",
     {.thin = 4, .warps = 16, .ahead = 1, .splits = 2}},
    {"sm_89", "e4m3e5m2 N N 4 35 600 align=1", {.thin = 4, .warps = 16, .ahead = 2}},
    {"sm_80", "tf32 N N 4 64 130 align=16", {.thin = 4, .warps = 4, .splits = 2}},
    // Matrix instructions.
    {"sm_90a",
     "bf16 N N 3 301 777 lda=779 ldb=303 align=2",
     {.thin = 4, .ahead = 1, .words = 2, .splits = 3, .matrix = true}},
    {"sm_90a", "bf16 N N 1 37 1", {.thin = 1, .ahead = 2, .matrix = true}},
    {"sm_90a", "bf16 N N 2 3 50", {.thin = 2, .ahead = 1, .matrix = true}},
    {"sm_80",
     "fp16 T N 5 700 333 ldb=701 align=2 batch=2",
     {.thin = 8, .ahead = 1, .words = 4, .splits = 2, .matrix = true}},
    {"sm_80",
     "fp16 T N 300 13 297 lda=303 align=2 epilogue=bias_row+silu+residual",
     {.thin = 16, .ahead = 1, .words = 1, .matrix = true, .swap = true}},
    {"sm_90a",
     "bf16 N N 16 512 1100 align=16 out=fp32",
     {.thin = 16, .ahead = 1, .words = 2, .matrix = true}},
};

TEST(GemvN, IsRightAtAnyAddress) {
  for (const Case& c : kCases) {
    const Gemm gemm = parse_gemm(c.line).value();
    const DeviceCaps device = caps_named(c.arch).value();
    const std::string what = fmt::format("{} {} | {}", c.arch, c.line, text(Config(c.config)));
    const auto kernel = test::emulated_kernel(gemm, device, c.config);
    ASSERT_TRUE(kernel) << what << ": " << kernel.error().message;
    for (const std::uint64_t order : {0, 5}) {
      const Verdict verdict = test::verify_emulated(gemm, *kernel, order);
      EXPECT_TRUE(verdict) << what << " | order " << order << ": "
                           << (verdict ? "" : verdict.error().detail);
    }
  }
}

const Base kWhole{"whole", "sm_90a", "bf16 N N 3 301 333 lda=335 ldb=303 align=2",
                  CudaGemvN{.thin = 4, .ahead = 2}};
const Base kSplit{"split", "sm_90a", "bf16 N N 3 301 777 lda=779 ldb=303 align=2",
                  CudaGemvN{.thin = 4, .ahead = 2, .splits = 3}};
const Base kMatrix{"matrix", "sm_90a", "bf16 N N 11 301 777 lda=779 ldb=303 align=2",
                   CudaGemvN{.thin = 16, .ahead = 1, .words = 2, .matrix = true}};

const std::vector<Mutant> kMutants{
    {&kWhole, "takes lines for aligned", "wide.offset_of(first + int(threadIdx.x) / 32)", "0"},
    {&kWhole, "leaves columns where warps have them", "i + wide.offset_of(first + w)", "i"},
    {&kWhole, "reads words behind the operand", "word < end ?", "true ?"},
    {&kWhole, "forgets the words at the ends", "if (at_ends) sums.mend", "if (false) sums.mend"},
    {&kWhole, "forgets the word at the end", "if (at == wide.end) word = words[1];", ""},
    {&kMatrix, "forgets the word at the end", "if (at == wide.end) word = words[1];", ""},
    {&kWhole, "takes tiles as wide as what it reads", "kAligned ? kColumns : kColumns - kEach",
     "kColumns"},
    {&kWhole, "takes another line's thin elements", "thin.at(t, k0 + line)",
     "thin.at(t, k0 + line / 2)"},
    {&kWhole, "multiplies before the thin rows are there", "    __syncthreads();\n", "\n"},
    {&kWhole, "overwrites a panel that is still read", "    __syncthreads();\n", "\n", 1},
    {&kWhole, "fetches the same lines again", "k0 + line + kTurn, last", "k0 + line, last"},
    {&kWhole, "leaves the last panel's rows in the rest of a turn", "t < rows && line < lines ?",
     "t < rows ?"},
    {&kWhole, "adds sums before they are there", "    __syncthreads();\n", "\n", 2},
    {&kWhole, "forgets a warp's sums", "for (int w = 0; w < kWarps", "for (int w = 1; w < kWarps"},
    {&kWhole, "stores columns beyond the last", "if (column >= columns) continue;", ""},
    {&kSplit, "multiplies lines of the next part", "min(args.k, first + lines)", "args.k"},
    {&kSplit, "adds parts that are not there", "if (!is_last) return;", ""},
    {&kSplit, "leaves the counter as it is", "if (all) *counter = 0;", ""},
    {&kSplit, "forgets a part", "for (int s = 1; s < kSplits", "for (int s = 2; s < kSplits"},
    {&kSplit, "stores a part where another one is", "(i64(split) * kThin + t)",
     "(i64(split / 2) * kThin + t)"},
    {&kMatrix, "pairs elements of other lines", "__byte_perm(line0, line1, 0x5410)",
     "__byte_perm(line0, line2, 0x5410)"},
    {&kMatrix, "exchanges two columns", "{__byte_perm(line0, line1, 0x5410), ",
     "{__byte_perm(line0, line1, 0x7632), "},
    {&kMatrix, "takes the thin rows' elements of the next lines", "lane % 4 * 4;",
     "(lane + 1) % 4 * 4;"},
    {&kMatrix, "takes the second tile's thin rows from the first",
     "n * kInstructionRows + lane / 4", "lane / 4"},
    {&kMatrix, "reads the first word twice", "at + v * 128", "at"},
    {&kMatrix, "stores another thin row", "e * 2 + t % 2", "e * 2"},
};

TEST(GemvNMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(GemvNMutants, UnchangedKernelsAreClean) { test::expect_clean({&kWhole, &kSplit, &kMatrix}); }

}  // namespace kiln::emulated_gemv_n_test
