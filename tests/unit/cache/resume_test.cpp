// How complete a stored search is, and what a later tune() makes of it: what was spent is not spent
// again, and what was cut short is gone on with.
#include <SQLiteCpp/Database.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/exchange/transfer.h"
#include "cache/records/winners.h"
#include "support/few.h"
#include "support/opened_engine.h"

namespace kiln::resume_test {

using test::Opened;
using testing::HasSubstr;

/// Seconds that searches were given, in order.
void record_budgets(Opened& kiln, std::vector<double>& budgets) {
  kiln->impl().tuning.make_evaluator = [&budgets](const SearchInput& input, Compiler& compiler) {
    budgets.push_back(input.options.budget.count());
    return test::fake_bench(input, compiler);
  };
}

// clock: its bench ends by count
TuneOptions seconds(double budget) { return {.budget = std::chrono::duration<double>(budget)}; }

TEST(Resume, ALargerBudgetGoesOnForTheRestOfIt) {
  Opened kiln;
  std::vector<double> budgets;
  record_budgets(kiln, budgets);
  const Gemm gemm = Gemm::row_major(48, 64, 32);
  const auto first = kiln->tune(gemm, seconds(10));
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(first->searched);
  EXPECT_EQ(first->searched->measured, 12);
  EXPECT_EQ(first->searched->enumerated, first->enumerated);
  EXPECT_EQ(first->searched->budget_seconds, 10);
  EXPECT_EQ(first->searched->spent_seconds, 10);
  EXPECT_FALSE(first->searched->interrupted);
  for (const double budget : {10.0, 3.0}) {
    const auto again = kiln->tune(gemm, seconds(budget));
    EXPECT_TRUE(again->already_tuned) << budget;
    EXPECT_EQ(again->searched, first->searched) << budget;
  }
  kiln.open();
  record_budgets(kiln, budgets);
  const auto more = kiln->tune(gemm, seconds(30));
  ASSERT_TRUE(more) << more.error().message;
  EXPECT_FALSE(more->already_tuned);
  EXPECT_EQ(more->searched->measured, 24) << "what was measured is not measured again";
  EXPECT_EQ(more->searched->spent_seconds, 30);
  EXPECT_GT(more->searched->seconds, first->searched->seconds);
  EXPECT_TRUE(kiln->tune(gemm, seconds(30))->already_tuned);
  TuneOptions anew = seconds(5);
  anew.force = true;
  const auto forced = kiln->tune(gemm, anew);
  ASSERT_TRUE(forced) << forced.error().message;
  EXPECT_EQ(forced->searched->spent_seconds, 5);
  EXPECT_THAT(budgets, testing::ElementsAre(10, 20, 5));
}

/// Cancels once the first group was screened.
TuneOptions cancelled_early(double budget, bool& screened) {
  TuneOptions options = seconds(budget);
  options.progress = [&](const Progress& p) { screened |= p.stage == Progress::Stage::screen; };
  options.cancelled = [&] { return screened; };
  return options;
}

TEST(Resume, ACancelledSearchIsGoneOnWith) {
  Opened kiln;
  std::vector<double> budgets;
  record_budgets(kiln, budgets);
  const Gemm gemm = Gemm::row_major(48, 64, 32);
  bool screened = false;
  const auto cut = kiln->tune(gemm, cancelled_early(10, screened));
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_TRUE(cut->searched->interrupted);
  const auto first = cut->searched->measured;
  EXPECT_GT(first, 0);
  EXPECT_LT(cut->searched->spent_seconds, 10);
  EXPECT_THAT(*kiln->explain(gemm), HasSubstr(fmt::format("searched:  {} of ", first)));
  EXPECT_THAT(*kiln->explain(gemm), HasSubstr(" of 10 s, interrupted\n"));
  kiln.open();
  EXPECT_EQ(kiln->plan(gemm)->match(), Match::exact) << "its best is used meanwhile";
  record_budgets(kiln, budgets);
  const auto rest = kiln->tune(gemm, seconds(10));
  ASSERT_TRUE(rest) << rest.error().message;
  EXPECT_FALSE(rest->already_tuned);
  EXPECT_GT(rest->searched->measured, first);
  EXPECT_FALSE(rest->searched->interrupted);
  EXPECT_TRUE(kiln->tune(gemm, seconds(10))->already_tuned);
  ASSERT_EQ(budgets.size(), 2u);
  EXPECT_DOUBLE_EQ(budgets[1], 10 - cut->searched->spent_seconds);
}

TEST(Resume, ASearchCancelledBeforeAnyWinnerStoresNone) {
  Opened kiln;
  const Gemm gemm = Gemm::row_major(48, 64, 32);
  TuneOptions never = seconds(10);
  never.cancelled = [] { return true; };
  const auto nothing = kiln->tune(gemm, never);
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, ErrorCode::not_tuned);
  EXPECT_THAT(nothing.error().message, HasSubstr("cancelled"));
  EXPECT_FALSE(kiln->impl().store->winners().best(kiln->impl().key_of(gemm, 1), kiln->impl().now));
  EXPECT_FALSE(kiln->tune(gemm, seconds(10))->already_tuned);
}

TEST(Resume, CandidatesAreCountedOverAllCalls) {
  Opened kiln;
  const Gemm gemm = Gemm::row_major(48, 64, 32);
  const auto with = [&](int candidates) {
    const auto report = kiln->tune(gemm, test::few(candidates));
    EXPECT_TRUE(report) << report.error().message;
    return report.value_or(TuneReport{});
  };
  EXPECT_EQ(with(5).searched->measured, 5);
  EXPECT_TRUE(with(5).already_tuned);
  EXPECT_TRUE(with(3).already_tuned);
  const TuneReport more = with(9);
  EXPECT_FALSE(more.already_tuned);
  EXPECT_EQ(more.searched->measured, 9);
  const auto refused = kiln->tune(gemm, test::few(-1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::bad_input);
  EXPECT_THAT(refused.error().message, HasSubstr("candidates = -1"));
}

/// Whole spaces, records made before extents were stored, and shipped records, however little was
/// searched for them: every program that calls tune() would else search them again.
TEST(Resume, WhatCountsAsCompleteIsNotSearchedOn) {
  const Gemm gemm = Gemm::row_major(48, 64, 32);
  const auto tuned_after = [&](const char* change) {
    Opened kiln;
    EXPECT_TRUE(kiln->tune(gemm, seconds(1)));
    kiln.engine.reset();
    SQLite::Database(kiln.dir / "kiln.db", SQLite::OPEN_READWRITE, 5000).exec(change);
    kiln.open();
    return kiln->tune(gemm, seconds(1000)).value();
  };
  EXPECT_TRUE(tuned_after("UPDATE search SET whole_space = 1").already_tuned);
  const TuneReport before = tuned_after("DELETE FROM search");
  EXPECT_TRUE(before.already_tuned);
  EXPECT_FALSE(before.searched);

  Opened maker;
  bool screened = false;
  ASSERT_TRUE(maker->tune(gemm, cancelled_early(10, screened)));
  ASSERT_TRUE(maker->impl().store->transfer().export_to(maker.dir / "app.kiln"));
  const TempDir user;
  auto engine = Engine::open(
      {.database = user / "kiln.db", .shipped = {maker.dir / "app.kiln"}, .threads = 1});
  ASSERT_TRUE(engine) << engine.error().message;
  engine->impl().tuning.make_evaluator = test::fake_bench;
  const auto shipped = engine->tune(gemm, seconds(1000));
  ASSERT_TRUE(shipped) << shipped.error().message;
  EXPECT_TRUE(shipped->already_tuned);
  EXPECT_TRUE(shipped->searched->interrupted) << "and says how far it was searched";
}

}  // namespace kiln::resume_test
