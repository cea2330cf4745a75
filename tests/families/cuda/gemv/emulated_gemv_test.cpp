// cuda_gemv on rows at any address: words that are aligned where rows are not. Odd pitches and
// offsets, rows shorter than a word, every size of element; what lies around an operand is NaN. And
// bugs planted in these kernels, each of which must be caught.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "generator/families/cuda/gemv/config.h"
#include "kiln/numeric.hpp"
#include "runtime/buffers.h"
#include "support/mutants.h"

namespace kiln::emulated_gemv_test {

using test::Base;
using test::Mutant;

struct Case {
  const char* arch;
  const char* line;
  CudaGemv config;
};

constexpr CudaGemv kMatrix{.rows = 16, .width = 0, .warps = 4, .matrix = true};

const Case kCases[] = {
    {"sm_90a", "bf16 N T 3 101 777 lda=779 ldb=781 align=2", {.rows = 2, .width = 0}},
    {"sm_90a", "bf16 N T 3 37 100 align=2", {.rows = 1, .width = 0}},
    {"sm_90a", "bf16 N T 1 37 1", {.rows = 1, .width = 0}},
    {"sm_90a", "bf16 T T 5 70 13 ldb=15 align=2", {.rows = 4, .width = 0, .warps = 8}},
    {"sm_90a",
     "fp16 N T 50 3 333 ldb=335 align=2 epilogue=bias_row+silu+residual",
     {.rows = 4, .width = 0, .swap = true}},
    {"sm_75", "fp16 N T 2 40 259 ldb=261 align=2 batch=3", {.rows = 1, .width = 0}},
    {"sm_75", "fp32 N T 1 41 3 ldb=5 align=4", {.rows = 4, .width = 0}},
    {"sm_90a", "fp32 N T 16 20 1501 ldb=1503 align=4", {.rows = 1, .width = 0}},
    {"sm_80",
     "fp64 N T 2 19 77 ldb=79 align=8 epilogue=bias_col+gelu_erf",
     {.rows = 2, .width = 0}},
    {"sm_80", "int8 N T 5 67 213 ldb=217 align=1", {.rows = 2, .width = 0}},
    {"sm_80",
     "int8 N N 70 4 90 lda=93 align=1 batch=2",
     {.rows = 1, .width = 0, .warps = 8, .swap = true}},
    {"sm_80", "u8s8 N T 2 33 5 ldb=7 align=1", {.rows = 4, .width = 0}},
    {"sm_90a", "fp8 N T 3 50 301 ldb=303 align=1 scale=line", {.rows = 2, .width = 0}},
    {"sm_89", "e4m3e5m2 T T 7 35 600 ldb=601 align=1", {.rows = 4, .width = 0}},
    {"sm_80", "tf32 N T 4 64 130 ldb=131 align=4", {.rows = 4, .width = 0}},
    // Room for more thin rows than there are.
    {"sm_90a", "bf16 N T 3 101 777 lda=779 ldb=781 align=2", {.rows = 2, .width = 0, .thin = 4}},
    {"sm_90a", "fp32 N T 9 20 1501 ldb=1503 align=4", {.rows = 1, .width = 0, .thin = 16}},
    {"sm_80",
     "int8 N N 70 5 90 lda=93 align=1 batch=2",
     {.rows = 1, .width = 0, .swap = true, .thin = 8}},
    {"sm_80", "bf16 T T 1 70 130 align=2", {.rows = 2, .width = 1, .thin = 2}},
    {"sm_90a",
     "bf16 N T 3 101 777 lda=779 ldb=781 align=2",
     {.rows = 16, .width = 0, .warps = 8, .matrix = true, .thin = 8}},
    {"sm_80",
     "fp16 T T 5 70 13 ldb=15 align=2 batch=2",
     {.rows = 16, .width = 0, .warps = 8, .matrix = true, .thin = 8}},
    // Matrix instructions.
    {"sm_90a", "bf16 N T 3 101 777 lda=779 ldb=781 align=2", kMatrix},
    {"sm_90a", "bf16 N T 8 300 100 align=2 batch=3", kMatrix},
    {"sm_80", "fp16 T T 5 70 13 ldb=15 align=2", kMatrix},
    {"sm_90a", "bf16 N T 1 37 8", kMatrix},
    {"sm_90a", "bf16 N T 2 5 15 ldb=16 align=2", kMatrix},
    {"sm_90a",
     "fp16 N T 150 3 333 ldb=335 align=2 epilogue=bias_row+silu+residual",
     {.rows = 16, .width = 0, .warps = 2, .swap = true, .matrix = true}},
    {"sm_90a", "bf16 N T 7 50 512 ldc=56 ldd=56 align=16", kMatrix},
    {"sm_90a",
     "bf16 N N 60 4 1200 lda=1208 ldb=8 ldc=8 ldd=8 align=16 out=fp32",
     {.rows = 16, .width = 0, .warps = 8, .swap = true, .matrix = true}},
};

TEST(ShiftedGemv, IsRightAtAnyAddress) {
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

/// A matrix of whole numbers whose first element stands `at` elements behind a 16-byte boundary;
/// all around it, and between its rows, is NaN.
struct Planted {
  std::vector<std::byte> memory;
  std::byte* data;

  Planted(DType type, const Matrix& m, std::int64_t rows, std::int64_t length, std::int64_t at)
      : memory(static_cast<std::size_t>((rows * m.ld + 64) * size_of(type) + 16)) {
    poison(type, memory);
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    data = memory.data() + (16 - address % 16) % 16 + at * size_of(type);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < length; ++i)
        store_element(type, data, r * m.ld + i, number(r, i));
  }
  static double number(std::int64_t r, std::int64_t i) { return double((r * 5 + i * 3) % 7 - 3); }
};

void expect_kept_out(bool by_matrix) {
  constexpr std::int64_t kThin = 3, kWide = 21;
  for (const auto& [word, k, pitch] :
       {std::tuple{"bf16", 1, 1}, std::tuple{"bf16", 5, 7}, std::tuple{"bf16", 8, 8},
        std::tuple{"bf16", 9, 11}, std::tuple{"bf16", 29, 31}, std::tuple{"fp32", 6, 7}}) {
    const Gemm gemm = parse_gemm(fmt::format("{} N T {} {} {} ldb={} out=fp32 align={}", word,
                                             kThin, kWide, k, pitch, word[0] == 'b' ? 2 : 4))
                          .value();
    if (by_matrix && (gemm.b.dtype != bf16 || k < 8)) continue;
    const auto kernel = test::emulated_kernel(
        gemm, caps_named("sm_90a").value(), by_matrix ? kMatrix : CudaGemv{.rows = 2, .width = 0});
    ASSERT_TRUE(kernel) << text(gemm) << ": " << kernel.error().message;
    const Problem problem = Problem::of(gemm).value();
    const std::int64_t each = 16 / size_of(gemm.b.dtype);
    for (std::int64_t at = 0; at < each; ++at) {
      const Planted a(gemm.a.dtype, problem.gemm.a, kThin, k, (at * 3 + 1) % each);
      const Planted b(gemm.b.dtype, problem.gemm.b, kWide, k, at);
      std::vector<float> d(static_cast<std::size_t>(kThin * kWide), -1);
      const Status ran = kernel->call(problem, {.a = a.data, .b = b.data, .d = d.data()},
                                      static_cast<std::uint64_t>(at));
      ASSERT_TRUE(ran) << text(gemm) << ": " << ran.error().message;
      for (std::int64_t i = 0; i < kThin; ++i)
        for (std::int64_t j = 0; j < kWide; ++j) {
          double sum = 0;
          for (std::int64_t e = 0; e < k; ++e) sum += Planted::number(i, e) * Planted::number(j, e);
          ASSERT_EQ(double(d[static_cast<std::size_t>(i * kWide + j)]), sum)
              << text(gemm) << ", B " << at << " behind a word's begin: row " << i << ", column "
              << j;
        }
    }
  }
}

TEST(ShiftedGemv, KeepsOutWhatLiesAround) { expect_kept_out(false); }
TEST(MatrixGemv, KeepsOutWhatLiesAround) { expect_kept_out(true); }

const Base kShifted{"shifted", "sm_90a", "bf16 N T 3 70 777 ldb=779 align=2",
                    CudaGemv{.rows = 2, .width = 0}};
const Base kPanels{"panels", "sm_90a", "fp32 N T 16 20 1501 ldb=1503 align=4",
                   CudaGemv{.rows = 1, .width = 0}};

const Base kByMatrix{"matrix", "sm_90a", "bf16 N T 3 70 777 lda=779 ldb=779 align=2", kMatrix};

const Base kRoom{"room", "sm_90a", "bf16 N T 3 70 777 ldb=779 align=2",
                 CudaGemv{.rows = 2, .width = 0, .thin = 4}};
const Base kMatrixRoom{"matrix_room", "sm_90a", "bf16 N T 3 70 776 lda=779 ldb=779 align=2",
                       CudaGemv{.rows = 16, .width = 0, .warps = 8, .matrix = true, .thin = 8}};

const std::vector<Mutant> kMutants{
    {&kShifted, "shifts the thin operand by an element too few",
     "lay_out(panel, thin, thin_count, head,", "lay_out(panel, thin, thin_count, head + 1,"},
    {&kShifted, "reads words that begin where rows do", "(rows[r] + head)", "(rows[r])"},
    {&kShifted, "reads the word beside the one that is meant", "(rows[r] + head)[at]",
     "(rows[r] + head)[at ^ 1]"},
    {&kShifted, "reads a word too few", "at < end ?", "at + 1 < end ?"},
    {&kShifted, "multiplies a word too many", "i + a * 32 < end)", "i + a * 32 <= end)"},
    {&kShifted, "forgets what stands before the words", "i64(lane) : lane + i64(words)",
     "i64(lane) + i64(words) : lane + i64(words)"},
    {&kShifted, "takes an element behind a row", "lane < head + tail &&", "lane <= head + tail &&"},
    {&kShifted, "forgets a row's last element", "lane < head + tail &&",
     "lane + 1 < head + tail &&"},
    {&kShifted, "takes rows that begin elsewhere in a word", "block % kEach +",
     "block % (kEach / 2) +"},
    {&kShifted, "multiplies before the thin operand is there", "  __syncthreads();\n", "\n"},
    {&kShifted, "gives a lane its neighbour's sums", "upper ? heap[i] : heap[i + kHalf]",
     "upper ? heap[i + kHalf] : heap[i]"},
    {&kShifted, "stores a row beyond the last", "t < thin_count && row < wide_rows",
     "t < thin_count"},
    {&kPanels, "fills a panel that is still being read", "    __syncthreads();\n", "\n"},
    {&kPanels, "multiplies before the next panel is there", "    __syncthreads();\n", "\n", 1},
    {&kPanels, "lays out the first panel again", "head + i64(word0) * kEach", "head"},
    {&kPanels, "fetches the same words again", "word0 + i + 32 * kAhead;", "word0 + i;"},
    {&kRoom, "stores a row that is not there", "t < thin_count && row < wide_rows",
     "row < wide_rows"},
    {&kMatrixRoom, "stores a row that is not there", "i < 16 * thin_count", "i < 16 * kThin"},
    {&kByMatrix, "shifts the thin operand by an element too few",
     "element_at(head, i / kThin + 1, 0)", "element_at(head, i / kThin + 1, 1)"},
    {&kByMatrix, "multiplies by the next word", "at < words, at + 1)", "at < words, at + 2)"},
    {&kByMatrix, "reads a word too many", "first + s * 4 < words", "first + s * 4 <= words"},
    {&kByMatrix, "forgets what stands before the words", "t < 2, t * (words + 1)",
     "t < 2, words + 1"},
    {&kByMatrix, "takes wide elements beyond a row", "if (row < 16 && at >= 0 && at < k)",
     "if (row < 16 && at >= 0)"},
    {&kByMatrix, "takes thin elements before a row", "2 * rows + 2 && at >= 0 && at < k",
     "2 * rows + 2 && at < k"},
    {&kByMatrix, "takes rows that begin elsewhere in a word", "block % kClasses +",
     "block % (kClasses / 2) +"},
    {&kByMatrix, "multiplies before the thin operand is there", "  __syncthreads();\n", "\n"},
    {&kByMatrix, "adds parts before they are there", "  __syncthreads();\n", "\n", 1},
    {&kByMatrix, "forgets a warp's part", "for (int w = 1; w < kWarps",
     "for (int w = 2; w < kWarps"},
    {&kByMatrix, "exchanges rows g and g + 8", "{wide_row(g), wide_row(g + 8)}",
     "{wide_row(g + 8), wide_row(g)}"},
    {&kByMatrix, "stores a row beyond the last", "if (there < wide_rows)",
     "if (there < wide_rows + 16)"},
};

TEST(ShiftedGemvMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(ShiftedGemvMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kShifted, &kPanels, &kByMatrix, &kRoom, &kMatrixRoom});
}

}  // namespace kiln::emulated_gemv_test
