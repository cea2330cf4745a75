// Ranges through the front door: tuned once, every size served.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "cache/records/ranges.h"
#include "engine/engine_impl.h"
#include "support/naive_gemm.h"
#include "support/opened_engine.h"
#include "tuner/verify/data_set.h"

namespace kiln::engine_range_test {

using test::check;
using test::Opened;
using test::why;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const Gemm kGemm = Gemm::row_major(1, 64, 48);
GemmRange range() { return kGemm.with_m(40, 100); }

class EngineRange : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    kiln_ = new Opened();
    const auto report = (*kiln_)->tune(range());
    ASSERT_TRUE(report) << report.error().message;
    report_ = new RangeReport(*report);
  }
  static void TearDownTestSuite() {
    delete report_;
    delete kiln_;
  }
  static Opened* kiln_;
  static RangeReport* report_;
};
Opened* EngineRange::kiln_ = nullptr;
RangeReport* EngineRange::report_ = nullptr;

TEST_F(EngineRange, TheReportCoversTheRange) {
  EXPECT_FALSE(report_->already_tuned);
  EXPECT_TRUE(report_->stored);
  EXPECT_THAT(report_->warnings, IsEmpty());
  EXPECT_EQ(report_->searched, 3);  // 40, 64, 100
  ASSERT_FALSE(report_->parts.empty());
  EXPECT_EQ(report_->parts.back().last, 100);
  EXPECT_GE(report_->kernels, 1);
  EXPECT_LE(report_->kernels, 16);
}

TEST_F(EngineRange, EverySizeIsServedAndRight) {
  Opened& kiln = *kiln_;
  for (std::int64_t m = 40; m <= 100; m += 7) {
    const Gemm gemm = range().at(m);
    const auto plan = kiln->plan(gemm);
    ASSERT_TRUE(plan);
    EXPECT_TRUE(is_tuned(plan->match())) << m;
    const Verdict verdict = check(*kiln.engine, gemm);
    EXPECT_TRUE(verdict) << m << ": " << why(verdict);
  }
  EXPECT_EQ(kiln->plan(range().at(71))->match(), Match::range);
  EXPECT_EQ(kiln->plan(range().at(64))->match(), Match::exact);
  EXPECT_EQ(kiln->plan(range().at(39))->match(), Match::nearest);
  EXPECT_THAT(*kiln->explain(range().at(71)), HasSubstr("tuned as fp32 N N 40..100 64 48"));
}

TEST_F(EngineRange, ASecondCallFindsItsTable) {
  Opened& kiln = *kiln_;
  const auto again = kiln->tune(range());
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->already_tuned);
  EXPECT_TRUE(again->stored);
  EXPECT_EQ(again->parts.size(), report_->parts.size());
}

TEST_F(EngineRange, APlanOfARangeTakesTheSizeAsAnArgument) {
  Opened& kiln = *kiln_;
  const auto plan = kiln->plan(range());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->workspace_bytes(), 0);
  for (const std::int64_t m : {41, 71, 41, 100}) {
    const Verdict verdict =
        verify(range().at(m), [&](const Operands& operands) { return plan->run(m, operands); });
    EXPECT_TRUE(verdict) << m << ": " << why(verdict);
    EXPECT_EQ(*plan->config(m), kiln->plan(range().at(m))->config());
  }
  EXPECT_EQ(*plan->match(71), Match::range);
  for (const std::int64_t m : {39, 101, 0, -1}) {
    const Status ran = plan->run(m, {});
    ASSERT_FALSE(ran);
    EXPECT_EQ(ran.error().code, ErrorCode::bad_input);
    EXPECT_THAT(ran.error().message, HasSubstr("m = " + std::to_string(m)));
  }
}

TEST(EngineRanges, APlanOutlivesItsEngine) {
  std::optional<RangePlan> plan;
  {
    Opened kiln;
    plan = kiln->plan(kGemm.with_n(3, 9)).value();  // never tuned
  }
  const Gemm gemm = kGemm.with_n(3, 9).at(5);
  const Verdict verdict =
      verify(gemm, [&](const Operands& operands) { return plan->run(5, operands); });
  EXPECT_TRUE(verdict) << why(verdict);
}

TEST(EngineRanges, NothingOfTheCallersIsCalledAfterTheEngineEnded) {
  TempDir dir;
  const auto said = std::make_shared<int>(0);
  std::optional<RangePlan> plan;
  {
    auto engine = Engine::open({.database = dir / "kiln.db",
                                .policy = Policy::tune_in_background,
                                .threads = 1,
                                .on_untuned = [said](const std::string&) { ++*said; }});
    ASSERT_TRUE(engine) << engine.error().message;
    plan = engine->plan(kGemm.with_n(3, 9)).value();
  }
  const std::vector<float> a(48, 1), b(48 * 9, 2);
  std::vector<float> d(9);
  for (const std::int64_t n : {4, 5, 6})
    ASSERT_TRUE(plan->run(n, {.a = a.data(), .b = b.data(), .d = d.data()}));
  EXPECT_EQ(d[5], 96);
  EXPECT_EQ(*said, 0);
}

TEST(EngineRanges, WithoutADatabaseThatCanBeWrittenNothingIsSearched) {
  Opened kiln;
  std::filesystem::remove(kiln.dir / "kiln.db");
  bool asked = false;
  const auto report = kiln->tune(range(), {.progress = [&](const Progress&) { asked = true; }});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::database);
  EXPECT_THAT(report.error().message, HasSubstr("kiln.db"));
  EXPECT_FALSE(asked);
}

// No family of CPUs computes fp8: as tune() of one size says, and without the advice to tune its
// sizes one by one.
TEST(EngineRanges, OfAProblemThatNoFamilyComputesIsUnsupported) {
  Opened kiln;
  const Gemm gemm = Gemm::row_major(8, 8, 8, fp8_e4m3);
  const auto one = kiln->tune(gemm);
  ASSERT_FALSE(one);
  EXPECT_EQ(one.error().code, ErrorCode::unsupported);
  for (const GemmRange& all : {gemm.with_m(4, 12), gemm.with_n(4, 12), gemm.with_k(4, 12)}) {
    const auto report = kiln->tune(all);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, ErrorCode::unsupported) << report.error().message;
    EXPECT_THAT(report.error().message, HasSubstr(text(all)));
    EXPECT_THAT(report.error().message, Not(HasSubstr("one by one")));
  }
}

TEST(EngineRanges, TheTableServesLaterProcessesWithoutACompiler) {
  Opened kiln;
  const GemmRange narrow = kGemm.with_n(48, 64);
  ASSERT_TRUE(kiln->tune(narrow));
  kiln.open(Policy::error);
  const auto plan = kiln->plan(narrow.at(50));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->match(), Match::range);
  EXPECT_TRUE(check(*kiln.engine, narrow.at(50)));
  EXPECT_FALSE(kiln->plan(narrow.at(70))) << "outside the range";
}

TEST(EngineRanges, WeightsThatWerePackedOnceServeEverySize) {
  Opened kiln;
  const GemmRange packed = kGemm.with_packed_b().with_m(30, 40);
  const auto report = kiln->tune(packed);
  ASSERT_TRUE(report) << report.error().message;
  for (const std::string& warning : report->warnings) ADD_FAILURE() << warning;
  const std::vector<float> a(40 * 48, 1), b(48 * 64, 2);
  const auto copy = kiln->pack_b(packed.at(1), b.data());
  ASSERT_TRUE(copy) << copy.error().message;
  const auto plan = kiln->plan(packed);
  ASSERT_TRUE(plan) << plan.error().message;
  for (const std::int64_t m : {30, 33, 37, 40}) {
    std::vector<float> d(static_cast<std::size_t>(m) * 64 + 1, -1);
    const Status ran = plan->run(m, {.a = a.data(), .packed_b = &*copy, .d = d.data()});
    ASSERT_TRUE(ran) << ran.error().message;
    EXPECT_TRUE(std::all_of(d.begin(), d.end() - 1, [](float x) { return x == 96; })) << m;
    EXPECT_EQ(d.back(), -1);
    EXPECT_TRUE(is_tuned(plan->match(m).value())) << m;
  }
}

TEST(EngineRanges, PlansThatWereMadeBeforeTakeItsKernels) {
  Opened kiln;
  const Gemm gemm = kGemm.with_k(40, 64).at(50);
  ASSERT_EQ(kiln->plan(gemm)->match(), Match::model);
  ASSERT_TRUE(kiln->tune(kGemm.with_k(40, 64)));
  EXPECT_EQ(kiln->plan(gemm)->match(), Match::range);
}

TEST(EngineRanges, BadInputNamesItsField) {
  Opened kiln;
  const auto reversed = kiln->tune(kGemm.with_m(9, 3));
  ASSERT_FALSE(reversed);
  EXPECT_THAT(reversed.error().message, HasSubstr("m = 9..3: the range is reversed"));
  // clock: refused
  const auto budget = kiln->tune(range(), {.budget = std::chrono::duration<double>(-1)});
  ASSERT_FALSE(budget);
  EXPECT_THAT(budget.error().message, HasSubstr("budget = -1"));
  const auto plan = kiln->plan(kGemm.with_m(0, 3));
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message, HasSubstr("m = 0..3"));
}

TEST(EngineRanges, ACancelledSearchStoresNoTable) {
  Opened kiln;
  const auto report = kiln->tune(range(), {.cancelled = [] { return true; }});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::not_tuned);
  EXPECT_THAT(*kiln->impl().store->ranges().list(), IsEmpty());
}

}  // namespace kiln::engine_range_test
