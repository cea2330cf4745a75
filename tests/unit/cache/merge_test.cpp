// Merging files of equal rank: what is kept follows from the rows, never from the order of files.
#include "cache/exchange/merge.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <optional>
#include <random>

#include "cache/exchange/transfer.h"
#include "cache/keys.h"
#include "cache/layers/schema.h"
#include "cache/records/binaries.h"
#include "cache/records/devices.h"
#include "cache/records/maintenance.h"
#include "cache/records/measurements.h"
#include "cache/records/ranges.h"
#include "cache/records/winners.h"
#include "cache/rows/range_kernels.h"
#include "cache/rows/rows.h"
#include "generator/families/cpu/packed/config.h"
#include "support/child.h"
#include "support/database_dump.h"
#include "support/seed.h"
#include "support/stored.h"
#include "support/temp_dir.h"

namespace kiln::merge_test {

using test::code_of;
using test::config_of;
using test::database_dump;
using test::key_of;
using test::kNow;
using test::open_store;
using test::store_winner;
using test::tamper;
using test::timed;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Files = std::vector<std::filesystem::path>;

const BestKey kKey = key_of(64, 96, 128);

MergeReport merge(const std::filesystem::path& into, const Files& files,
                  const MergeOptions& options = {}) {
  auto report = open_store(into)->transfer().merge_from(files, options);
  if (!report) throw std::runtime_error(report.error().message);
  return std::move(*report);
}

Measured timed_so(int mr, const Timing& timing, Round round = Round::race) {
  Measured measured = timed(mr, timing.median_ns);
  measured.outcome = timing;
  measured.round = round;
  return measured;
}

/// A file with one winner.
std::filesystem::path file_of(const std::filesystem::path& file, const Measured& winner,
                              const BestKey& key = kKey) {
  auto store = open_store(file);
  EXPECT_TRUE(store->measurements().put(key, kNow, winner));
  EXPECT_TRUE(store->binaries().put(code_of(winner.config.as<HostPacked>().mr)));
  EXPECT_TRUE(store->winners().make_winner(key, kNow, winner.config));
  return file;
}

BestKey key_on(const char* cpu, std::int64_t m) {
  BestKey key = key_of(m, 96, 128);
  key.device = cpu_caps_named(cpu).value();
  return key;
}

/// A file as one of several machines would make it: two devices, two runtimes, times and failures
/// drawn from a seed, several files naming the same candidates.
void draw_file(const std::filesystem::path& file, unsigned seed) {
  std::mt19937 random(seed);
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  auto store = open_store(file);
  for (const char* cpu : {"avx512", "avx2"})
    for (const std::int64_t m : {32, 64, 512}) {
      if (draw(4) == 0) continue;
      const BestKey key = key_on(cpu, m);
      Validators made_by = kNow;
      if (draw(2) == 0) made_by.runtime = "r2";
      int best = 0;
      for (int mr = 2; mr <= 8; ++mr) {
        if (draw(3) == 0) continue;
        if (draw(5) == 0) {
          ASSERT_TRUE(store->measurements().put(
              key, made_by, test::failed(mr, static_cast<Failure::Kind>(draw(7)))));
          continue;
        }
        const double ns = 1000 + draw(40);
        const double half = 1 + draw(30);
        ASSERT_TRUE(store->measurements().put(
            key, made_by,
            timed_so(mr, {ns, ns - half, ns + half, 1 + draw(40)}, static_cast<Round>(draw(3)))));
        ASSERT_TRUE(store->binaries().put(code_of(mr)));
        best = mr;
      }
      if (best == 0) continue;
      ASSERT_TRUE(store->winners().make_winner(key, made_by, config_of(best)));
      ASSERT_TRUE(store->measurements().put_search(key, made_by,
                                                   {.seconds = 1,
                                                    .budget_seconds = 9,
                                                    .spent_seconds = 2.0 + draw(2),
                                                    .measured = 1 + draw(9),
                                                    .enumerated = 40}));
      ASSERT_TRUE(store->devices().raise_peak(key.device, fp32, 1e9 * (1 + draw(5))));
      ASSERT_TRUE(
          store->devices().put_limits({.device = key.device, .fp32_flops = 1e9 * (1 + draw(5))}));
      ASSERT_TRUE(store->ranges().put(key, key.gemm.with_m(1, 512),
                                      {{{512, m, config_of(best), 900.0 + draw(3)}}}));
    }
  store.reset();
  tamper(file,
         fmt::format(
             "UPDATE measurement SET created = '2026-11-0' || (1 + (id * {0}) % 7) "
             "|| 'T10:00:00Z'; UPDATE range SET created = '2026-11-0' || "
             "(1 + (id * {0}) % 7) || 'T10:00:00Z'; UPDATE limits SET created = '2026-11-0' || "
             "(1 + (id * {0}) % 7) || 'T10:00:00Z'",
             seed + 3));
}

TEST(Merge, TheOrderOfFilesDoesNotMatter) {
  for (int n = 0; n < 3 * test::thorough(); ++n) {
    const auto seed = static_cast<unsigned>(test::seed_of_run()) + static_cast<unsigned>(n);
    TempDir dir;
    Files files;
    for (unsigned i = 0; i < 4; ++i) {
      files.push_back(dir / fmt::format("{}.db", i));
      draw_file(files.back(), 10 * seed + i);
    }
    ::chmod(files[3].c_str(), 0666);  // its code is not trusted
    merge(dir / "once.db", files);
    const std::string once = database_dump(dir / "once.db");
    EXPECT_TRUE(open_store(dir / "once.db")->maintenance().check(false)->ok());
    Files order = files;
    for (int i = 0; std::next_permutation(order.begin(), order.end()) && i < 5; ++i) {
      merge(dir / fmt::format("order{}.db", i), order);
      EXPECT_EQ(test::first_difference(database_dump(dir / fmt::format("order{}.db", i)), once),
                "");
    }
    // One after the other, in pairs, and again.
    for (auto file = files.rbegin(); file != files.rend(); ++file) merge(dir / "steps.db", {*file});
    EXPECT_EQ(test::first_difference(database_dump(dir / "steps.db"), once), "") << seed;
    merge(dir / "left.db", {files[0], files[2]});
    merge(dir / "right.db", {files[3], files[1]});
    merge(dir / "pairs.db", {dir / "right.db", dir / "left.db"});
    EXPECT_EQ(test::first_difference(database_dump(dir / "pairs.db"), once), "") << seed;
    const MergeReport again = merge(dir / "once.db", files);
    EXPECT_EQ(test::first_difference(database_dump(dir / "once.db"), once), "") << seed;
    EXPECT_EQ(again.added + again.replaced + again.dethroned + again.binaries, 0);
  }
}

TEST(Merge, ASearchThatWasCutShortDoesNotHideOneThatEnded) {
  TempDir dir;
  const SearchExtent cut{.budget_seconds = 20,
                         .spent_seconds = 19,
                         .measured = 300,
                         .enumerated = 900,
                         .interrupted = true};
  const SearchExtent ended{
      .budget_seconds = 20, .spent_seconds = 20, .measured = 290, .enumerated = 900};
  const SearchExtent whole{.budget_seconds = 20,
                           .spent_seconds = 5,
                           .measured = 280,
                           .enumerated = 900,
                           .whole_space = true};
  Files files;
  for (const SearchExtent& searched : {cut, ended, whole}) {
    files.push_back(
        file_of(dir / fmt::format("{}.db", searched.measured), timed_so(6, {1000, 995, 1005, 31})));
    ASSERT_TRUE(open_store(files.back())->measurements().put_search(kKey, kNow, searched));
  }
  const auto kept = [&](const Files& merged) {
    merge(dir / fmt::format("own{}.db", merged.size()), merged);
    return open_store(dir / fmt::format("own{}.db", merged.size()))
        ->winners()
        .best(kKey, kNow)
        ->searched;
  };
  EXPECT_EQ(kept({files[0], files[1]}), ended);
  EXPECT_EQ(kept(files), whole);
}

TEST(Merge, AFewQuickSamplesDoNotBeatARace) {
  TempDir dir;
  const Files files{file_of(dir / "a.db", timed_so(6, {1000, 995, 1005, 31})),
                    file_of(dir / "b.db", timed_so(8, {900, 890, 1400, 3}, Round::screen))};
  const MergeReport report = merge(dir / "own.db", files);
  auto own = open_store(dir / "own.db");
  ASSERT_TRUE(own->winners().best(kKey, kNow));
  EXPECT_EQ(own->winners().best(kKey, kNow)->measured.config, config_of(6));
  EXPECT_EQ(own->winners().best(kKey, kNow)->image, code_of(6).image);
  EXPECT_THAT(own->measurements().known(kKey, kNow), SizeIs(2)) << "the other is evidence";
  ASSERT_THAT(report.conflicts, SizeIs(1));
  const MergeConflict& conflict = report.conflicts[0];
  EXPECT_EQ(conflict.key, kKey);
  EXPECT_EQ(conflict.kept.measured.config, config_of(6));
  EXPECT_THAT(conflict.kept.files, ElementsAre(dir / "a.db"));
  EXPECT_EQ(conflict.other.measured.timing().median_ns, 900);
  EXPECT_THAT(conflict.other.files, ElementsAre(dir / "b.db"));
  EXPECT_EQ(conflict.why, "its last round was race, the other's screen");
}

TEST(Merge, WhatDecidesIsTheFirstDifference) {
  const Timing base{1000, 990, 1010, 31};
  const auto why = [](const Timing& a, const Timing& b) {
    const WinnerWeight first = weight_of(timed_so(6, a), "2026-11-01"),
                       second = weight_of(timed_so(8, b), "2026-11-01");
    EXPECT_TRUE(outweighs(first, second).empty() || outweighs(second, first).empty());
    return outweighs(first, second);
  };
  EXPECT_THAT(why(base, {1100, 1090, 1110, 31}), HasSubstr("surely shorter"));
  EXPECT_EQ(why({1100, 1090, 1110, 31}, base), "");
  // The smaller median has the wider interval, or fewer samples.
  EXPECT_THAT(why(base, {980, 900, 1200, 31}), HasSubstr("surely shorter"));
  EXPECT_THAT(why(base, {999, 999, 999, 2}), HasSubstr("surely shorter"));
  EXPECT_THAT(why(base, {1000, 990, 1010, 20}), HasSubstr("31 samples, the other's 20"));
  EXPECT_THAT(why(base, {1000, 980, 1010, 31}), HasSubstr("narrower"));
  EXPECT_EQ(why(base, base), "");
  WinnerWeight here = weight_of(timed_so(6, base), "2026-11-01"), there = here;
  there.created = "2026-11-02";
  EXPECT_THAT(outweighs(there, here), HasSubstr("measured later"));
  here.searched = 5;
  EXPECT_THAT(outweighs(here, there), HasSubstr("its search measured 5"));
  there.runs = true;
  EXPECT_THAT(outweighs(there, here), HasSubstr("code is stored"));
  here.in_range = true;
  EXPECT_THAT(outweighs(here, there), HasSubstr("range"));
}

TEST(Merge, OfTwoMeasurementsOfACandidateTheOneWithMoreBehindItStays) {
  TempDir dir;
  file_of(dir / "own.db", timed_so(6, {1000, 900, 1100, 5}, Round::screen));
  const MergeReport report =
      merge(dir / "own.db", {file_of(dir / "a.db", timed_so(6, {1050, 1040, 1060, 40}))});
  EXPECT_EQ(report.added, 0);
  EXPECT_EQ(report.replaced, 1);
  EXPECT_THAT(report.conflicts, IsEmpty());
  const auto won = open_store(dir / "own.db")->winners().best(kKey, kNow);
  ASSERT_TRUE(won);
  EXPECT_EQ(won->measured.timing().samples, 40);
  EXPECT_EQ(won->image, code_of(6).image);
}

TEST(Merge, AWrongResultElsewhereIsNoWinner) {
  TempDir dir;
  file_of(dir / "own.db", timed(6, 900));
  {
    auto other = open_store(dir / "a.db");
    Measured wrong = test::failed(6, Failure::Kind::wrong_result);
    wrong.binary_key = "binary6";
    ASSERT_TRUE(other->binaries().put(code_of(6)));
    ASSERT_TRUE(other->measurements().put(kKey, kNow, wrong));
    store_winner(*other, kKey, 8, 1000);
  }
  const MergeReport report = merge(dir / "own.db", {dir / "a.db"});
  EXPECT_EQ(report.dethroned, 1);
  auto own = open_store(dir / "own.db");
  ASSERT_TRUE(own->winners().best(kKey, kNow));
  EXPECT_EQ(own->winners().best(kKey, kNow)->measured.config, config_of(8));
}

TEST(Merge, NothingCrossesDevices) {
  TempDir dir;
  const BestKey big = key_on("avx512", 64), small = key_on("avx2", 64);
  const Files files{file_of(dir / "a.db", timed(6, 1000), big),
                    file_of(dir / "b.db", timed(8, 500), small)};
  const MergeReport report = merge(dir / "own.db", files);
  EXPECT_THAT(report.conflicts, IsEmpty());
  EXPECT_THAT(report.devices, SizeIs(2));
  auto own = open_store(dir / "own.db");
  EXPECT_EQ(own->winners().best(big, kNow)->measured.config, config_of(6));
  EXPECT_EQ(own->winners().best(small, kNow)->measured.config, config_of(8));

  const MergeReport one = merge(dir / "one.db", files, {.device = fingerprint(small.device)});
  EXPECT_EQ(one.files[0].other_devices, 1);
  EXPECT_THAT(one.devices, SizeIs(1));
  EXPECT_FALSE(open_store(dir / "one.db")->winners().best(big, kNow));
  EXPECT_FALSE(open_store(dir / "one.db")->binaries().by_key("binary6"));
  EXPECT_TRUE(open_store(dir / "one.db")->winners().best(small, kNow));
  const auto none = open_store(dir / "none.db")->transfer().merge_from(files, {.device = "H200"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::bad_input);
  EXPECT_THAT(none.error().message, AllOf(HasSubstr("device = \"H200\""), HasSubstr("2 are of")));
}

TEST(Merge, CodeOfAFileThatOthersMayWriteIsLeftOut) {
  TempDir dir;
  const auto theirs = file_of(dir / "theirs.db", timed_so(8, {500, 499, 501, 60}));
  ::chmod(theirs.c_str(), 0666);
  file_of(dir / "own.db", timed_so(6, {1000, 900, 1100, 5}, Round::second));
  // Not verified here; a stranger's word does not make it so.
  Measured screened = timed_so(8, {2000, 1990, 2010, 3}, Round::screen);
  screened.verified = false;
  {
    auto own = open_store(dir / "own.db");
    ASSERT_TRUE(own->measurements().put(kKey, kNow, screened));
    ASSERT_TRUE(own->binaries().put(code_of(8)));
  }
  const MergeReport report = merge(dir / "own.db", {theirs});
  EXPECT_FALSE(report.files[0].trusted);
  EXPECT_EQ(report.binaries, 0);
  const auto won = open_store(dir / "own.db")->winners().best(kKey, kNow);
  ASSERT_TRUE(won);
  EXPECT_EQ(won->measured.config, config_of(6));
  EXPECT_EQ(won->image, code_of(6).image);
}

TEST(Merge, AWinnerThatARangeNamesStays) {
  TempDir dir;
  file_of(dir / "a.db", timed_so(6, {1000, 990, 1010, 31}));
  {
    auto store = open_store(dir / "a.db");
    ASSERT_TRUE(
        store->ranges().put(kKey, kKey.gemm.with_m(1, 64), {{{64, 64, config_of(6), 1e3}}}));
  }
  const MergeReport report = merge(
      dir / "own.db", {file_of(dir / "b.db", timed_so(8, {900, 890, 910, 31})), dir / "a.db"});
  ASSERT_THAT(report.conflicts, SizeIs(1));
  EXPECT_EQ(report.conflicts[0].kept.measured.config, config_of(6));
  EXPECT_THAT(report.conflicts[0].why, HasSubstr("range"));
}

TEST(Merge, ADryRunWritesNothing) {
  TempDir dir;
  file_of(dir / "own.db", timed(6, 1000));
  const std::string before = database_dump(dir / "own.db");
  const MergeReport report =
      merge(dir / "own.db", {file_of(dir / "a.db", timed(8, 500))}, {.dry_run = true});
  EXPECT_EQ(report.added, 1);
  EXPECT_EQ(report.dethroned, 1);
  EXPECT_THAT(report.conflicts, SizeIs(1));
  EXPECT_THAT(report.conflicts[0].other.files, ElementsAre(dir / "own.db"));
  EXPECT_EQ(test::first_difference(database_dump(dir / "own.db"), before), "");
}

TEST(MergeInput, BadRowsAreLeftOutAndListed) {
  TempDir dir;
  const auto file = file_of(dir / "a.db", timed(6, 1000));
  {
    auto store = open_store(file);
    store_winner(*store, key_of(1, 2, 3), 7);
    store_winner(*store, key_of(4, 5, 6), 8);
  }
  tamper(file,
         "UPDATE measurement SET median_ns = -1 WHERE id = 1;"
         "UPDATE measurement SET binary_key = 'binary9' WHERE winner = 1 AND problem_id = 2;"
         "UPDATE problem SET m = 77 WHERE id = 3");
  const MergeReport report = merge(dir / "own.db", {file});
  EXPECT_FALSE(report.sound());
  ASSERT_THAT(report.files[0].left_out, SizeIs(3));
  for (const std::string& row : report.files[0].left_out)
    EXPECT_THAT(row, AllOf(HasSubstr("a.db"), HasSubstr(" row ")));
  auto own = open_store(dir / "own.db");
  EXPECT_TRUE(own->maintenance().check(false)->ok());
  EXPECT_TRUE(own->winners().list()->empty());
}

TEST(MergeInput, OlderFilesAreMigratedInACopy) {
  TempDir dir;
  {
    SQLite::Database old(dir / "old.db", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    ASSERT_TRUE(migrate(old, "old", migrations().first(3)));
  }
  ::chmod((dir / "old.db").c_str(), 0600);
  const MergeReport report =
      merge(dir / "own.db", {dir / "old.db", file_of(dir / "a.db", timed(6, 1000))});
  EXPECT_EQ(report.files[0].schema, 3);
  EXPECT_EQ(report.added, 1);
  SQLite::Database old(dir / "old.db", SQLite::OPEN_READONLY);
  EXPECT_EQ(*read_version(old, "old"), 3) << "left as it was";
}

TEST(MergeInput, AFileThatCannotBeMergedStopsAllOfThem) {
  TempDir dir;
  const auto good = file_of(dir / "good.db", timed(6, 1000));
  file_of(dir / "own.db", timed(8, 1000));
  const std::string before = database_dump(dir / "own.db");
  const auto refused = [&](const std::filesystem::path& file) {
    const auto report = open_store(dir / "own.db")->transfer().merge_from({good, file}, {});
    EXPECT_FALSE(report) << file;
    EXPECT_EQ(test::first_difference(database_dump(dir / "own.db"), before), "") << file;
    return report ? Error{} : report.error();
  };
  EXPECT_THAT(refused(dir / "absent.db").message, HasSubstr("absent.db: no such file"));
  EXPECT_EQ(refused(dir / "absent.db").code, ErrorCode::bad_input);
  EXPECT_THAT(refused(dir / "own.db").message, HasSubstr("is the database itself"));

  std::ofstream(dir / "text.db") << std::string(5000, 'x');
  EXPECT_THAT(refused(dir / "text.db").message, HasSubstr("text.db"));
  std::ofstream(dir / "empty.db").flush();
  EXPECT_THAT(refused(dir / "empty.db").message, HasSubstr("empty.db"));
  file_of(dir / "newer.db", timed(6, 1000));
  tamper(dir / "newer.db", "PRAGMA user_version = 99");
  EXPECT_THAT(refused(dir / "newer.db").message,
              AllOf(HasSubstr("newer.db"), HasSubstr("schema version 99 is newer")));
  {
    auto large = open_store(dir / "large.db");
    for (int m = 1; m < 40; ++m) store_winner(*large, key_of(m, 96, 128), 6);
    ASSERT_TRUE(large->transfer().export_to(dir / "damaged.db"));
  }
  {
    std::fstream file(dir / "damaged.db", std::ios::in | std::ios::out | std::ios::binary);
    for (std::streamoff page = 4096 * 8; page < 4096 * 20; page += 4096 * 3) {
      file.seekp(page);
      file << std::string(512, '\xff');
    }
  }
  EXPECT_THAT(refused(dir / "damaged.db").message, HasSubstr("damaged.db"));
}

TEST(MergeInput, AFullDiskLosesNothing) {
  TempDir dir;
  file_of(dir / "own.db", timed(6, 1000));
  {
    auto store = open_store(dir / "a.db");
    for (int m = 1; m < 300; ++m) store_winner(*store, key_of(m, 96, 128), 7);
  }
  tamper(dir / "own.db", "PRAGMA journal_mode = DELETE");
  const std::string before = database_dump(dir / "own.db");
  const pid_t child = test::start_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);  // then a write past the limit fails as on a full disk
    const rlimit full{.rlim_cur = 200'000, .rlim_max = RLIM_INFINITY};
    if (::setrlimit(RLIMIT_FSIZE, &full) != 0) return false;
    auto store = Store::open({.database = dir / "own.db"});
    if (!store) return false;
    const auto report = (*store)->transfer().merge_from({dir / "a.db"}, {});
    return !report && report.error().code == ErrorCode::database &&
           report.error().message.find("own.db") != std::string::npos;
  });
  EXPECT_TRUE(test::wait_for(child));
  EXPECT_EQ(test::first_difference(database_dump(dir / "own.db"), before), "");
  EXPECT_TRUE(open_store(dir / "own.db")->maintenance().check(false)->ok());
  EXPECT_EQ(merge(dir / "own.db", {dir / "a.db"}).winners, 298) << "one was here";
}

/// 10,000 measurements of 200 problems, by the store's own writers.
void write_large(const std::filesystem::path& file) {
  { open_store(file); }
  SQLite::Database db(file.string(), SQLite::OPEN_READWRITE);
  db.exec("PRAGMA foreign_keys = ON; BEGIN");
  for (int m = 1; m <= 200; ++m) {
    const BestKey key = key_of(m, 96, 128);
    const KeyIds ids{.device = device_row(db, key.device),
                     .problem = problem_row(db, key.gemm),
                     .toolchain = toolchain_row(db, kNow)};
    for (int mr = 1; mr <= 50; ++mr) {
      Measured measured = timed(mr, 1000 + mr);
      measured.binary_key.clear();
      put_measurement(db, key, ids, measured, std::nullopt);
    }
  }
  db.exec(
      "UPDATE measurement SET winner = 1 WHERE config_id = "
      "(SELECT id FROM config ORDER BY id LIMIT 1); COMMIT");
}

/// Counts the instructions of SQLite's machine in every connection that is opened while it lives.
class CountedSteps {
 public:
  CountedSteps() {
    steps_ = 0;
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(&count));
  }
  ~CountedSteps() { sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(&count)); }
  static std::int64_t steps() { return steps_; }

 private:
  static constexpr int kAtOnce = 1000;
  static int count(sqlite3* db, const char**, const void*) {
    const auto more = [](void*) {
      steps_ += kAtOnce;
      return 0;
    };
    sqlite3_progress_handler(db, kAtOnce, more, nullptr);
    return SQLITE_OK;
  }
  static inline std::atomic<std::int64_t> steps_{0};
};

/// A kernel has the row that its table names, also where another file's table has another kernel of
/// the same size that was faster there.
TEST(MergeRanges, TheTableThatIsKeptKeepsItsKernel) {
  TempDir dir;
  BestKey at = kKey;
  at.gemm.m = 16;
  const GemmRange range = kKey.gemm.with_m(1, 64);
  const auto fill = [&](const char* file, int kernel, double ns, const char* day) {
    const auto store = open_store(dir / file);
    store_winner(*store, at, kernel, ns);
    ASSERT_TRUE(store->ranges().put(kKey, range, {{{64, 16, config_of(kernel), 1e3}}}));
    tamper(dir / file, fmt::format("UPDATE range SET created = '{}T10:00:00Z'", day));
  };
  fill("new.db", 6, 900, "2030-01-02");
  fill("old.db", 8, 500, "2030-01-01");
  for (const auto& files :
       {std::vector{dir / "new.db", dir / "old.db"}, std::vector{dir / "old.db", dir / "new.db"}}) {
    const auto store = open_store(":memory:");
    ASSERT_TRUE(store->transfer().merge_from(files, {}));
    const auto ranges = store->ranges().like(kKey, Size::m);
    ASSERT_EQ(ranges.size(), 1u);
    EXPECT_EQ(ranges[0].table.cells[0].config, config_of(6));
    BestKey own = at;
    own.policy = range_policy(at.policy, range);
    const auto kernel = store->winners().best(own, kNow);
    ASSERT_TRUE(kernel);
    EXPECT_EQ(kernel->measured.config, config_of(6));
  }
}

/// A row costs its look-up and its write: nothing that grows with the square of the rows.
TEST(MergeWork, TenFilesOfTenThousandRowsTakeSomeInstructionsEach) {
  TempDir dir;
  write_large(dir / "0.db");
  Files files{dir / "0.db"};
  for (int i = 1; i < 10; ++i) {
    files.push_back(dir / fmt::format("{}.db", i));
    std::filesystem::copy_file(files[0], files.back());
    // Other times, another winner in a third of the problems, and half of the problems others.
    tamper(files.back(),
           fmt::format("UPDATE measurement SET samples = 1 + (id * 7919 + {0} * 104729) % 40, "
                       "median_ns = median_ns + (id * {0}) % 17;"
                       "UPDATE measurement SET high_ns = median_ns + 2, low_ns = median_ns - 1;"
                       "UPDATE measurement SET winner = 0 WHERE problem_id % 3 = {0} % 3;"
                       "UPDATE measurement SET winner = 1 WHERE problem_id % 3 = {0} % 3 AND "
                       "config_id = (SELECT id FROM config ORDER BY id LIMIT 1 OFFSET {0})",
                       i));
  }
  std::optional<CountedSteps> counted(std::in_place);
  const MergeReport report = merge(dir / "own.db", files);
  const double rows = 10 * 10'000;
  fmt::print("{:.0f} instructions a row\n", double(CountedSteps::steps()) / rows);
  EXPECT_LE(double(CountedSteps::steps()) / rows, 1000);
  counted.reset();
  EXPECT_EQ(report.added, 10'000);
  EXPECT_GT(report.conflicts.size(), 100u);
  std::ranges::reverse(files);
  merge(dir / "reversed.db", files);
  EXPECT_EQ(
      test::first_difference(database_dump(dir / "own.db"), database_dump(dir / "reversed.db")),
      "");
}

}  // namespace kiln::merge_test
