// Matrices that an expression reads and the copy engine brings (bring=1), without a GPU: drawn
// configs, and mistakes in what is copied and in when it is read, planted one at a time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "generator/families/cuda/wgmma/config.h"
#include "generator/space/space.h"
#include "support/mutants.h"
#include "support/seed.h"
#include "support/space.h"

namespace kiln::wgmma_bring_mutants_test {

using test::Base;
using test::Mutant;

/// Two parts of each 64 rows, of two matrices of different types and orders.
const Base kRing{"bring_ring", "sm_90a",
                 "bf16 N T 328 264 456 align=16 epilogue=d=acc*r[m,n]+s[n,m]:fp32",
                 CudaWgmma{.left = 256, .right = 128, .stages = 3, .bring = true}};
const Base kSwapped{
    "bring_swapped", "sm_90a", "bf16 N T 200 328 456 align=16 epilogue=d=acc*r[m,n]+s[n,m]:fp32",
    CudaWgmma{
        .left = 256, .right = 96, .stages = 3, .swap = true, .cluster_right = 2, .bring = true}};
/// Several tiles of each warpgroup, and of a batch.
const Base kPingpong{
    "bring_pingpong", "sm_90a",
    "bf16 N T 328 264 456 batch=2 align=16 epilogue=d=acc*r[batch,m,n]+s[m,n]:fp32",
    CudaWgmma{.left = 128, .right = 64, .stages = 4, .pingpong = true, .bring = true}, 1};
const Base kRows{"bring_rows", "sm_90a",
                 "bf16 N T 300 136 128 groups=3 grouped=rows align=16 epilogue=d=gelu(acc)*r[m,n]",
                 CudaWgmma{.left = 128, .right = 128, .stages = 3, .bring = true}};
/// The matrix ends where its page does, and so begins at no multiple of 16 bytes.
const Base kAnywhere{"bring_anywhere", "sm_90a",
                     "bf16 N T 200 250 128 ldd=256 align=16 epilogue=d=gelu(acc)*r[m,n]:ld=256",
                     CudaWgmma{.left = 128, .right = 128, .stages = 3, .bring = true}};
/// The first matrix is read behind the reductions alone, and does not come.
const Base kBehind{"bring_behind", "sm_90a",
                   "bf16 N T 136 128 128 align=16 epilogue=d=z[m,n]*max[m](acc*r[m,n])",
                   CudaWgmma{.left = 128, .right = 128, .stages = 3, .bring = true}};
const Base kGated{"bring_gated", "sm_90a",
                  "bf16 N T 200 136 128 gate=silu epilogue=residual align=16",
                  CudaWgmma{.left = 128, .right = 128, .stages = 3, .bring = true}};

const std::vector<Mutant> kMutants{
    {&kRing, "waits for less than is copied", "mbarrier_expect(barrier, kRegions * kBroughtBytes);",
     "mbarrier_expect(barrier, kRegions * kBroughtBytes - 128);"},
    {&kRing, "copies the first part again", "part % kPartsOf64 * kPartRight;", "0;"},
    {&kRing, "copies the first 64 rows again", "+ region * kLeftOfGroup + part / kPartsOf64 * 64;",
     "+ region * kLeftOfGroup;"},
    {&kRing, "copies the first warpgroup's rows for all",
     "+ region * kLeftOfGroup + part / kPartsOf64 * 64;", "+ part / kPartsOf64 * 64;"},
    {&kRing, "copies the first box again", "const int along = box * (Lines::kBox / Lines::kSize);",
     "const int along = 0;"},
    {&kRing, "takes columns for rows", "kOfRow ? row : column, batch, kBroughtHint",
     "row, batch, kBroughtHint"},
    {&kRing, "reads the first warpgroup's part", "+ group * kBroughtBytes;", ";"},
    {&kRing, "reads the first matrix's part for the second",
     "part += Brought<Bfloat, true>::kBytes;", ";"},
    {&kRing, "reads another unit of 16 bytes", "byte % Lines::kBox / 16, Lines::kBox)",
     "byte % Lines::kBox / 16 ^ 1, Lines::kBox)"},
    {&kRing, "reads the turn before's columns",
     "turn % kTurnsOfPart * (kHeld * 2) + lane % 4 * 2);", "lane % 4 * 2);"},
    {&kRing, "reads a part before it is there",
     "    mbarrier_wait(shared.full + turn.stage * 8, turn.parity);\n    part =", "    part ="},
    {&kRing, "keeps a part's place",
     "    release(shared.empty + turn.stage * 8, lane);\n    turn.step();", "    turn.step();"},
    {&kRing, "gives a place back before all lanes have read it",
     "    __syncwarp();\n    release(shared.empty", "    release(shared.empty"},
    {&kRing, "fills a place that is still read",
     "    mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);\n    const u32 barrier = "
     "shared.full + turn.stage * 8;\n    u32 to",
     "    const u32 barrier = shared.full + turn.stage * 8;\n    u32 to"},
    {&kSwapped, "takes left rows for rows of D", "first_row + (kSwap ? right : left)",
     "first_row + left"},
    {&kSwapped, "reads its neighbour's row twice",
     "place_in<Brought<Bfloat, true>>(part, left, right + 1)",
     "place_in<Brought<Bfloat, true>>(part, left, right)"},
    {&kPingpong, "forgets the batch", "maps.x0, left, right, first_row, batch)",
     "maps.x0, left, right, first_row, 0)"},
    {&kPingpong, "fills a part that the other warpgroup reads",
     "    mbarrier_wait(shared.parts_empty + turn.place * 8, turn.parity ^ 1);\n", ""},
    {&kPingpong, "tells the other warpgroup", "(turn.parity * kParts + turn.place) * 8;",
     "((turn.parity ^ 1) * kParts + turn.place) * 8;"},
    {&kPingpong, "reads a part before it is there",
     "    mbarrier_wait(shared.parts_full + (group * kParts + turn.place) * 8, turn.parity);\n",
     ""},
    {&kPingpong, "never gives a part back",
     "    if (lane == 0) mbarrier_arrive(shared.parts_empty + turn.place * 8);\n", ""},
    {&kPingpong, "brings every other tile's", "if (i == max(0, work.count - 1 - kStages))",
     "if (i == 0 && parts.parity == 0)"},
    {&kRows, "takes the first group's rows", "const int first_row = work.first_row, batch = 0;",
     "const int first_row = 0, batch = 0;"},
    {&kAnywhere, "brings what begins anywhere", "return (reinterpret_cast<u64>(from) & 15) == 0;",
     "return true;"},
    {&kGated, "takes B's columns for D's", "constexpr int kRightOfTile = kRightTile / 2;",
     "constexpr int kRightOfTile = kRightTile / 2 + 8;"},
};

TEST(BringMutants, AreCaught) { test::expect_caught(kMutants); }

TEST(BringMutants, UnchangedKernelsAreClean) {
  test::expect_clean({&kRing, &kSwapped, &kPingpong, &kRows, &kAnywhere, &kBehind, &kGated});
}

TEST(Brought, DrawnConfigsAreRight) {
  constexpr std::array kEpilogues{"residual",
                                  "epilogue=d=gelu(acc+b[n])*r[m,n];q[m]=sum(acc*r[m,n])",
                                  "epilogue=d=acc+r[n,m]:fp32*s[m,n]:fp16",
                                  "gate=silu epilogue=residual",
                                  "epilogue=y[m,n]:fp16=acc*r[m,n];d=acc+s[m,n]*t[m,n]",
                                  "epilogue=d=z[m,n]*max[m](acc*r[m,n])-s[m,n]"};
  const int configs = 6 * test::thorough();
  DeviceCaps device = caps_named("sm_90a").value();
  device.compute_units = 4;  // few: persistent blocks then take several tiles each
  const std::uint64_t seed = test::seed_of_run();
  RecordProperty("seed", fmt::format("{}", seed));
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  int drawn = 0;
  for (int proven = 0; proven < configs; ++proven) {
    const std::string epilogue = kEpilogues[below(kEpilogues.size())];
    const std::string line = fmt::format(
        "bf16 N T {} {} {} align=16 {}{}", 1 + below(400), 8 * (1 + below(40)), 8 * (1 + below(40)),
        epilogue.find('=') == std::string::npos ? "epilogue=" : "", epilogue);
    const auto gemm = parse_gemm(line);
    ASSERT_TRUE(gemm) << line << ": " << gemm.error().message;
    const auto space = test::space_of(*gemm, device);
    ASSERT_TRUE(space) << line;
    std::vector<Config> mine;
    for (const Config& config : space->legal)
      if (const auto c = config.if_is<CudaWgmma>(); c && c->bring) mine.push_back(config);
    if (mine.empty()) continue;  // column-major matrices of such an m, or tiles of few columns
    ++drawn;
    const Config& config = mine[below(mine.size())];
    const std::string what = fmt::format("KILN_SEED={}: {} | {}", seed, line, text(config));
    const auto kernel = test::emulated_kernel(*gemm, device, config);
    ASSERT_TRUE(kernel) << what << ": " << kernel.error().message;
    const Verdict verdict = test::verify_emulated(*gemm, *kernel, proven % 4 == 0 ? 0 : seed + 1);
    EXPECT_TRUE(verdict) << what << ": " << (verdict ? "" : verdict.error().detail);
  }
  EXPECT_GE(drawn, configs / 2);
}

}  // namespace kiln::wgmma_bring_mutants_test
