// Ranking for AMD GPUs that are not here: the static model's sense, the records it leaves, and what
// a search makes of them.
#include "cache/exchange/offline.h"

#include <SQLiteCpp/Database.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/layers/schema.h"
#include "cache/records/maintenance.h"
#include "cache/records/measurements.h"
#include "cache/records/winners.h"
#include "generator/families/hip/mfma/config.h"
#include "generator/families/hip/simt/config.h"
#include "generator/render/render.h"
#include "support/fake_evaluator.h"
#include "support/hip.h"
#include "support/stored.h"
#include "support/temp_dir.h"
#include "tuner/search/search.h"

namespace kiln::offline_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const DeviceCaps kCard = hip_caps_named("mi300x").value();
const Gemm kBig = test::problem("bf16 N T 8192 8192 8192 align=16");
const HipMfma kGood{.rows = 16,
                    .k = 16,
                    .tile_m = 256,
                    .tile_n = 256,
                    .depth = 64,
                    .waves_m = 2,
                    .waves_n = 4,
                    .staging = Staging::single,
                    .banks = Banks::by_pair,
                    .chunk = 16,
                    .group = 4};

hip::CodeObject code_with(int registers, int spills = 0) {
  hip::KernelResources kernel{.name = "kiln_gemm",
                              .vector_registers = registers,
                              .vector_spills = spills,
                              .shared_bytes = 32768,
                              .max_threads = 512,
                              .wave = 64};
  return {.target = "amdgcn-amd-amdhsa--gfx942", .code_bytes = 9000, .kernels = {kernel}};
}

std::vector<hip::LoopCounts> loop_with(int matrix, int vector) {
  return {{".LBB0_1",
           {.total = matrix + vector + 20, .matrix = matrix, .vector = vector, .barriers = 2}}};
}

HipForecast of(const HipMfma& config, const std::vector<hip::LoopCounts>& loops,
               int registers = 200) {
  const auto f = forecast(Problem::of(kBig).value(), kCard, config, code_with(registers), loops);
  EXPECT_TRUE(f) << (f ? "" : f.error().message);
  return f.value_or(HipForecast{});
}

TEST(HipModel, AGoodKernelIsBoundByTheMatrixUnits) {
  const HipForecast f = of(kGood, loop_with(64, 20));
  EXPECT_GT(f.peak_share, 0.9);
  EXPECT_LE(f.peak_share, 0.9401) << "the best that was published";
  EXPECT_EQ(f.conflicts, 0);
  // A busy MI300X holds 1.207 GHz in bf16.
  EXPECT_NEAR(f.ghz, 1.22, 0.02);
  // 2·8192³ at 304 units · 2048 · 2.1 GHz is 841 us.
  const double least = 841e3 * 2.1 / f.ghz;
  EXPECT_GT(f.ns, least);
  // 1024 tiles on 304 units: the last round of four is a third full.
  EXPECT_LT(f.ns, least * 4 / (1024.0 / 304) * 1.1);
  EXPECT_NEAR(f.flops_share, 841e3 / f.ns, 0.01);
}

TEST(HipModel, WaitsThatNoProductsCoverCost) {
  using enum hip::Wait::For;
  HipMfma lonely = kGood;
  lonely.tile_m = lonely.tile_n = 128;
  lonely.waves_m = lonely.waves_n = 2;
  const auto with = [&](hip::Wait wait) {
    auto loops = loop_with(32, 20);
    loops[0].waits = {wait};
    return of(lonely, loops, 400);  // so many registers that one block is alone
  };
  const HipForecast none = with({shared, 0, 8, 32, 0});
  const HipForecast reads = with({shared, 0, 8, 0, 0}), loads = with({memory, 0, 8, 2, 0});
  ASSERT_EQ(none.resident, 1);
  EXPECT_EQ(with({memory, 0, 8, 64, 0}).exposed, none.exposed);
  EXPECT_NEAR(reads.exposed - none.exposed, 128, 1);
  EXPECT_NEAR(loads.exposed - none.exposed, 800 - 2 * 16, 1);
  EXPECT_LT(loads.peak_share, reads.peak_share);
  EXPECT_GT(loads.ghz, none.ghz) << "who waits draws less power";
  // Other waves of the SIMD multiply meanwhile.
  auto waiting = loop_with(32, 20), busy = waiting;
  waiting[0].waits = {{memory, 0, 8, 2, 0}};
  const double hidden = of(lonely, waiting, 120).exposed - of(lonely, busy, 120).exposed;
  EXPECT_GT(hidden, 0);
  EXPECT_LT(hidden, 0.7 * (800 - 2 * 16));
}

/// What others measured: AMD's "Measuring Max-Achievable FLOPs - Part 2" for MI300X and MI325X,
/// and the squares that are published for MI355X.
TEST(RankOffline, ClaimsWhatPublishedKernelsReach) {
  if (!host_compiler()) return;
  struct Anchor {
    const char *card, *shape;
    double tflops;
  };
  for (const Anchor& a : {Anchor{"mi300x", "bf16 N T 4096 4864 32896 align=16", 708},
                          {"mi325x", "bf16 N T 4096 4864 32896 align=16", 843},
                          {"mi300x", "fp8fnuz N T 4096 3648 32896 align=16", 1273},
                          {"mi355x", "bf16 N T 8192 8192 8192 align=16", 1610},
                          {"mi355x", "fp8 N T 8192 8192 8192 align=16", 3327}}) {
    const DeviceCaps device = hip_caps_named(a.card).value();
    const Gemm gemm = test::problem(a.shape);
    const auto ranked =
        rank_offline(gemm, device, *compiler_for(device).value(), {.candidates = 8});
    ASSERT_TRUE(ranked) << ranked.error().message;
    const auto& best = ranked->at(0).forecast;
    ASSERT_TRUE(best) << best.error().message;
    const double tflops = gemm.flops() / best->ns / 1e3;
    std::printf("%s %s: %.0f TFLOP/s predicted, %.0f published, %.1f %% busy, %.2f GHz\n", a.card,
                a.shape, tflops, a.tflops, 100 * best->peak_share, best->ghz);
    EXPECT_LT(tflops, 1.15 * a.tflops) << a.card << ' ' << a.shape;
    EXPECT_GT(tflops, 0.80 * a.tflops) << a.card << ' ' << a.shape;
    EXPECT_LT(best->flops_share, 0.70) << a.card << ' ' << a.shape;
  }
}

TEST(HipModel, EveryWasteCosts) {
  const HipForecast good = of(kGood, loop_with(64, 20));
  const HipForecast busy = of(kGood, loop_with(64, 1000));
  EXPECT_GT(busy.issue, busy.matrix);
  EXPECT_LT(busy.peak_share, 0.6);
  HipMfma plain = kGood;
  plain.banks = Banks::plain;
  const HipForecast conflicts = of(plain, loop_with(64, 20));
  EXPECT_GT(conflicts.conflicts, 0);
  EXPECT_GT(conflicts.shared, good.shared);
  // What chiplets bring in for themselves hangs on who gets which tile; memory is read once.
  HipMfma dealt = kGood;
  dealt.chunk = 0;
  EXPECT_NE(of(dealt, loop_with(64, 20)).fill_bytes, good.fill_bytes);
  EXPECT_EQ(of(dealt, loop_with(64, 20)).memory_bytes, good.memory_bytes);
  EXPECT_GT(good.fill_bytes, good.memory_bytes);
  EXPECT_GT(good.l2_bytes, good.fill_bytes);
  HipMfma lonely = kGood;
  lonely.tile_m = lonely.tile_n = 128;
  lonely.waves_m = lonely.waves_n = 2;
  EXPECT_GT(of(lonely, loop_with(32, 20), 400).exposed, good.exposed);
  EXPECT_GT(of(kGood, loop_with(64, 20), 120).occupancy, of(kGood, loop_with(64, 20)).occupancy);
}

TEST(HipModel, WhatCannotRunWellIsRefusedWithAReason) {
  const auto refusal = [](const hip::CodeObject& code, const std::vector<hip::LoopCounts>& loops) {
    const auto f = forecast(Problem::of(kBig).value(), kCard, kGood, code, loops);
    return f ? std::string() : f.error().message;
  };
  EXPECT_THAT(refusal(code_with(256, 7), loop_with(64, 20)), HasSubstr("7 registers spilled"));
  EXPECT_THAT(refusal(code_with(512), loop_with(64, 20)), HasSubstr("not even one block"));
  EXPECT_THAT(refusal(code_with(200), {}), HasSubstr("no loop"));
  EXPECT_THAT(refusal({}, {}), HasSubstr("no kernel"));
}

TEST(RankOffline, IsForAmdsTargets) {
  const auto compiler = host_compiler();
  if (!compiler) return;
  const auto ranked = rank_offline(kBig, cuda_caps_named("sm_90a").value(), **compiler, {});
  ASSERT_FALSE(ranked);
  EXPECT_EQ(ranked.error().code, ErrorCode::unsupported);
}

TEST(RankOffline, PredictionsAreStoredApartAndFound) {
  const auto compiler = compiler_for(kCard);
  if (!compiler) return;
  const Gemm gemm = test::problem("bf16 N T 256 256 512 align=16");
  const auto store = Store::open({}).value();
  const auto ranked = tune_offline(*store, gemm, kCard, **compiler, {.candidates = 4});
  ASSERT_TRUE(ranked) << ranked.error().message;
  ASSERT_THAT(*ranked, SizeIs(4));
  for (std::size_t i = 1; i < ranked->size(); ++i) {
    ASSERT_TRUE((*ranked)[i].forecast) << (*ranked)[i].forecast.error().message;
    EXPECT_LE((*ranked)[i - 1].forecast->ns, (*ranked)[i].forecast->ns);
  }

  const auto record = predicted_record(*store, kCard, gemm);
  ASSERT_TRUE(record);
  EXPECT_TRUE(is_predicted(record->key));
  EXPECT_EQ(record->measured.config, ranked->front().config);
  EXPECT_EQ(record->measured.timing().samples, 0);
  EXPECT_TRUE(record->measured.verified) << "proved on the emulator";
  EXPECT_EQ(record->image, ranked->front().binary->image);

  // The card itself, asking for what was measured, finds none of it.
  BestKey measured = predicted_key(kCard, gemm);
  measured.policy = "hip-cold-v1";
  EXPECT_FALSE(store->winners().best(measured, record->validators));
  EXPECT_THAT(store->measurements().known(measured, record->validators), IsEmpty());
  EXPECT_THAT(store->winners().tuned_like(measured, record->validators), IsEmpty());

  // What runs elsewhere under a name of its own is still a gfx942.
  DeviceCaps real = kCard;
  real.model = "AMD Instinct MI300X OAM";
  real.ghz = 2.0;
  EXPECT_EQ(predicted_configs(*store, real, gemm, 1).at(0), ranked->front().config);
  real.arch = "gfx950";
  EXPECT_THAT(predicted_configs(*store, real, gemm, 8), IsEmpty());
  EXPECT_THAT(predicted_configs(*store, kCard, kBig, 8), IsEmpty());
}

/// What the big squares come to on the targets that matter, by the model.
TEST(RankOffline, BigSquaresAreBoundByTheMatrixUnits) {
  if (!host_compiler()) return;
  for (const auto& [card, type] : {std::pair{"mi300x", "bf16"},
                                   {"mi300x", "fp8fnuz"},
                                   {"mi355x", "bf16"},
                                   {"mi355x", "fp8"}}) {
    const DeviceCaps device = hip_caps_named(card).value();
    const Gemm gemm = test::problem(std::string(type) + " N T 8192 8192 8192 align=16");
    const auto ranked =
        rank_offline(gemm, device, *compiler_for(device).value(), {.candidates = 3});
    ASSERT_TRUE(ranked) << ranked.error().message;
    const auto& best = ranked->at(0).forecast;
    ASSERT_TRUE(best) << best.error().message;  // spilled registers would have refused it
    EXPECT_GE(best->peak_share, 0.85) << card << ' ' << type;
    EXPECT_LT(best->flops_share, 0.70) << card << ' ' << type;
    EXPECT_EQ(best->conflicts, 0) << card << ' ' << type;
    EXPECT_GE(best->matrix, best->issue) << card << ' ' << type;
    EXPECT_GE(best->matrix, std::max(best->fill, best->memory)) << card << ' ' << type;
    if (gemm.a.dtype == bf16) {
      EXPECT_LT(best->others_per_matrix, 2) << card;
    }
  }
}

TEST(Predictions, FilesOfEveryOlderSchemaTakeThem) {
  const Gemm gemm = test::problem("fp32 N N 64 64 64");
  for (std::size_t steps = 1; steps < migrations().size(); ++steps) {
    const TempDir dir;
    const std::filesystem::path file = dir / "old.db";
    {
      SQLite::Database db(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
      ASSERT_TRUE(migrate(db, "old", migrations().first(steps)));
    }
    const auto store = test::open_store(file);
    const BestKey key = predicted_key(kCard, gemm);
    const Validators made_by{.template_hash = template_hash(Vendor::amd), .compiler = "clang"};
    Ranked one{.config = HipSimt{}};
    one.forecast = HipForecast{.ns = 5000};
    ASSERT_TRUE(store->measurements().put(key, made_by, predicted_row(one, "key")));
    ASSERT_TRUE(store->winners().make_winner(key, made_by, one.config));
    const auto record = predicted_record(*store, kCard, gemm);
    ASSERT_TRUE(record) << "schema " << steps;
    EXPECT_EQ(record->measured.timing().median_ns, 5000);
    EXPECT_TRUE(store->maintenance().check(false).value().ok());
  }
}

TEST(Search, TriesWhatWasPredictedFirst) {
  const Gemm gemm = test::problem("bf16 N T 256 256 512 align=16");
  const auto worst = test::ranked<HipSimt>(gemm, kCard);
  ASSERT_GE(worst.size(), 3u);
  SearchInput input{.gemm = gemm, .device = kCard};
  input.first = {worst[worst.size() - 1], worst[worst.size() - 2]};
  test::FakeEvaluator evaluator(input);
  const auto result = search(input, evaluator);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->measured.at(0).config, input.first[0]);
  EXPECT_EQ(result->measured.at(1).config, input.first[1]);
  EXPECT_GT(result->measured.size(), 4u);
  EXPECT_NE(result->measured.at(*result->winner).config, input.first[0]) << "first, not favoured";
}

}  // namespace kiln::offline_test
