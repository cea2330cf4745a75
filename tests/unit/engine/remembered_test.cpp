// What tune() says when its winner will not be there for later processes: both faces, plainly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "kiln/kiln.h"
#include "support/child.h"
#include "support/opened_engine.h"
#include "support/permissions.h"

namespace kiln::remembered_test {

using test::Opened;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

const Gemm kGemm = Gemm::row_major(8, 8, 8);
constexpr const char* kLost = "not stored: the winner for";

/// In a child: a failed demand is told on stderr.
void demand(bool held, const std::string& what) {
  if (!held) throw std::runtime_error(what);
}

TEST(Remembered, AStoredWinnerIsSaidToBe) {
  Opened kiln;
  const auto report = kiln->tune(kGemm);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->stored);
  EXPECT_THAT(report->warnings, IsEmpty());
  const auto again = kiln->tune(kGemm);
  EXPECT_TRUE(again->already_tuned);
  EXPECT_TRUE(again->stored);
  EXPECT_THAT(again->warnings, IsEmpty());
  EXPECT_TRUE(kiln->tune(Gemm::row_major(0, 8, 8))->stored) << "there was nothing to store";
}

TEST(Remembered, AFileDeletedOrReplacedWhileTuningIsNamed) {
  for (const bool replaced : {false, true}) {
    Opened kiln;
    const auto file = kiln.dir / "kiln.db";
    TuneOptions options;
    options.progress = [&](const Progress&) {
      std::filesystem::remove(file);
      if (replaced) std::ofstream(file) << "another file";
    };
    const auto report = kiln->tune(kGemm, options);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_FALSE(report->stored);
    ASSERT_EQ(report->warnings.size(), 2u);
    EXPECT_THAT(report->warnings[0],
                AllOf(StartsWith(kLost), HasSubstr(text(kGemm)), HasSubstr(file.string())));
    EXPECT_THAT(report->warnings[1], HasSubstr("removed or replaced while open"));
    EXPECT_EQ(kiln->plan(kGemm)->match(), Match::exact) << "this engine uses it all the same";
    EXPECT_FALSE(kiln->tune(kGemm)->stored) << "nor is a record that only the lost file has";
  }
}

TEST(Remembered, WithoutAFileNothingIs) {
  EXPECT_TRUE(test::in_child([] {
    ::unsetenv("KILN_DB");
    ::setenv("XDG_CACHE_HOME", "/proc/none", 1);
    auto engine = Engine::open({.threads = 1});
    demand(engine.has_value(), "no engine");
    engine->impl().tuning.make_evaluator = test::fake_bench;
    for (const bool already : {false, true}) {
      const auto report = engine->tune(kGemm);
      demand(report && report->already_tuned == already, "tune()");
      demand(!report->stored, "stored");
      demand(report->warnings.at(0).starts_with(kLost), report->warnings.at(0));
    }
    return true;
  }));
}

/// kiln_tune() with the real worker on a database that this process may not write.
bool tune_from_c(const std::filesystem::path& file) {
  kiln_options options;
  kiln_options_init(&options);
  const std::string name = file.string();
  options.database = name.c_str();
  options.threads = 1;
  kiln_engine* engine = nullptr;
  demand(kiln_open(&options, &engine) == KILN_OK, kiln_last_error());
  kiln_gemm_desc desc;
  kiln_gemm_desc_init(&desc, 8, 8, 8, KILN_FP32);
  kiln_tune_report report;
  kiln_tune_report_init(&report);
  demand(kiln_tune(engine, &desc, 0.3, 0, &report) == KILN_OK, kiln_last_error());
  const std::string warnings = report.warnings;
  demand(report.stored == 0, "stored");
  demand(report.warning_count >= 2, "warning_count");
  demand(warnings.starts_with(kLost), warnings);
  demand(warnings.find('\n') != warnings.npos && warnings.find("read only") != warnings.npos,
         warnings);

  // Without a report, or with one of an older header, they must not be lost.
  testing::internal::CaptureStderr();
  demand(kiln_tune(engine, &desc, 0.3, 0, nullptr) == KILN_OK, kiln_last_error());
  const std::string logged = testing::internal::GetCapturedStderr();
  demand(logged.find(kLost) != logged.npos, "logged: " + logged);
  kiln_close(engine);
  return true;
}

TEST(Remembered, CHearsItToo) {
  TempDir dir;
  { ASSERT_TRUE(Store::open({.database = dir / "kiln.db"})); }
  ::chmod((dir / "kiln.db").c_str(), 0444);
  ::chmod(dir.path().c_str(), 0555);
  EXPECT_TRUE(
      test::in_child([&] { return test::obey_permissions() && tune_from_c(dir / "kiln.db"); }));
  ::chmod(dir.path().c_str(), 0755);
}

/// tune() that nobody called gives its report to nobody: the log has it.
TEST(Remembered, TuningByPolicyLogsIt) {
  TempDir dir;
  Opened kiln(Policy::tune_now);
  std::filesystem::remove(kiln.dir / "kiln.db");
  testing::internal::CaptureStderr();
  EXPECT_EQ(kiln->plan(kGemm)->match(), Match::exact);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(kLost));
}

}  // namespace kiln::remembered_test
