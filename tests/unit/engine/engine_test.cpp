// The front door on this machine's CPU: hits, misses, policies, bad input.
#include "kiln/engine.hpp"

#include <SQLiteCpp/Database.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "cache/keys.h"
#include "cache/records/binaries.h"
#include "cache/records/measurements.h"
#include "cache/records/winners.h"
#include "engine/engine_impl.h"
#include "generator/families/cpu/small/config.h"
#include "support/eventually.h"
#include "support/naive_gemm.h"
#include "support/opened_engine.h"

namespace kiln::engine_test {

using test::check;
using test::Opened;
using test::why;
using testing::HasSubstr;

TEST(Engine, AnUntunedShapeWorksAndIsSpokenOfOnce) {
  Opened kiln;
  const Gemm gemm = Gemm::row_major(33, 65, 17);
  const Verdict verdict = check(*kiln.engine, gemm);
  EXPECT_TRUE(verdict) << why(verdict);
  ASSERT_EQ(kiln.said.size(), 1u);
  EXPECT_THAT(kiln.said[0], HasSubstr(text(gemm)));
  EXPECT_EQ(kiln->plan(gemm)->match(), Match::model);
}

TEST(Engine, TuningMakesItExactForEverySpelling) {
  Opened kiln;
  const Gemm gemm = Gemm::row_major(48, 64, 32);
  Gemm spelt = gemm;
  spelt.a.ld = 32;
  ASSERT_EQ(kiln->plan(spelt)->match(), Match::model);
  int calls = 0;
  const auto report =
      kiln->tune(gemm, {.progress = [&](const Progress&) { ++calls; }, .cancelled = {}});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(report->measured, 0);
  EXPECT_GT(report->enumerated, report->measured);
  EXPECT_GT(calls, 0);
  EXPECT_FALSE(report->already_tuned);
  EXPECT_THAT(report->warnings, testing::IsEmpty());
  for (const Gemm& each : {gemm, spelt}) {
    EXPECT_EQ(kiln->plan(each)->match(), Match::exact);
    EXPECT_EQ(kiln->plan(each)->config(), report->config);
  }
  EXPECT_TRUE(check(*kiln.engine, gemm));

  const auto again = kiln->tune(gemm);
  EXPECT_TRUE(again->already_tuned);
  EXPECT_EQ(again->config, report->config);

  kiln.said.clear();
  kiln.open();
  EXPECT_EQ(kiln->plan(gemm)->match(), Match::exact);
  EXPECT_TRUE(check(*kiln.engine, gemm));
  EXPECT_THAT(kiln.said, testing::IsEmpty());
}

/// Makes `config` the winner of `gemm` without a search.
void make_winner(Opened& kiln, const Gemm& gemm, const Config& config) {
  auto& impl = kiln->impl();
  const BestKey key = impl.key_of(gemm, 1);
  Measured row;
  row.config = config;
  row.outcome = Timing{.median_ns = 100, .low_ns = 99, .high_ns = 101, .samples = 9};
  row.verified = true;
  row.binary_key = "none";
  Validators made_by = impl.now;
  made_by.compiler = impl.admission.compiler().value()->version();
  ASSERT_TRUE(impl.store->measurements().put(key, made_by, row));
  ASSERT_TRUE(impl.store->winners().make_winner(key, made_by, config));
}

TEST(Engine, AMissTakesTheConfigOfANeighbour) {
  Opened kiln;
  const Gemm tuned = Gemm::row_major(200, 300, 256);
  const DeviceCaps device = kiln->impl().key_of(tuned, 1).device;
  const Config config = fallback_config(Problem::of(tuned).value(), device);  // legal for any shape
  make_winner(kiln, tuned, config);
  const Gemm close = Gemm::row_major(201, 310, 250), far = Gemm::row_major(2, 3, 100000);
  ASSERT_EQ(broken_rule(Problem::of(close).value(), device, config), "");
  const auto plan = kiln->plan(close);
  EXPECT_EQ(plan->match(), Match::nearest);
  EXPECT_EQ(plan->config(), text(config));
  EXPECT_THAT(plan->impl().reason, HasSubstr(text(tuned)));
  EXPECT_EQ(kiln->plan(far)->match(), Match::model);
  EXPECT_TRUE(check(*kiln.engine, close));
}

/// A kernel of host_small has its problem's sizes in its code, and a limit on them.
TEST(Engine, AMissPassesOverANeighbourWhoseConfigIsIllegalForIt) {
  Opened kiln;
  const Gemm nearer = Gemm::row_major(48, 48, 48), other = Gemm::row_major(47, 48, 48),
             wanted = Gemm::row_major(160, 160, 160);
  const DeviceCaps device = kiln->impl().key_of(nearer, 1).device;
  const auto space = space_for(Problem::of(nearer).value(), device);
  ASSERT_TRUE(space) << space.error().message;
  const auto illegal = std::ranges::find_if(space->legal, [&](const Config& config) {
    return !broken_rule(Problem::of(wanted).value(), device, config).empty();
  });
  ASSERT_NE(illegal, space->legal.end());
  const Config legal = fallback_config(Problem::of(other).value(), device);
  make_winner(kiln, nearer, *illegal);
  make_winner(kiln, other, legal);
  const auto plan = kiln->plan(wanted);
  EXPECT_EQ(plan->match(), Match::nearest);
  EXPECT_EQ(plan->config(), text(legal));
  EXPECT_TRUE(check(*kiln.engine, wanted));
}

/// Their code is called with operands alone, in registers, unless there are more than A to D.
TEST(Engine, SmallProductsAreCalledDirectly) {
  Opened kiln;
  for (const char* line :
       {"fp32 N N 9 9 9", "fp32 N N 7 5 11 order=column", "fp32 N N 9 12 9 epilogue=bias_col+silu",
        "fp32 N N 9 12 9 epilogue=relu", "fp64 N N 6 6 6 epilogue=residual"}) {
    const Gemm gemm = parse_gemm(line).value();
    const DeviceCaps device = kiln->impl().key_of(gemm, 1).device;
    const auto space = space_for(Problem::of(gemm).value(), device);
    ASSERT_TRUE(space) << space.error().message;
    const auto small = std::ranges::find_if(
        space->legal, [](const Config& config) { return config.is<HostSmall>(); });
    ASSERT_NE(small, space->legal.end()) << line;
    make_winner(kiln, gemm, *small);
    const auto plan = kiln->plan(gemm, 1);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->config(), text(*small));
    EXPECT_EQ(plan->impl().direct_call != nullptr,
              gemm.epilogue.bias == Bias::none && !gemm.epilogue.residual)
        << line;
    const Verdict verdict = check(*kiln.engine, gemm);
    EXPECT_TRUE(verdict) << line << ": " << why(verdict);
  }
}

TEST(Engine, PolicyErrorRefusesAndPolicyTuneNowTunes) {
  const Gemm gemm = Gemm::row_major(24, 40, 16);
  Opened strict(Policy::error);
  const auto refused = strict->plan(gemm);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::not_tuned);
  EXPECT_THAT(refused.error().message, HasSubstr(text(gemm)));

  Opened eager(Policy::tune_now);
  const auto plan = eager->plan(gemm);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->match(), Match::exact);
  EXPECT_THAT(eager.said, testing::IsEmpty());
}

TEST(Engine, BackgroundTuningReplacesThePlan) {
  Opened kiln(Policy::tune_in_background);
  const Gemm gemm = Gemm::row_major(24, 40, 16);
  EXPECT_EQ(kiln->plan(gemm)->match(), Match::model);
  test::eventually([&] { return kiln->plan(gemm)->match() == Match::exact; });
  EXPECT_TRUE(check(*kiln.engine, gemm));
}

TEST(Engine, EmptyProblemsNeedNoKernel) {
  Opened kiln;
  float c[6] = {1, -2, 3, 4, 5, 6}, d[6] = {}, bias[3] = {10, 20, 30};
  for (const Gemm& empty : {Gemm::row_major(0, 3, 4), Gemm::row_major(2, 0, 4)})
    EXPECT_TRUE(kiln->gemm(empty, {}));
  const Gemm sum = Gemm::row_major(2, 3, 0).with_bias(Bias::per_column);
  ASSERT_TRUE(kiln->gemm(sum, {.c = c, .d = d, .bias = bias, .beta = 2}));
  EXPECT_THAT(d, testing::ElementsAre(12, 16, 36, 18, 30, 42));
  ASSERT_TRUE(kiln->gemm(sum.with_activation(Activation::relu), {.d = d, .bias = bias}));
  EXPECT_THAT(d, testing::ElementsAre(10, 20, 30, 10, 20, 30));
  EXPECT_THAT(kiln.said, testing::IsEmpty());
  EXPECT_TRUE(kiln->tune(sum)->already_tuned);
}

TEST(Engine, BadProblemsAreNamed) {
  Opened kiln;
  Gemm narrow = Gemm::row_major(4, 5, 6);
  narrow.a.ld = 3;
  Gemm odd = Gemm::row_major(4, 5, 6);
  odd.accumulator = fp16;
  const std::pair<Gemm, const char*> cases[] = {
      {Gemm::row_major(-1, 5, 6), "m = -1"},
      {Gemm::row_major(4, 5, 6).batched(0), "batch = 0"},
      {narrow, "lda = 3"},
      {odd, "accumulator = fp16"},
  };
  for (const auto& [gemm, what] : cases) {
    for (const std::string& message :
         {kiln->gemm(gemm, {}).error().message, kiln->tune(gemm).error().message,
          kiln->plan(gemm).error().message, kiln->explain(gemm).error().message})
      EXPECT_THAT(message, HasSubstr(what));
  }
  float x = 0;
  const Status threads =
      kiln->gemm(Gemm::row_major(1, 1, 1), {.a = &x, .b = &x, .d = &x, .threads = 100000});
  EXPECT_THAT(threads.error().message, HasSubstr("threads = 100000"));
  EXPECT_THAT(kiln->gemm(Gemm::row_major(1, 1, 1), {.threads = -2}).error().message,
              HasSubstr("threads = -2"));
  // clock: refused
  EXPECT_THAT(kiln->tune(Gemm::row_major(1, 1, 1), {.budget = std::chrono::duration<double>(-1)})
                  .error()
                  .message,
              HasSubstr("budget = -1"));
}

TEST(Engine, NullAndOverlappingOperandsAreNamed) {
  Opened kiln;
  const Gemm gemm = Gemm::row_major(4, 4, 4).with_bias(Bias::per_row).with_residual();
  std::vector<float> memory(200, 1.0f);
  float* const m = memory.data();
  const Operands good{.a = m,
                      .b = m + 16,
                      .c = m + 32,
                      .d = m + 48,
                      .bias = m + 64,
                      .residual = m + 80,
                      .alpha = 1,
                      .beta = 1};
  ASSERT_TRUE(kiln->gemm(gemm, good));
  const auto refuses = [&](auto change, const char* what) {
    Operands bad = good;
    change(bad);
    const Status status = kiln->gemm(gemm, bad);
    ASSERT_FALSE(status) << what;
    EXPECT_EQ(status.error().code, ErrorCode::bad_input);
    EXPECT_THAT(status.error().message, HasSubstr(what));
  };
  refuses([](Operands& o) { o.a = nullptr; }, "a = null");
  refuses([](Operands& o) { o.b = nullptr; }, "b = null");
  refuses([](Operands& o) { o.c = nullptr; }, "c = null");
  refuses([](Operands& o) { o.d = nullptr; }, "d = null");
  refuses([](Operands& o) { o.bias = nullptr; }, "bias = null");
  refuses([](Operands& o) { o.residual = nullptr; }, "residual = null");
  refuses([&](Operands& o) { o.d = m; }, "a = 0x");
  refuses([&](Operands& o) { o.d = m + 31; }, "b = 0x");
  refuses([&](Operands& o) { o.c = m + 49; }, "c = 0x");
  refuses([&](Operands& o) { o.bias = m + 60; }, "bias = 0x");
  refuses([&](Operands& o) { o.residual = o.d; }, "residual = 0x");
  // Only of matrices, which could be D, it is said that C alone may be.
  refuses([&](Operands& o) { o.a = o.d; }, "only c may be d, laid out alike");
  refuses([&](Operands& o) { o.bias = o.d; }, ", which is written");
  Operands in_place = good;
  in_place.c = in_place.d;
  EXPECT_TRUE(kiln->gemm(gemm, in_place));
  Operands unread = good;
  unread.c = nullptr;
  unread.beta = 0;
  EXPECT_TRUE(kiln->gemm(gemm, unread));
}

TEST(Engine, BlocksOfOneBufferDoNotOverlap) {
  Opened kiln;
  Gemm gemm = Gemm::row_major(4, 4, 4);
  gemm.a.ld = gemm.b.ld = gemm.d.ld = 12;
  std::vector<float> memory(48, 1.0f);
  float* const m = memory.data();
  EXPECT_TRUE(kiln->gemm(gemm, {.a = m, .b = m + 4, .d = m + 8}));
  EXPECT_EQ(memory[8], 4.0f);
  EXPECT_FALSE(kiln->gemm(gemm, {.a = m, .b = m + 4, .d = m + 7}));
}

TEST(Engine, AlignmentIsHeldToItsPromise) {
  Opened kiln;
  Gemm gemm = Gemm::row_major(16, 16, 16);
  gemm.alignment = 64;
  std::vector<float> memory(16 * 16 * 3 + 32, 1.0f);
  auto* base = reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 63) &
                                        ~std::uintptr_t{63});
  EXPECT_TRUE(kiln->gemm(gemm, {.a = base, .b = base + 256, .d = base + 512}));
  const Status off = kiln->gemm(gemm, {.a = base, .b = base + 257, .d = base + 516});
  ASSERT_FALSE(off);
  EXPECT_THAT(off.error().message, HasSubstr("alignment = 64"));
}

TEST(Engine, ExplainTellsConfigEvidenceAndSource) {
  Opened kiln;
  const Gemm gemm = Gemm::row_major(48, 64, 32);
  EXPECT_THAT(*kiln->explain(gemm), HasSubstr("match:     model"));
  const auto report = kiln->tune(gemm);
  ASSERT_TRUE(report) << report.error().message;
  const std::string told = *kiln->explain(gemm);
  for (const std::string& part :
       {report->config, std::string("match:     exact"), std::string("other candidates"),
        std::string("GFLOP/s"), std::string("kiln.db"), std::string("kiln_gemm"),
        std::string("configs tried")})
    EXPECT_THAT(told, HasSubstr(part));
}

TEST(Engine, DamagedCodeIsMadeAgain) {
  Opened kiln;
  const Gemm gemm = Gemm::row_major(48, 64, 32);
  const auto report = kiln->tune(gemm);
  ASSERT_TRUE(report);
  kiln.engine.reset();
  SQLite::Database(kiln.dir / "kiln.db", SQLite::OPEN_READWRITE, 5000)
      .exec("UPDATE binary_data SET data = zeroblob(10)");
  kiln.open();
  EXPECT_EQ(kiln->plan(gemm)->match(), Match::exact);
  EXPECT_EQ(kiln->plan(gemm)->config(), report->config);
  EXPECT_TRUE(check(*kiln.engine, gemm));
  kiln.open();
  EXPECT_TRUE(kiln->impl()
                  .store->winners()
                  .best(kiln->impl().key_of(gemm, 1), kiln->impl().now)
                  ->image.size());
}

TEST(Engine, AnotherRuntimeIsVerifiedOnFirstUse) {
  Opened kiln;
  const Gemm gemm = Gemm::row_major(48, 64, 32), other = Gemm::row_major(48, 64, 40);
  ASSERT_TRUE(kiln->tune(gemm));
  ASSERT_TRUE(kiln->tune(other));
  kiln.open();
  auto& impl = kiln->impl();
  impl.now.runtime = "another glibc";
  EXPECT_EQ(kiln->plan(gemm)->match(), Match::exact);
  EXPECT_EQ(impl.store->winners().best(impl.key_of(gemm, 1), impl.now)->validators.runtime,
            "another glibc");

  // Code that computes another thing passes no verification: it is marked and not used.
  const auto record = impl.store->winners().best(impl.key_of(other, 1), impl.now);
  ASSERT_TRUE(record);
  auto clipping = impl.admission.build(impl.key_of(other.with_activation(Activation::relu), 1),
                                       record->measured.config);
  ASSERT_TRUE(clipping) << clipping.error().message;
  impl.store->binaries().quarantine(record->measured.binary_key, "replaced by the test");
  clipping->binary.key = record->measured.binary_key;
  ASSERT_TRUE(impl.store->binaries().put(clipping->binary));
  EXPECT_NE(kiln->plan(other)->match(), Match::exact);
  EXPECT_NE(impl.store->winners().best(impl.key_of(other, 1), impl.now)->image,
            clipping->binary.image);
  const Verdict verdict = check(*kiln.engine, other);
  EXPECT_TRUE(verdict) << why(verdict);
}

TEST(Engine, ManyThreadsManyShapes) {
  Opened kiln;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 24; ++i) {
        const Gemm gemm = Gemm::row_major(3 + (i + t) % 8, 5, 7);
        std::vector<float> a(gemm.m * 7, 1.0f), b(35, 2.0f), d(gemm.m * 5, -1.0f);
        const Status done = kiln->gemm(gemm, {.a = a.data(), .b = b.data(), .d = d.data()});
        for (const float x : d) wrong += !done || x != 14.0f;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(kiln.said.size(), 8u);
}

TEST(Open, BadOptionsAreNamed) {
  const std::pair<OpenOptions, const char*> cases[] = {
      {{.device = "gpu"}, "device = gpu"},
      {{.device = "cuda:0"}, "device = cuda:0"},
      {{.threads = -1}, "threads = -1"},
      {{.threads = 1 << 20}, "threads = 1048576"},
      {{.database = "/proc/kiln/none.db"}, "/proc/kiln/none.db"},
  };
  for (const auto& [options, what] : cases) {
    const auto engine = Engine::open(options);
    ASSERT_FALSE(engine) << what;
    EXPECT_THAT(engine.error().message, HasSubstr(what));
  }
}

}  // namespace kiln::engine_test
