// Determinism::batch_invariant: its order follows from no m, its space has no other, and rows have
// the same bits through the front door.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "cache/keys.h"
#include "cache/records/measurements.h"
#include "cache/records/winners.h"
#include "engine/engine_impl.h"
#include "generator/families/cpu/packed/config.h"
#include "generator/problem/spelling.h"
#include "generator/space/family.h"
#include "generator/space/summation.h"
#include "kiln/kiln.h"
#include "runtime/cpu/cpu.h"
#include "support/fake_evaluator.h"
#include "support/family_samples.h"
#include "support/rows.h"
#include "support/temp_dir.h"

namespace kiln::invariant_test {

using test::Rows;
using testing::HasSubstr;
using testing::Not;

Gemm problem(std::string_view line) { return parse_gemm(line).value(); }

std::string order_of(std::string_view line, std::string_view device, std::string_view config) {
  return summation(Problem::of(problem(line)).value(), caps_named(device).value(),
                   parse_config(config).value());
}

TEST(Summation, IsKnownOfEveryFamilyThatRenders) {
  for (const auto& sample : test::kFamilySamples) {
    const bool by_place = std::string_view(sample.family) == "cuda_gemv";
    EXPECT_EQ(order_of(sample.shape, sample.device, sample.config).empty(), by_place)
        << sample.family;
  }
  for (const Family& family : families())
    EXPECT_EQ(family.summation == nullptr, family.files.empty()) << family.name;
}

TEST(Summation, NamesBlocksOfKOnlyWhereTheyEndWithinK) {
  const std::string config =
      "host_packed isa=avx2 mr=4 nv=3 kc=64 mc=96 nc=768 pack_a=1 pack_b=1 inner=rows "
      "parallel=none unroll=1 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0";
  EXPECT_EQ(order_of("fp32 N N 33 40 64", "avx2", config), "vfmadd231ps chain");
  EXPECT_EQ(order_of("fp32 N N 33 40 65", "avx2", config), "vfmadd231ps chain kc=64");
  EXPECT_EQ(order_of("int8 N N 33 40 65", "avx2", config), "exact");
}

TEST(Summation, OfHostSmallIsThatOfOneBlock) {
  EXPECT_EQ(order_of("fp32 N N 13 24 9", "avx2",
                     "host_small isa=avx2 bytes=32 mr=4 nv=2 unroll=1 parallel=none"),
            "vfmadd231ps chain");
}

/// Of configs that several m allow.
TEST(Summation, FollowsFromNoM) {
  for (const char* name : {"avx2", "amx", "sm_80", "sm_90a", "gfx942"}) {
    DeviceCaps device = caps_named(name).value();
    if (device.vendor == Vendor::cpu) device.compute_units = 2;
    for (const char* line : {"fp32 N T 40 96 700 order=column", "bf16 N T 40 72 640"}) {
      const auto space = space_for(Problem::of(problem(line)).value(), device).value();
      for (const std::int64_t m : {1, 700}) {
        Gemm other = problem(line);
        other.m = m;
        const Problem low = Problem::of(other).value();
        int compared = 0;
        for (std::size_t i = 0; i < space.legal.size(); i += 1 + space.legal.size() / 500) {
          const Config& config = space.legal[i];
          if (!broken_rule(low, device, config).empty()) continue;
          EXPECT_EQ(summation(space.problem, device, config), summation(low, device, config))
              << name << ": " << text(other) << " | " << text(config);
          ++compared;
        }
        EXPECT_GT(compared, 20) << name << ": " << text(other);
      }
    }
  }
}

constexpr const char* kDevices[] = {"portable", "avx2",   "avx512", "avx512_bf16", "amx",
                                    "aarch64",  "sm_75",  "sm_80",  "sm_89",       "sm_90a",
                                    "gfx90a",   "gfx942", "gfx950", "gfx1100"};
constexpr const char* kShapes[] = {"fp32 N N 1 96 700",
                                   "fp32 N T 1 96 700 order=column",
                                   "fp64 T N 1 40 90",
                                   "fp16 N T 1 128 512 epilogue=bias_col+gelu",
                                   "bf16 T N 1 72 640 out=fp32 order=rcrr",
                                   "int8 N T 1 64 256"};

TEST(InvariantOrder, FollowsFromNoRowsPitchesOrAlignment) {
  for (const char* name : kDevices) {
    const DeviceCaps device = caps_named(name).value();
    for (const char* line : kShapes) {
      const std::string order = invariant_summation(problem(line), device);
      EXPECT_FALSE(order.empty()) << name << ": " << line;
      for (const std::int64_t m : {2, 17, 64, 4096}) {
        Gemm gemm = problem(line);
        gemm.m = m;
        if (m == 64) gemm.alignment = kUsualAlignment;
        if (m == 17)
          for (Matrix* matrix : gemm.matrices()) matrix->ld = 8192;
        EXPECT_EQ(invariant_summation(gemm, device), order) << name << ": " << text(gemm);
      }
    }
  }
}

TEST(InvariantOrder, IsThatOfTheMostCapableFamily) {
  const auto order = [](std::string_view line, std::string_view device) {
    return invariant_summation(problem(line), caps_named(device).value());
  };
  EXPECT_EQ(order("fp32 N N 9 96 700", "avx512"), "vfmadd231ps chain kc=256");
  EXPECT_EQ(order("fp32 N N 9 96 200", "avx512"), "vfmadd231ps chain");
  EXPECT_EQ(order("bf16 N N 9 96 700", "avx512_bf16"), "vdpbf16ps chain kc=512");
  EXPECT_EQ(order("bf16 N N 9 96 700", "amx"), "tdpbf16ps chain");
  EXPECT_EQ(order("bf16 N N 9 96 700", "sm_90a"), "wgmma chain");
  EXPECT_EQ(order("fp8 N T 9 96 704", "sm_90a"), "wgmma chain, each 128 k added");
  EXPECT_EQ(order("bf16 N N 9 96 700", "sm_80"), "mma k16 chain");
  EXPECT_EQ(order("fp32 N N 9 96 700", "sm_90a"), "fma chain");
  EXPECT_EQ(order("fp32 N N 9 96 700 numerics=tensor", "sm_90a"),
            "wgmma chain of halves, A's low ones first, each 64 k added");
  EXPECT_EQ(order("fp32 N N 9 96 700 numerics=tensor", "amx"),
            "tdpbf16ps chain of thirds, A's on the left");
  EXPECT_EQ(order("bf16 N T 9 96 704", "gfx942"), "mfma 16x16x16 chain");
  EXPECT_EQ(order("fp4 N T 9 96 704 scale=mx32", "gfx950"), "scaled mfma 16x16 chain");
  EXPECT_EQ(order("int8 N N 9 96 700", "avx512"), "exact");
  // No family computes it: the reference kernel serves every m.
  EXPECT_EQ(order("fp8 N T 9 96 704", "avx512"), "");
}

TEST(InvariantSpace, HasThatOrderAloneAndIsEmptyForNoM) {
  for (const char* name : {"avx512_bf16", "amx", "sm_80", "sm_90a", "gfx942"}) {
    const DeviceCaps device = caps_named(name).value();
    for (const char* line : {"fp32 N T 1 96 700", "bf16 N N 1 72 640"}) {
      const std::string order = invariant_summation(problem(line), device);
      for (const std::int64_t m : {1, 5, 65, 600}) {
        Gemm gemm = problem(line);
        gemm.m = m;
        const auto space =
            space_for(Problem::of(gemm).value(), device, Determinism::batch_invariant);
        ASSERT_TRUE(space) << name << ": " << space.error().message;
        for (const Config& config : space->legal)
          ASSERT_EQ(summation(space->problem, device, config), order) << text(config);
        EXPECT_GT(space->rejected.at("sums in the order of class batch_invariant"), 0);
      }
    }
  }
}

/// An engine of the class, which tunes without measuring.
struct Opened {
  explicit Opened(int threads, Determinism determinism = Determinism::batch_invariant) {
    auto opened = Engine::open({.database = dir / "kiln.db",
                                .determinism = determinism,
                                .threads = threads,
                                .on_untuned = [](const std::string&) {}});
    if (!opened) throw std::runtime_error(opened.error().message);
    engine.emplace(std::move(*opened));
    engine->impl().tuning.make_evaluator = test::fake_bench;
  }
  Engine* operator->() { return &*engine; }

  TempDir dir;
  std::optional<Engine> engine;
};

struct Front {
  const char* line;  // of one row
  int threads;
  bool range;
};

class Invariant : public testing::TestWithParam<Front> {};

TEST_P(Invariant, RowsHaveTheSameBitsWhateverMIs) {
  const auto& [line, threads, range] = GetParam();
  if (detect_cpu()->compute_units < threads) GTEST_SKIP() << "one core";
  const Gemm one = problem(line);
  Opened kiln(threads);
  const auto run_of = [&](const Gemm& gemm) {
    return [&kiln, gemm](const Operands& operands) { return kiln->gemm(gemm, operands); };
  };
  constexpr std::int64_t kTall = 61;
  const Gemm tall = test::with_rows(one, kTall);
  Rows all(tall);
  ASSERT_TRUE(all.run(run_of(tall)));  // untuned
  const auto same = [&](std::int64_t m, std::int64_t first) {
    const Gemm low = test::with_rows(one, m);
    Rows some = all.part(low, first);
    const Status ran = some.run(run_of(low));
    ASSERT_TRUE(ran) << ran.error().message;
    const auto found = some.difference(all, first);
    EXPECT_FALSE(found) << kiln->plan(low)->config() << " against " << kiln->plan(tall)->config()
                        << ": " << *found;
  };
  same(1, 60);
  for (const std::int64_t m : {1, 6, 37}) {
    const auto report = kiln->tune(test::with_rows(one, m));
    ASSERT_TRUE(report) << report.error().message;
    same(m, kTall - m);
    EXPECT_TRUE(kiln->tune(test::with_rows(one, m))->already_tuned);
  }
  if (range) {
    const auto report = kiln->tune(one.with_m(8, 40));
    ASSERT_TRUE(report) << report.error().message;
    for (const std::int64_t m : {8, 13, 27, 40}) same(m, 3);
    EXPECT_TRUE(is_tuned(kiln->plan(test::with_rows(one, 27))->match()));
  }
  same(59, 2);  // by a stored kernel
}

INSTANTIATE_TEST_SUITE_P(
    Problems, Invariant,
    testing::Values(Front{"fp32 N N 1 70 700", 1, true}, Front{"fp32 N T 1 70 700", 2, false},
                    Front{"fp64 T N 1 33 300 order=column", 1, false},
                    Front{"bf16 N T 1 64 1100", 2, true}, Front{"int8 N N 1 48 300", 2, false},
                    Front{"fp16 N N 1 40 600 epilogue=bias_row+gelu+residual", 1, false},
                    Front{"fp32 N N 1 24 60 batch=2", 2, false}),
    [](const auto& info) { return fmt::format("Row{}", info.index); });

/// Types of no family are the plain loop's at every m.
TEST(InvariantEngine, LeavesTypesOfNoFamilyToThePlainLoop) {
  const Gemm tall = problem("fp8 N T 9 20 64"), low = problem("fp8 N T 2 20 64");
  Opened kiln(1);
  Rows all(tall);
  ASSERT_TRUE(all.run([&](const Operands& operands) { return kiln->gemm(tall, operands); }));
  Rows some = all.part(low, 5);
  ASSERT_TRUE(some.run([&](const Operands& operands) { return kiln->gemm(low, operands); }));
  EXPECT_EQ(kiln->plan(low)->match(), Match::reference);
  EXPECT_FALSE(some.difference(all, 5));
}

/// Packed weights have the same order: they serve few rows faster, and change no bit.
TEST(InvariantEngine, PackedWeightsChangeNoBit) {
  for (const char* line : {"fp32 N T 1 70 700", "bf16 N N 1 64 1100", "int8 N T 1 48 300"}) {
    const Gemm tall = test::with_rows(problem(line), 40), low = test::with_rows(problem(line), 2);
    Opened kiln(1);
    Rows all(tall);
    ASSERT_TRUE(all.run([&](const Operands& operands) { return kiln->gemm(tall, operands); }));
    Rows some = all.part(low, 17);
    const Status ran = some.run([&](Operands operands) -> Status {
      const auto packed = kiln->pack_b(low, operands.b);
      if (!packed) return tl::unexpected(packed.error());
      operands.b = nullptr;
      operands.packed_b = &*packed;
      return kiln->gemm(low.with_packed_b(), operands);
    });
    ASSERT_TRUE(ran) << ran.error().message;
    const auto found = some.difference(all, 17);
    EXPECT_FALSE(found) << line << ": " << *found;
  }
}

TEST(InvariantEngine, KeepsItsWinnersApart) {
  const Gemm gemm = problem("fp32 N T 3 64 800");
  Opened kiln(1, Determinism::run_to_run);
  ASSERT_TRUE(kiln->tune(gemm));
  EXPECT_EQ(kiln->plan(gemm)->match(), Match::exact);
  EXPECT_THAT(*kiln->explain(gemm), HasSubstr("\nclass:     run_to_run, sums: "));
  auto other = Engine::open({.database = kiln.dir / "kiln.db",
                             .determinism = Determinism::batch_invariant,
                             .threads = 1,
                             .on_untuned = [](const std::string&) {}});
  ASSERT_TRUE(other);
  EXPECT_NE(other->plan(gemm)->match(), Match::exact);
  EXPECT_THAT(*other->explain(gemm), HasSubstr("\nclass:     batch_invariant, sums: "));
}

/// As after an update of kiln that chose another order: the record is a miss, and tuned again.
TEST(InvariantEngine, TakesNoStoredKernelOfAnotherOrder) {
  const Gemm gemm = problem("fp32 N N 20 64 800");
  Opened kiln(1);
  ASSERT_TRUE(kiln->tune(gemm));
  auto& impl = kiln->impl();
  const BestKey key = impl.key_of(gemm, 1);
  Validators made_by = impl.now;
  made_by.compiler = (*impl.admission.compiler())->version();
  auto record = impl.store->winners().best(key, made_by);
  ASSERT_TRUE(record);
  auto config = record->measured.config.as<HostPacked>();
  ASSERT_EQ(config.kc, 256);
  config.kc = 128;
  record->measured.config = config;
  ASSERT_TRUE(impl.store->measurements().put(key, made_by, record->measured));
  ASSERT_TRUE(impl.store->winners().make_winner(key, made_by, config));
  EXPECT_TRUE(impl.store->winners().best(key, made_by));
  EXPECT_FALSE(impl.best(key, made_by));
  const auto again = kiln->tune(gemm);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_FALSE(again->already_tuned);
  EXPECT_THAT(again->config, Not(HasSubstr("kc=128")));
}

TEST(InvariantEngine, IsChosenInC) {
  kiln_options options;
  kiln_options_init(&options);
  options.database = ":memory:";
  options.threads = 1;
  options.batch_invariant = 1;
  kiln_engine* engine = nullptr;
  ASSERT_EQ(kiln_open(&options, &engine), KILN_OK) << kiln_last_error();
  kiln_gemm_desc desc;
  kiln_gemm_desc_init(&desc, 4, 16, 8, KILN_FP32);
  char* story = nullptr;
  ASSERT_EQ(kiln_explain(engine, &desc, 0, &story), KILN_OK) << kiln_last_error();
  EXPECT_THAT(story, HasSubstr("batch_invariant"));
  kiln_string_free(story);
  kiln_close(engine);
  options.any_order = 1;
  EXPECT_EQ(kiln_open(&options, &engine), KILN_BAD_INPUT);
  EXPECT_THAT(kiln_last_error(), HasSubstr("batch_invariant = 1"));
}

}  // namespace kiln::invariant_test
