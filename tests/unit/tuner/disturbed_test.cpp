// A busy machine: a budget that is kept all the same, and times that say what they were taken
// beside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/records/proofs.h"
#include "engine/stored_record.h"
#include "generator/space/family.h"
#include "kiln/log.hpp"
#include "support/few.h"
#include "support/kiln_command.h"
#include "support/opened_engine.h"

namespace kiln::disturbed_test {

using test::Opened;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

const Gemm kGemm = Gemm::row_major(48, 64, 32);
constexpr const char* kWhy = "the core was slow or shared beside 30 of 40 samples";

/// Its times are of a machine on which other programs run, where `disturbed` says so.
class BusyBench : public test::FakeEvaluator {
 public:
  BusyBench(const SearchInput& input, bool disturbed)
      : FakeEvaluator(input), disturbed_(disturbed) {}
  std::vector<Measured> race(const std::vector<Measured>& finalists) override {
    std::vector<Measured> rows = FakeEvaluator::race(finalists);
    for (Measured& row : rows) row.disturbed = disturbed_ ? kWhy : "";
    return rows;
  }

 private:
  bool disturbed_;
};

/// Whether the machine is disturbed, and what the searches began with.
struct Machine {
  bool disturbed = true;
  std::vector<std::size_t> known = {};
  std::vector<double> budgets = {};
  void serve(Opened& kiln) {
    kiln->impl().tuning.make_evaluator = [this](const SearchInput& input, Compiler&) {
      known.push_back(input.known.size());
      budgets.push_back(input.options.budget.count());
      return Result<std::unique_ptr<Evaluator>>(std::make_unique<BusyBench>(input, disturbed));
    };
  }
};

// clock: its bench ends by count
TuneOptions seconds(double budget) { return {.budget = std::chrono::duration<double>(budget)}; }

TEST(Disturbed, TheReportAndTheLogSayIt) {
  Opened kiln;
  Machine machine;
  machine.serve(kiln);
  std::vector<std::string> logged;
  set_log([&](LogLevel, std::string_view message) { logged.emplace_back(message); });
  const auto report = kiln->tune(kGemm, seconds(10));
  set_log(nullptr);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->disturbed, kWhy);
  EXPECT_THAT(report->warnings,
              testing::Contains(AllOf(HasSubstr("disturbed machine"), HasSubstr(kWhy))));
  EXPECT_THAT(logged, testing::Contains(HasSubstr(kWhy)));
}

TEST(Disturbed, TheNextTuneSearchesAnewAndTheNextAfterAQuietOneDoesNot) {
  Opened kiln;
  Machine machine;
  machine.serve(kiln);
  ASSERT_TRUE(kiln->tune(kGemm, seconds(10)));
  kiln.open();
  machine.disturbed = false;
  machine.serve(kiln);
  const auto held = stored_record(*kiln.engine, kGemm, 1);
  ASSERT_TRUE(held);
  EXPECT_FALSE(is_complete(*held, 10));
  const auto again = kiln->tune(kGemm, seconds(10));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_FALSE(again->already_tuned);
  EXPECT_EQ(again->disturbed, "");
  EXPECT_THAT(again->warnings, IsEmpty());
  EXPECT_THAT(machine.known, testing::ElementsAre(0u, 0u))
      << "times of a busy machine order nothing";
  EXPECT_THAT(machine.budgets, testing::ElementsAre(10, 10)) << "all of it";
  EXPECT_TRUE(kiln->tune(kGemm, seconds(10))->already_tuned);
}

// Who counts candidates asks for the same work on any machine.
TEST(Disturbed, ACountOfCandidatesThatIsReachedIsComplete) {
  Opened kiln;
  Machine machine;
  machine.serve(kiln);
  ASSERT_TRUE(kiln->tune(kGemm, test::few(5)));
  const auto again = kiln->tune(kGemm, test::few(5));
  EXPECT_TRUE(again->already_tuned);
  EXPECT_EQ(again->disturbed, kWhy);
  EXPECT_THAT(again->warnings, testing::Contains(HasSubstr(kWhy)));
  EXPECT_FALSE(kiln->tune(kGemm, test::few(6))->already_tuned);
}

TEST(Disturbed, ListsAndExplanationsSayIt) {
  Opened kiln;
  Machine machine;
  machine.serve(kiln);
  ASSERT_TRUE(kiln->tune(kGemm, seconds(10)));
  EXPECT_THAT(*kiln->explain(kGemm), HasSubstr(std::string("disturbed: ") + kWhy));
  kiln.engine.reset();
  test::KilnCommand command;
  command.environment["KILN_DB"] = (kiln.dir / "kiln.db").string();
  EXPECT_THAT(command({"db", "list", "--wide"}).out, HasSubstr(" of 10 s, disturbed"));
  EXPECT_EQ(command({"db", "list", "--json"}).json().at(0)["disturbed"], kWhy);
  kiln.open();
  machine.disturbed = false;
  machine.serve(kiln);
  ASSERT_TRUE(kiln->tune(kGemm, seconds(10)));
  EXPECT_THAT(*kiln->explain(kGemm), testing::Not(HasSubstr("disturbed")));
}

/// A fake clock, far beyond any budget once a candidate has been screened, and real kernels.
// clock: no machine meets a budget of days
TEST(Busy, TuneReturnsItsFirstKernelAndTheNextOneProvesIt) {
  const Gemm gemm = Gemm::row_major(200, 150, 120);  // kernels have its sizes as arguments
  const TempDir locks;
  setenv("KILN_LOCK_DIR", locks.path().c_str(), 1);
  Opened kiln;
  kiln->impl().tuning.make_evaluator = worker_evaluator;
  bool spent = false;
  kiln->impl().tuning.clock = [&] { return std::int64_t{spent ? 1'000'000'000'000'000 : 0}; };
  TuneOptions options = seconds(1e5);
  options.progress = [&](const Progress& progress) {
    spent |= progress.stage == Progress::Stage::screen && progress.done > 0;
  };
  const auto cut = kiln->tune(gemm, options);
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_EQ(cut->measured, 1) << "the others of its group were left";
  EXPECT_TRUE(cut->stored);
  EXPECT_THAT(cut->warnings, testing::Contains(HasSubstr("before its kernel was proved")));
  const auto record = stored_record(*kiln.engine, gemm, 1);
  ASSERT_TRUE(record);
  EXPECT_TRUE(record->measured.verified);
  EXPECT_FALSE(kiln->impl().store->proofs().code_proven(*record));
  EXPECT_EQ(test::why(test::check(*kiln.engine, gemm)), "");

  kiln->impl().tuning.clock = now_ns;
  const auto again = kiln->tune(gemm, test::few(1));
  unsetenv("KILN_LOCK_DIR");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->already_tuned);
  EXPECT_TRUE(kiln->impl().store->proofs().code_proven(*record));
}

}  // namespace kiln::disturbed_test
