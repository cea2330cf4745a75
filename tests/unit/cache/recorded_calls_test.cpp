// The calls file: sums of many writers, and files that are not such a file, damaged, newer or busy.
#include "cache/exchange/recorded_calls.h"

#include <SQLiteCpp/Database.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cache/store.h"
#include "support/child.h"
#include "support/kiln_command.h"
#include "support/temp_dir.h"

namespace kiln::recorded_calls_test {

using std::chrono::milliseconds;
using test::KilnCommand;
using testing::AllOf;
using testing::HasSubstr;

RecordedCalls some(std::int64_t m, std::int64_t calls, double ns_per_call = 10, int threads = 1) {
  return {.device = "cpu",
          .gemm = Gemm::row_major(m, 3, 5),
          .threads = threads,
          .calls = calls,
          .timed_calls = calls,
          .timed_ns = ns_per_call * static_cast<double>(calls)};
}

std::string why(const Status& status) { return status ? "" : status.error().message; }

/// Both the reader's and the writer's message about a file, which neither of them changes.
void expect_refused(const std::filesystem::path& file, const std::string& reason) {
  const std::string before = KilnCommand::read(file);
  const auto read = read_calls(file, milliseconds(50));
  ASSERT_FALSE(read) << reason;
  EXPECT_EQ(read.error().code, ErrorCode::database);
  EXPECT_THAT(read.error().message, AllOf(HasSubstr(file.string()), HasSubstr(reason)));
  const Status added = add_calls(file, std::vector{some(1, 1)}, milliseconds(50));
  EXPECT_THAT(why(added), AllOf(HasSubstr(file.string()), HasSubstr(reason)));
  EXPECT_THAT(why(prepare_calls(file)), HasSubstr(reason));
  EXPECT_EQ(KilnCommand::read(file), before);
}

TEST(RecordedCalls, AreAddedByDeviceProblemAndThreads) {
  TempDir dir;
  const auto file = dir / "calls";
  ASSERT_EQ(why(prepare_calls(file)), "");
  EXPECT_TRUE(read_calls(file).value().empty());
  RecordedCalls elsewhere = some(8, 1, 1);
  elsewhere.device = "cuda";
  RecordedCalls untimed = some(9, 4);
  untimed.timed_calls = 0;
  untimed.timed_ns = 0;
  ASSERT_EQ(why(add_calls(file, std::vector{some(8, 2), some(7, 100), elsewhere}, kShortWait)), "");
  ASSERT_EQ(
      why(add_calls(file, std::vector{some(8, 3, 20), some(8, 50, 30, 2), untimed}, kShortWait)),
      "");
  const auto rows = read_calls(file).value();
  const RecordedCalls sum{"cpu", Gemm::row_major(8, 3, 5), 1, 5, 5, 80};
  EXPECT_THAT(rows,
              testing::ElementsAre(some(8, 50, 30, 2), some(7, 100), sum, elsewhere, untimed));
  EXPECT_DOUBLE_EQ(sum.ns_per_call(), 16);
  EXPECT_EQ(untimed.total_ns(), 0);
}

TEST(RecordedCalls, EveryFieldOfTheProblemIsKept) {
  TempDir dir;
  RecordedCalls row = some(8, 2);
  row.gemm = Gemm::row_major(16, 32, 64, DType::bf16).transpose_b().output(DType::fp32);
  row.gemm.batch = 3;
  row.gemm.alignment = 16;
  row.gemm.a.ld = 80;
  row.gemm.epilogue.activation = Activation::silu;
  row.gemm.epilogue.bias = Bias::per_column;
  ASSERT_EQ(why(add_calls(dir / "calls", std::vector{row}, kShortWait)), "");
  EXPECT_THAT(read_calls(dir / "calls").value(), testing::ElementsAre(row));
}

TEST(RecordedCalls, OfManyProcessesAtOnceAreAllThere) {
  TempDir dir;
  const auto file = dir / "calls";
  constexpr int kProcesses = 6, kTimes = 25;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i)
    children.push_back(test::start_child([&] {
      bool all = true;
      for (int n = 0; n < kTimes; ++n)
        all = all && add_calls(file, std::vector{some(8, 1), some(9 + n, 1)}, milliseconds(60000));
      return all;
    }));
  for (const pid_t child : children) EXPECT_TRUE(test::wait_for(child));
  const auto rows = read_calls(file).value();
  ASSERT_EQ(rows.size(), 1u + kTimes);
  EXPECT_EQ(rows[0], some(8, kProcesses * kTimes));
  EXPECT_EQ(rows[1].calls, kProcesses);
}

TEST(RecordedCalls, OtherFilesAreRefusedAndLeftAlone) {
  TempDir dir;
  std::ofstream(dir / "notes") << "these are my notes, and no calls at all\n";
  expect_refused(dir / "notes", "file is not a database");
  ASSERT_TRUE(Store::open({.database = dir / "kiln.db", .shipped = {}}));
  expect_refused(dir / "kiln.db", "application_id = 0x6b696c6e: no file of recorded calls");
  std::filesystem::create_directory(dir / "folder");
  EXPECT_THAT(why(prepare_calls(dir / "folder")), HasSubstr("not a regular file"));
  const auto none = read_calls(dir / "none");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::bad_input);
  EXPECT_THAT(none.error().message, AllOf(HasSubstr("none"), HasSubstr("no such file")));
  EXPECT_FALSE(std::filesystem::exists(dir / "none"));
}

class OneCallsFile : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<RecordedCalls> rows;
    for (int m = 1; m <= 400; ++m) rows.push_back(some(m, m));
    ASSERT_EQ(why(add_calls(file_, rows, kShortWait)), "");
  }
  void edit(const char* sql) { SQLite::Database(file_.string(), SQLite::OPEN_READWRITE).exec(sql); }

  TempDir dir_;
  std::filesystem::path file_ = dir_ / "calls";
};

TEST_F(OneCallsFile, OfAnotherVersionIsRefusedAndLeftAlone) {
  edit("PRAGMA user_version = 7");
  expect_refused(file_, "version = 7: this kiln");
}

TEST_F(OneCallsFile, WithAViewIsRefusedAndLeftAlone) {
  edit("CREATE VIEW more AS SELECT * FROM calls");
  expect_refused(file_, "other tables than kiln's");
}

/// The name of a trigger may look like one of SQLite's own, and its type may be a lie.
TEST_F(OneCallsFile, WithCodeOfOthersIsRefusedAndLeftAlone) {
  const std::string endless =
      "BEFORE INSERT ON calls BEGIN SELECT (WITH RECURSIVE t(x) AS (VALUES (1) UNION ALL "
      "SELECT x + 1 FROM t) SELECT count(*) FROM t); END";
  edit(("CREATE TRIGGER sqlitex_hang " + endless).c_str());
  expect_refused(file_, "trigger sqlitex_hang is not kiln's");
  edit(
      "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET type = 'index', name = "
      "'sqlite_autoindex_calls_2' WHERE type = 'trigger'");
  expect_refused(file_, "sqlite_autoindex_calls_2");
}

TEST_F(OneCallsFile, WithAnotherTableOfThatNameIsRefused) {
  edit("ALTER TABLE calls ADD COLUMN more INTEGER AS (length(zeroblob(1000000000))) VIRTUAL");
  expect_refused(file_, "table calls is not kiln's");
  edit("DROP TABLE calls; CREATE VIEW calls AS SELECT 1 AS id");
  expect_refused(file_, "view calls is not kiln's");
}

TEST_F(OneCallsFile, OfTheCommandAnalyzeIsRead) {
  edit("ANALYZE");
  EXPECT_EQ(read_calls(file_).value().size(), 400u);
}

TEST_F(OneCallsFile, WithARowThatKilnDoesNotWriteIsDamaged) {
  const auto expect_damage = [&](const char* sql, const std::string& reason) {
    edit(sql);
    const auto read = read_calls(file_);
    ASSERT_FALSE(read) << sql;
    EXPECT_THAT(read.error().message,
                AllOf(HasSubstr(file_.string()), HasSubstr("damaged: row 7"), HasSubstr(reason)));
  };
  expect_damage("UPDATE calls SET calls = -1 WHERE id = 7", "calls = -1");
  expect_damage("UPDATE calls SET calls = 1, problem = 'fp31 N N 1 1 1' WHERE id = 7", "fp31");
}

TEST_F(OneCallsFile, WithNumbersThatNobodyCountedIsDamaged) {
  const std::pair<const char*, const char*> numbers[] = {
      {"calls = 9223372036854775807", "calls = 9223372036854775807"},
      {"timed_calls = 9223372036854775807", "timed_calls = 9223372036854775807"},
      {"threads = 4294967298", "threads = 4294967298"},
      {"threads = -4294967295", "threads = -4294967295"},
      {"timed_ns = 9e999", "timed_ns = inf"},
      {"timed_ns = -9e999", "timed_ns = -inf"},
      {"timed_ns = 1e300", "timed_ns = 1e+300"}};
  for (const auto& [change, reason] : numbers) {
    edit("DELETE FROM calls WHERE problem = 'fp32 N N 7 3 5'");
    edit(fmt::format("INSERT INTO calls SELECT 7, device, 'fp32 N N 7 3 5', 1, 1, 1, 1.0, first, "
                     "last FROM calls WHERE id = 1; UPDATE calls SET {} WHERE id = 7",
                     change)
             .c_str());
    const auto read = read_calls(file_);
    ASSERT_FALSE(read) << change;
    EXPECT_THAT(read.error().message, AllOf(HasSubstr("damaged: row 7"), HasSubstr(reason)));
    EXPECT_EQ(why(add_calls(file_, std::vector{some(7, 5)}, kShortWait)), "") << change;
  }
}

TEST_F(OneCallsFile, SumsStopAtTheLargestNumbers) {
  edit(fmt::format("UPDATE calls SET calls = {0}, timed_calls = {0}, timed_ns = 1e24 WHERE id = 7",
                   kMostCalls)
           .c_str());
  const RecordedCalls more = some(7, 1'000'000'000'000, 1e6);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(why(add_calls(file_, std::vector{more}, kShortWait)), "");
  const auto read = read_calls(file_);
  ASSERT_TRUE(read) << read.error().message;
  RecordedCalls sum = more;
  for (const RecordedCalls& row : *read) {
    if (row.gemm.m == 7) {
      EXPECT_EQ(row.calls, kMostCalls);
      EXPECT_EQ(row.timed_calls, kMostCalls);
      EXPECT_EQ(row.timed_ns, kMostCallNs);
    }
    sum.add(row);
  }
  EXPECT_EQ(sum.calls, kMostCalls);
  EXPECT_EQ(sum.timed_ns, kMostCallNs);
  EXPECT_EQ(sum_of_calls(kMostCalls, kMostCalls), kMostCalls);
  EXPECT_EQ(sum_of_calls(3, 4), 7);
}

TEST_F(OneCallsFile, WithPagesOverwrittenOrCutOffIsDamaged) {
  const std::string whole = KilnCommand::read(file_);
  ASSERT_GT(whole.size(), 16384u);
  std::string spoilt = whole;
  for (std::size_t at = 8192; at < 12288; ++at) spoilt[at] = '\xa5';
  for (const std::string& bytes : {spoilt, whole.substr(0, whole.size() - 6000)}) {
    std::ofstream(file_, std::ios::binary) << bytes;
    const auto read = read_calls(file_);
    ASSERT_FALSE(read);
    EXPECT_THAT(read.error().message, HasSubstr(file_.string()));
  }
}

TEST_F(OneCallsFile, BeingWrittenIsReadAsItWasOrIsAnErrorAfterAWait) {
  SQLite::Database writer(file_.string(), SQLite::OPEN_READWRITE);
  writer.exec("BEGIN IMMEDIATE; UPDATE calls SET calls = 5000 WHERE id = 7");
  auto read = read_calls(file_, milliseconds(50));
  ASSERT_TRUE(read) << read.error().message;
  for (const RecordedCalls& row : *read) EXPECT_NE(row.calls, 5000);
  EXPECT_THAT(why(add_calls(file_, std::vector{some(1, 1)}, milliseconds(50))),
              AllOf(HasSubstr(file_.string()), HasSubstr("locked")));
  writer.exec("ROLLBACK; BEGIN EXCLUSIVE");
  read = read_calls(file_, milliseconds(50));
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, AllOf(HasSubstr(file_.string()), HasSubstr("locked")));
  writer.exec("ROLLBACK");
  EXPECT_TRUE(read_calls(file_));
}

}  // namespace kiln::recorded_calls_test
