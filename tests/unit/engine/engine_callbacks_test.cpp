// What callers do from outside while the Engine works: callbacks that throw or call back in, and
// threads that are cancelled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <stdexcept>
#include <thread>

#include "kiln/kiln.h"
#include "support/opened_engine.h"

namespace kiln::engine_callbacks_test {

using test::check;
using test::Opened;
using test::why;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const Gemm kGemm = Gemm::row_major(24, 40, 16);

/// Tunes with callbacks that throw; the engine must work as before afterwards.
template <typename Throw>
std::string message_of(Throw&& thrown, bool in_progress) {
  Opened kiln;
  TuneOptions options;
  if (in_progress)
    options.progress = [&](const Progress&) { thrown(); };
  else
    options.cancelled = [&]() -> bool {
      thrown();
      return false;
    };
  const auto report = kiln->tune(kGemm, options);
  EXPECT_FALSE(report);
  if (report) return {};
  EXPECT_EQ(report.error().code, ErrorCode::bad_input);
  EXPECT_TRUE(kiln->tune(kGemm)) << "the tuning lock was given back";
  return report.error().message;
}

TEST(Callbacks, WhatTheyThrowIsAnErrorThatNamesThem) {
  const auto number = [] { throw 42; };
  const auto sentence = [] { throw std::runtime_error("the window was closed"); };
  EXPECT_THAT(message_of(number, true), AllOf(StartsWith("progress"), HasSubstr("threw")));
  EXPECT_THAT(message_of(number, false), AllOf(StartsWith("cancelled"), HasSubstr("threw")));
  EXPECT_THAT(message_of(sentence, true), HasSubstr("progress: threw: the window was closed"));
  EXPECT_THAT(message_of(sentence, false), HasSubstr("cancelled: threw: the window was closed"));
}

TEST(Callbacks, AThrowingOnUntunedCostsNoResult) {
  const std::function<void()> throwing[] = {[] { throw 42; },
                                            [] { throw std::runtime_error("no"); }};
  for (const auto& thrown : throwing) {
    TempDir dir;
    int told = 0;
    auto engine = Engine::open(
        {.database = dir / "kiln.db", .threads = 1, .on_untuned = [&](const std::string&) {
           ++told;
           thrown();
         }});
    ASSERT_TRUE(engine) << engine.error().message;
    float a[4] = {1, 2, 3, 4}, b[4] = {1, 0, 0, 1}, d[4] = {};
    testing::internal::CaptureStderr();
    const Status done = engine->gemm(Gemm::row_major(2, 2, 2), {.a = a, .b = b, .d = d});
    const std::string logged = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(done) << done.error().message;
    EXPECT_THAT(d, testing::ElementsAre(1, 2, 3, 4));
    EXPECT_EQ(told, 1);
    EXPECT_THAT(logged, HasSubstr("on_untuned: threw"));
  }
}

TEST(Callbacks, TuneFromItsOwnCallbackIsRefused) {
  Opened kiln;
  std::vector<Error> refused;
  const auto again = [&] {
    const auto inner = kiln->tune(kGemm);
    refused.push_back(inner ? Error{} : inner.error());
  };
  TuneOptions options;
  options.progress = [&](const Progress&) { again(); };
  options.cancelled = [&] { return again(), false; };
  ASSERT_TRUE(kiln->tune(kGemm, options));
  ASSERT_GE(refused.size(), 2u);
  for (const Error& error : refused) {
    EXPECT_EQ(error.code, ErrorCode::bad_input);
    EXPECT_THAT(error.message, HasSubstr("tune() called from its own callback"));
  }
}

TEST(Callbacks, GemmFromProgressComputes) {
  for (const Policy policy : {Policy::use_best_known, Policy::tune_now}) {
    Opened kiln(policy);
    const Gemm other = Gemm::row_major(9, 11, 13);
    int calls = 0;
    TuneOptions options;
    options.progress = [&](const Progress&) {
      if (calls++ > 0) return;
      for (const Gemm& gemm : {kGemm, other}) {
        const Verdict verdict = check(*kiln.engine, gemm);
        EXPECT_TRUE(verdict) << why(verdict);
      }
    };
    ASSERT_TRUE(kiln->tune(kGemm, options));
    EXPECT_GT(calls, 0);
    EXPECT_EQ(kiln->plan(kGemm)->match(), Match::exact);
  }
}

/// A bench that gives a cancellation every chance: sleeping is a cancellation point.
class SleepyBench final : public test::FakeEvaluator {
 public:
  SleepyBench(const SearchInput& input, std::atomic<bool>& begun)
      : FakeEvaluator(input), begun_(begun) {}
  std::vector<Measured> screen(const std::vector<Config>& group) override {
    begun_ = true;
    ::usleep(200'000);
    return FakeEvaluator::screen(group);
  }

 private:
  std::atomic<bool>& begun_;
};

struct Cancelled {
  std::function<void()> call;
  bool returned = false;
};

/// Runs `call` on a thread that is cancelled once `begun`; true when the call came back first and
/// the thread then ended by its cancellation.
bool cancelled_after(std::function<void()> call, const std::atomic<bool>& begun) {
  Cancelled state{std::move(call)};
  pthread_t thread{};
  const auto body = [](void* argument) -> void* {
    auto& mine = *static_cast<Cancelled*>(argument);
    mine.call();
    mine.returned = true;
    for (;;) ::pthread_testcancel();
  };
  if (::pthread_create(&thread, nullptr, body, &state) != 0) return false;
  while (!begun) std::this_thread::yield();
  ::pthread_cancel(thread);
  void* ended = nullptr;
  ::pthread_join(thread, &ended);
  return state.returned && ended == PTHREAD_CANCELED;
}

TEST(Cancellation, WaitsForTune) {
  Opened kiln;
  std::atomic<bool> begun{false};
  kiln->impl().tuning.make_evaluator = [&](const SearchInput& input,
                                           Compiler&) -> Result<std::unique_ptr<Evaluator>> {
    return std::make_unique<SleepyBench>(input, begun);
  };
  bool tuned = false;
  EXPECT_TRUE(cancelled_after([&] { tuned = kiln->tune(kGemm).has_value(); }, begun));
  EXPECT_TRUE(tuned);
  EXPECT_TRUE(kiln->tune(kGemm)->already_tuned) << "no lock was left behind";
  EXPECT_TRUE(check(*kiln.engine, kGemm));
}

/// The C face with the real worker, its processes and its files.
TEST(Cancellation, WaitsForKilnTuneAndKilnClose) {
  TempDir dir;
  kiln_options options;
  kiln_options_init(&options);
  const std::string file = (dir / "kiln.db").string();
  options.database = file.c_str();
  options.threads = 1;
  kiln_engine* engine = nullptr;
  ASSERT_EQ(kiln_open(&options, &engine), KILN_OK) << kiln_last_error();
  kiln_gemm_desc desc;
  kiln_gemm_desc_init(&desc, 16, 16, 16, KILN_FP32);
  kiln_tune_options few;
  kiln_tune_options_init(&few);
  few.candidates = 8;
  few.seconds = 86400;  // clock: no machine meets a budget of a day
  const std::atomic<bool> at_once{true};
  kiln_status tuned = KILN_INTERNAL;
  EXPECT_TRUE(
      cancelled_after([&] { tuned = kiln_tune_with(engine, &desc, &few, nullptr); }, at_once));
  EXPECT_EQ(tuned, KILN_OK);
  kiln_tune_report report;
  kiln_tune_report_init(&report);
  EXPECT_EQ(kiln_tune_with(engine, &desc, &few, &report), KILN_OK) << kiln_last_error();
  EXPECT_EQ(report.already_tuned, 1);
  EXPECT_TRUE(cancelled_after([&] { kiln_close(engine); }, at_once));
}

}  // namespace kiln::engine_callbacks_test
