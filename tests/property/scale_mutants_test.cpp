// Are the checks strict enough for scales? Bugs of the kind that only scales and packed codes can
// have are planted in rendered kernels, one at a time; every one must be caught, and the kernels as
// they are must pass.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "generator/families/cuda/wgmma/config.h"
#include "generator/families/hip/mx/config.h"
#include "support/emulated.h"

namespace kiln::scale_mutants_test {

constexpr std::uint64_t kOrders = 2;  // these bugs are none of timing

struct Base {
  const char* name;
  const char* arch;
  const char* shape;
  Config config;
};

const Base kMixed{"mixed", "gfx950", "e4m3e2m1 N T 70 90 544 batch=2 scale=mx32",
                  HipMx{.rows = 16,
                        .tile_m = 64,
                        .tile_n = 64,
                        .tile_k = 256,
                        .waves_m = 2,
                        .waves_n = 2,
                        .staging = Staging::twice}};
const Base kSixes{"sixes", "gfx950", "e2m3e5m2 N T 70 60 416 scale=mx32",
                  HipMx{.rows = 16,
                        .tile_m = 64,
                        .tile_n = 64,
                        .tile_k = 256,
                        .waves_m = 2,
                        .waves_n = 2,
                        .staging = Staging::single}};
const Base kBlocks{"blocks", "sm_90a", "fp8 N T 200 256 800 batch=2 align=16 scale=1x128:128x128",
                   CudaWgmma{.left = 128,
                             .right = 96,
                             .stages = 2,
                             .warpgroups = 2,
                             .sharing = Sharing::split,
                             .splits = 2,
                             .promote = true}};
const Base kTurned{"turned", "sm_90a", "fp8 N T 200 200 1024 align=16 scale=1x128:128x128",
                   CudaWgmma{.left = 128,
                             .right = 64,
                             .stages = 3,
                             .warpgroups = 2,
                             .promote = true,
                             .alternate = true}};
const Base kTall{
    "tall", "sm_90a", "fp8 N T 300 136 784 align=16 scale=1x128:128x128",
    CudaWgmma{.left = 256, .right = 128, .stages = 2, .warpgroups = 2, .promote = true}};
const Base kGate{"gate", "sm_90a", "fp8 N T 100 152 400 align=16 scale=1x128:128x128 gate=silu",
                 CudaWgmma{.left = 64, .right = 96, .stages = 3, .warpgroups = 1, .promote = true}};
const Base kTurns{
    "turns", "sm_90a", "fp8 N T 40 200 400 align=16 scale=1x128 gate=silu:interleaved",
    CudaWgmma{
        .left = 256, .right = 32, .stages = 3, .warpgroups = 2, .swap = true, .promote = true}};
const Base kSwapped{
    "swapped", "sm_90a", "fp8 N T 130 200 800 align=16 scale=1x128:128x128",
    CudaWgmma{
        .left = 64, .right = 64, .stages = 3, .warpgroups = 1, .swap = true, .promote = true}};
const Base kOrdered{"ordered", "sm_90a",
                    "fp8 N T 130 202 912 batch=2 align=16 scale=1x128 scale_order=blocks:blocks_4",
                    CudaWgmma{.left = 128,
                              .right = 96,
                              .stages = 2,
                              .warpgroups = 2,
                              .sharing = Sharing::split,
                              .splits = 2,
                              .promote = true}};
const Base kOrderedGate{
    "ordered_gate", "sm_90a",
    "fp8 N T 42 101 1200 align=16 scale=1x128 scale_order=blocks_4 gate=silu",
    CudaWgmma{
        .left = 256, .right = 32, .stages = 3, .warpgroups = 2, .swap = true, .promote = true}};
const Base kOrderedRows{
    "ordered_rows", "sm_90a",
    "fp8 N T 301 96 272 groups=5 grouped=rows align=16 scale=1x128 scale_order=blocks_4",
    CudaWgmma{.left = 64, .right = 96, .stages = 3, .warpgroups = 1, .promote = true}};
const Base kLines{
    "lines", "sm_90a", "fp8 N T 200 96 300 batch=2 align=1 scale=line numerics=fast",
    CudaWgmma{
        .left = 128, .right = 96, .stages = 3, .warpgroups = 2, .pack_a = true, .pack_b = true}};
const Base kWhole{
    "whole", "sm_90a", "fp8 N T 200 96 300 batch=2 align=1 scale=tensor numerics=fast",
    CudaWgmma{
        .left = 128, .right = 96, .stages = 3, .warpgroups = 2, .pack_a = true, .pack_b = true}};

struct Mutant {
  const Base* base;
  const char* name;
  const char* from;
  const char* to;
};

const std::vector<Mutant> kMutants{
    {&kMixed, "takes the first group's byte", "s * kGroupsOfK % 4 + group;", "s * kGroupsOfK % 4;"},
    {&kMixed, "takes the first step's word", "words[block][s * kGroupsOfK / 4]", "words[block][0]"},
    {&kMixed, "puts every step's byte in one place", "& 0xff) << (s * 8)", "& 0xff)"},
    {&kMixed, "selects the first byte of A's in every step", "Select, scale_a,", "0, scale_a,"},
    {&kMixed, "selects the first byte of B's in every step", "Select, scale_b)", "0, scale_b)"},
    {&kMixed, "exchanges the scales", "scale_b[j], scale_a[i])", "scale_a[i], scale_b[j])"},
    {&kMixed, "takes one row block's scales for all", "of_a[i] = scales.a.of_steps(i,",
     "of_a[i] = scales.a.of_steps(0,"},
    {&kMixed, "scales of A stay at the first stage", "from.a += kBlocksOfStage;", ";"},
    {&kMixed, "scales of B stay at the first stage", "from.b += kBlocksOfStage;", ";"},
    {&kMixed, "does not load the next stage's scales", "if (more) scales.load",
     "if (false) scales.load"},
    {&kMixed, "forgets the batch of A's scales", "(work.batch * args.m + row) * blocks",
     "row * blocks"},
    {&kMixed, "forgets the tile of B's scales", "(work.batch * args.n + column) * blocks",
     "(work.batch * args.n) * blocks"},
    {&kMixed, "reads the next row's scales beyond k", "if (i32(p) >= left) offset = kOutside;",
     ";"},
    {&kMixed, "exchanges the formats", "sums, kFormatA, kFormatB", "sums, kFormatB, kFormatA"},
    {&kMixed, "reads bytes as if 32 of them lay together", "(kGroupsOfK + group) * 16",
     "group * 16 + 16"},
    {&kMixed, "reads all lanes' nibbles from the first",
     "take(0, first + group * 16);\n    } else {", "take(0, first);\n    } else {"},
    {&kMixed, "forgets the batch's bytes", "args.stride_b * kBitsB / 8", "args.stride_b"},
    {&kMixed, "leaves out the second step", "if constexpr (Step + 1 < kSteps)",
     "if constexpr (false)"},
    {&kSixes, "takes codes of six bits from the wrong half", "half ? high[0] : low[2]", "low[2]"},
    {&kSixes, "starts at another unit", "first + begin / 16 * 16;", "first + group * 16;"},
    {&kSixes, "takes the neighbour's byte", "s * kGroupsOfK % 4 + group;",
     "s * kGroupsOfK % 4 + (group ^ 1);"},
    {&kBlocks, "scales of a piece begin at k = 0", "from[e] += work.begin;", ";"},
    {&kBlocks, "one scale for both rows", "kRows == 2 ? r / 2 % 2 : 0", "0"},
    {&kBlocks, "forgets the batch", "batch * ((lines + Lines - 1) / Lines)", "0"},
    {&kBlocks, "forgets the warp", "thread / 32 * 16 + thread % 32 / 4", "thread % 32 / 4"},
    {&kBlocks, "forgets the warpgroup", "int(row_offset) + s * 64", "s * 64"},
    {&kBlocks, "adds without scales", "part[s][r] * scales.of(s, r)", "part[s][r]"},
    {&kBlocks, "reads the scales of the place before", "StageScales::of(shared.scales + turn.stage",
     "StageScales::of(shared.scales + (turn.stage ^ 1)"},
    {&kSwapped, "repeats the first stages' scales",
     "if (from[e] != nullptr) from[e] += kScaleChunk;", ""},
    {&kBlocks, "brings scales to a place that is being read",
     "mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);\n        const u32 to",
     "const u32 to"},
    {&kBlocks, "does not wait for scales", "1 + kScaleWarps", "1"},
    {&kBlocks, "one square for all columns", "r / 4 * 8 / kRightShare", "0"},
    {&kSwapped, "exchanges the operands' scales", "if (right == kSwap)", "if (right != kSwap)"},
    {&kSwapped, "one column's scale for both", "r / 4 * 2 + r % 2", "r / 4 * 2"},
    {&kSwapped, "forgets the tile", "kSwap ? work.right * kRightTile", "kSwap ? 0"},
    {&kSwapped, "forgets the tile of B", "kSwap ? work.left * kLeftTile", "kSwap ? 0"},
    {&kTurned, "gives nobody the first turn",
     "if (group == 1) named_barrier_arrive(kTurnBarrier, 256);", ""},
    {&kTurned, "leaves out a step", "multiply_steps<3, 4>(", "multiply_steps<3, 3>("},
    {&kTurned, "reads four scales as one line's", "read_four_scales(to, from);",
     "read_four_scales(to, from + 1);"},
    {&kTall, "multiplies the first 64 rows twice", "((s * 64 * 128) >> 4)", "0"},
    {&kTall, "gives a place back too early", "if (s + 1 == kSubtiles) {", "if (s == 0) {"},
    {&kTall, "scales by the first rows'", "part[r] * scales.of(s, r)", "part[r] * scales.of(0, r)"},
    {&kGate, "takes the first factor's scales", "factor * args.n + j", "j"},
    {&kGate, "counts a factor's lines as both", "work.right) * (kTile / 2)", "work.right) * kTile"},
    {&kTurns, "takes the first factor's scales", "2 * j + factor", "2 * j"},
    {&kTurns, "takes one unit for all", "unit / 2 * kUnit + at % kUnit", "at % kUnit"},
    {&kOrdered, "scales of a part begin at k = 0", "u32(work.begin) * step_of_scale(args, index)",
     "0"},
    {&kOrdered, "steps to the next line", "from += step_of_scale(args, index);", "from += 1;"},
    {&kOrdered, "hands out the first stages' scales again",
     "ahead[e][j] = next_scale(args, first_index + e * kLanes, from[e],\n",
     "next_scale(args, first_index + e * kLanes, from[e],\n"},
    {&kOrdered, "brings scales to a place that is being read",
     "mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);\n        const u32 to",
     "const u32 to"},
    {&kOrdered, "exchanges the operands' steps", "return is_of_a(index) ? scale_step",
     "return !is_of_a(index) ? scale_step"},
    {&kOrdered, "forgets the batch", "batch * stages * scale_step<Unit>(lines)", "0"},
    {&kOrdered, "reads no padding of B's rows", "ceil_div(lines, Unit) * Unit", "lines"},
    {&kOrderedRows, "takes the first group's scales", "line += work.first_row;", ";"},
    {&kOrderedRows, "forgets the group's scales of B", "const i64 batch = work.batch;",
     "const i64 batch = 0;"},
    {&kOrderedGate, "counts one factor's lines", "lines_of_b = 2 * args.n;",
     "lines_of_b = args.n;"},
    {&kOrderedGate, "reads no padding", "ceil_div(lines, Unit) * Unit", "lines"},
    {&kOrderedGate, "scales of all stages are the first's", "from += step_of_scale(args, index);",
     ";"},
    {&kLines, "takes the row's scale for the column", "product(x, out.scale_b[column])",
     "product(x, out.scale_b[row])"},
    {&kLines, "forgets the batch of the rows' scales", "(args.scale_a) + batch * args.m",
     "(args.scale_a)"},
    {&kWhole, "takes the row's scale", "product(x, *out.scale_a)", "product(x, out.scale_a[row])"},
    {&kWhole, "forgets the batch of B's scale", "(args.scale_b) + batch", "(args.scale_b)"},
    {&kWhole, "forgets B's scale", "x = product(x, *out.scale_b);", ";"},
    {&kLines, "scales by columns alone", "if (row < out.rows) x = product(x, out.scale_a[row]);",
     ";"},
};

struct Bound {
  Gemm gemm;
  DeviceCaps device;
  Config config;
};

Bound bind(const Base& base) {
  Bound bound{parse_gemm(base.shape).value(), caps_named(base.arch).value(), base.config};
  bound.device.compute_units = 2;  // so that blocks take several tiles
  return bound;
}

/// Why the kernel is wrong, or nothing.
std::string caught(const Bound& b, const test::Emulated& kernel) {
  for (std::uint64_t order = 0; order < kOrders; ++order)
    if (const Verdict verdict = test::verify_emulated(b.gemm, kernel, order); !verdict)
      return verdict.error().detail;
  return "";
}

TEST(ScaleMutants, AreCaught) {
  std::string survivors;
  for (const Mutant& mutant : kMutants) {
    const std::string what = fmt::format("{}: {}", mutant.base->name, mutant.name);
    const Bound b = bind(*mutant.base);
    bool planted = false;
    const auto plant = [&](std::string& text) {
      const std::size_t at = text.find(mutant.from);
      if (at == std::string::npos) return;
      text.replace(at, std::string_view(mutant.from).size(), mutant.to);
      planted = true;
    };
    const auto kernel = test::emulated_kernel(b.gemm, b.device, b.config, plant);
    EXPECT_TRUE(planted) << what << ": the kernel has no such place";
    EXPECT_TRUE(kernel) << what << ": " << kernel.error().message;
    if (!planted || !kernel) continue;
    const std::string why = caught(b, *kernel);
    fmt::print("{:<60} {:.160}\n", what, why.empty() ? "SURVIVED" : why);
    if (why.empty()) survivors += "\n  " + what;
  }
  EXPECT_EQ(survivors, "") << "planted bugs that nothing caught";
}

TEST(ScaleMutants, UnchangedKernelsAreClean) {
  for (const Base* base : {&kMixed, &kSixes, &kBlocks, &kSwapped, &kTurned, &kTall, &kGate, &kTurns,
                           &kOrdered, &kOrderedGate, &kOrderedRows, &kLines}) {
    const Bound b = bind(*base);
    const auto kernel = test::emulated_kernel(b.gemm, b.device, b.config);
    ASSERT_TRUE(kernel) << base->name << ": " << kernel.error().message;
    EXPECT_EQ(caught(b, *kernel), "") << base->name;
  }
}

}  // namespace kiln::scale_mutants_test
