// Are the checks strict enough for weights? Bugs of decoding, of scales and of zero points are
// planted in rendered kernels, one at a time; every one must be caught. None writes anything but
// elements of D, since the kernels run in this process.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "generator/families/cpu/weights/config.h"
#include "generator/render/render.h"
#include "generator/space/space.h"
#include "support/attempt.h"
#include "support/compiled.h"
#include "tuner/verify/verify.h"

namespace kiln::weights_mutants_test {

struct Base {
  const char* cpu;
  const char* shape;
  HostWeights config;
};

const Base kShort{"avx2", "bf16_int4 N T 3 9 352 batch=2 group=32 scale_type=fp16 zero=float",
                  HostWeights{.isa = Isa::avx2, .mr = 2, .nr = 2}};
const Base kPacked{"avx2", "fp16_uint4 N T 2 7 192 batch=3 group=64 scale_type=bf16 zero=int",
                   HostWeights{.isa = Isa::avx2, .mr = 2, .nr = 2}};
const Base kTable{"avx512", "bf16_uint4 N T 2 7 384 group=128 zero=int",
                  HostWeights{.isa = Isa::avx512, .mr = 2, .nr = 4}};
const Base kPairs{"avx512_bf16", "bf16_int4 N T 2 7 384 group=128 zero=int",
                  HostWeights{.isa = Isa::avx512, .pairs = true, .mr = 2, .nr = 4}};

const Base kFloats{"avx2", "bf16_fp8 N T 2 150 384 batch=2 group=128x128",
                   HostWeights{.isa = Isa::avx2, .mr = 2, .nr = 2}};
const Base kMx{"avx2", "bf16_fp4 N T 3 9 352 batch=2 group=mx32",
               HostWeights{.isa = Isa::avx2, .mr = 2, .nr = 2}};
const Base kShifted{"portable", "fp16_fp4 N T 2 7 224 group=mx32",
                    HostWeights{.isa = Isa::portable, .mr = 2, .nr = 2}};
const Base kGate{"avx2", "bf16_int4 N T 3 37 352 batch=2 group=32 gate=silu epilogue=bias_col",
                 HostWeights{.isa = Isa::avx2, .mr = 2, .nr = 4}};
const Base kAlternating{"avx2", "fp16_uint4 N T 2 7 192 group=64 zero=int gate=silu:interleaved",
                        HostWeights{.isa = Isa::avx2, .mr = 1, .nr = 6}};
const Base kGatedSquares{"avx2", "bf16_fp8 N T 2 70 384 batch=2 group=128x128 gate=silu",
                         HostWeights{.isa = Isa::avx2, .mr = 2, .nr = 2}};

struct Mutant {
  const Base* base;
  const char* name;
  const char* from;
  const char* to;
};

const std::vector<Mutant> kMutants{
    {&kShort, "takes codes for unsigned", "using Codes = Vec<i32, kLanes>",
     "using Codes = Vec<u32, kLanes>"},
    {&kShort, "exchanges the halves of a byte", "kCodeBits * (J + 1)", "kCodeBits * ((J ^ 1) + 1)"},
    {&kShort, "one group's scale for the whole chunk", "I * kGroupsOfChunk / kLanes", "I * 0"},
    {&kShort, "forgets the batch of scales", "(batch * args.n + j + at) * groups",
     "(j + at) * groups"},
    {&kShort, "ignores the zero points", "b -= zero;", ";"},
    {&kShort, "ignores the tail of k", "if (k % kChunk)", "if (false)"},
    {&kShort, "reads the tail's scales from the first chunk", "step(whole, [&]", "step(0, [&]"},
    {&kShort, "arranges A in order", "I * kSlices + J", "J * kLanes + I"},
    {&kShort, "puts rows of A in the wrong place", "+ row % kMr;", ";"},
    {&kShort, "adds sums without scales", "fused(part[i], scale, acc[i][j])",
     "part[i] + acc[i][j]"},
    {&kPacked, "reads zero points from whole bytes", "const i64 at = first + g;",
     "const i64 at = 2 * (first / 2) + g;"},
    {&kPacked, "takes the other half of a zero point's byte", "(at % 2 * 4)", "(4 - at % 2 * 4)"},
    {&kPacked, "takes the first column's scales", "scales + at * padded", "scales"},
    {&kTable, "forgets the zero point in the table", "numbers_of_codes(Iota<kLanes>{}) - zero",
     "numbers_of_codes(Iota<kLanes>{})"},
    {&kTable, "the next group's scale", "numbers[chunk / (kGroupK / kChunk)]",
     "numbers[chunk ? 0 : 1]"},
    {&kPairs, "rounds numbers to powers of two", "float(value)) >> 16)",
     "float(value)) >> 16 & 0xff80)"},
    {&kPairs, "takes the zero point for unsigned", "code_value(zero));", "zero);"},
    {&kFloats, "forgets the sign of a float", "0x87f00000u", "0x07f00000u"},
    {&kFloats, "has another bias", "0x1p120f", "0x1p119f"},
    {&kFloats, "takes the floats of a lane from behind", "24 - J * kCodeBits", "J * kCodeBits"},
    {&kFloats, "counts a NaN as a number", "with_nans(of_chunk(from[j].scales, chunk), codes)",
     "of_chunk(from[j].scales, chunk)"},
    {&kFloats, "takes the largest number for a NaN", "0x01010101u", "0x02020202u"},
    {&kFloats, "forgets the batch of squares", "batch * lines", "0 * lines"},
    {&kFloats, "scales a square by the one beside", "(j + at) / kGroupColumns",
     "(j + at + 1) / kGroupColumns"},
    {&kMx, "forgets the denormal", "(code & 1) * 2", "0"},
    {&kMx, "forgets the sign of a float", "(top & i32(0x80000000u))", "(top & 0)"},
    {&kMx, "takes the halves of a lane from behind", "28 - J * kCodeBits", "J * kCodeBits"},
    {&kMx, "takes four bits for an index", "top >> 28", "top >> 29"},
    {&kMx, "has another bias of scales", "code << 23", "(code + 1u) << 23"},
    {&kMx, "takes a scale of NaN for an infinity", "Vec<u32, L>(0x00400000u)", "Vec<u32, L>(0u)"},
    {&kMx, "forgets the batch of scales", "(batch * args.n + j + at) * groups",
     "(j + at) * groups"},
    {&kShifted, "forgets that zero has an exponent", "__builtin_elementwise_min(x, x + (x - 1.0f))",
     "x"},
    {&kShifted, "has another bias", "0x01c00000) + 0x3f000000", "0x01c00000) + 0x3e800000"},
    {&kGate, "reads one factor twice", "factor * args.n + j / 2", "j / 2"},
    {&kGate, "counts half of a batch's scales", "(batch * 2 * args.n + of_b)",
     "(batch * args.n + of_b)"},
    {&kGate, "scales the second factor by the scales of the first", "at = factor * kColumns + int",
     "at = int"},
    {&kGate, "takes the factors for each other", "silu(acc0) * acc1", "silu(acc1) * acc0"},
    {&kGate, "ends where D's columns do", "columns = {2 * columns.begin, 2 * columns.end}",
     "columns = {2 * columns.begin, columns.end}"},
    {&kAlternating, "does not separate the factors", "separate(first, second, Iota<L>{});", ""},
    {&kAlternating, "has the vectors of either factor full", "constexpr int kApart = kFinishLanes;",
     "constexpr int kApart = kColumns;"},
    {&kAlternating, "takes the columns of the factors for each other", "of_b = j + at;",
     "of_b = j + (at ^ 1);"},
    {&kGatedSquares, "counts half of a batch's squares", "(2 * args.n + kGroupColumns - 1)",
     "(args.n + kGroupColumns - 1)"},
    {&kPairs, "shifts by the wrong slice", "codes >> (J * kCodeBits)", "codes >> (J / 2 * 8)"},
};

/// Why a kernel is wrong, or nothing. Fails the test where it does not compile.
std::string caught(const Base& base, const Mutant* mutant) {
  const auto device = test::runnable(base.cpu, 1);
  const Gemm gemm = parse_gemm(base.shape).value();
  auto source = render(Problem::of(gemm).value(), *device, base.config);
  EXPECT_TRUE(source) << source.error().message;
  if (mutant != nullptr) {
    const std::size_t at = source->text.find(mutant->from);
    EXPECT_NE(at, std::string::npos) << mutant->name << ": the kernel has no such place";
    if (at != std::string::npos)
      source->text.replace(at, std::string_view(mutant->from).size(), mutant->to);
  }
  const auto binary = host_compiler().value()->compile(*source);
  EXPECT_TRUE(binary) << (mutant ? mutant->name : base.shape) << ": " << binary.error().message;
  if (!binary) return "";
  BoundKernel kernel(HostKernel::load(binary->image).value(), base.config, gemm, *device);
  auto verifier = Verifier::make(gemm, {.seed = 2, .effort = Effort::full});
  const auto verdict =
      verifier->check([&](const Operands& operands) { return kernel.run(operands); },
                      flushed_by(gemm, *device, base.config));
  return verdict ? "" : verdict.error().detail;
}

TEST(WeightsMutants, AreCaught) {
  test::Attempt attempt;
  std::string survivors;
  for (const Mutant& mutant : kMutants) {
    if (!test::runnable(mutant.base->cpu, 1)) continue;
    attempt.at(mutant.name);
    if (caught(*mutant.base, &mutant).empty()) survivors += fmt::format("\n  {}", mutant.name);
  }
  EXPECT_EQ(survivors, "") << "planted bugs that nothing caught";
}

TEST(WeightsMutants, UnchangedKernelsAreClean) {
  for (const Base* base : {&kShort, &kPacked, &kTable, &kPairs, &kFloats, &kMx, &kShifted, &kGate,
                           &kAlternating, &kGatedSquares})
    if (test::runnable(base->cpu, 1)) {
      EXPECT_EQ(caught(*base, nullptr), "") << base->shape;
    }
}

}  // namespace kiln::weights_mutants_test
