// `kiln db` as an operator runs it: what it prints, its JSON and its exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "cache/records/measurements.h"
#include "cache/records/winners.h"
#include "support/kiln_command.h"
#include "support/stored.h"

namespace kiln::cli_db_test {

using test::CommandResult;
using test::KilnCommand;
using test::open_store;
using test::store_winner;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TEST(CliDb, MergeListsConflictsAndSaysWhatItDid) {
  const KilnCommand kiln;
  const auto a = kiln.folder / "a.db", b = kiln.folder / "b.db";
  store_winner(*open_store(a), test::key_of(64, 96, 128), 6, 1000);
  store_winner(*open_store(b), test::key_of(64, 96, 128), 8, 1200);
  const CommandResult dry = kiln({"db", "merge", a, b, "--dry-run"});
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_THAT(dry.out, AllOf(HasSubstr("conflict: fp32 N N 64 96 128 on avx512 (1 threads)"),
                             HasSubstr("because   its time is surely shorter"),
                             HasSubstr("would be: 4 measurements added")));
  const CommandResult merged = kiln({"db", "merge", b, a, "--json"});
  EXPECT_EQ(merged.exit_code, 0) << merged.err;
  const auto lines = merged.json();
  ASSERT_THAT(lines, SizeIs(5));
  EXPECT_EQ(lines[0]["file"], b.string());
  EXPECT_EQ(lines[2]["measurements"], 4);
  const auto& conflict = lines[3]["conflict"];
  EXPECT_EQ(conflict["shape"], "fp32 N N 64 96 128");
  EXPECT_EQ(conflict["kept"]["median_ns"], 1000);
  EXPECT_THAT(conflict["kept"]["files"], ElementsAre(a.string()));
  EXPECT_EQ(lines[4]["summary"]["added"], 4);
  EXPECT_EQ(lines[4]["summary"]["conflicts"], 1);

  test::tamper(a, "UPDATE measurement SET median_ns = 0 WHERE winner = 1");
  const CommandResult bad = kiln({"db", "merge", a});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.out, AllOf(HasSubstr("bad rows left out"), HasSubstr("a.db: measurement row 1")));
}

TEST(CliDb, DiffComparesTwoFilesAndTwoDrivers) {
  const KilnCommand kiln;
  const auto a = kiln.folder / "a.db", b = kiln.folder / "b.db";
  store_winner(*open_store(a), test::key_of(64, 96, 128), 6, 1000);
  store_winner(*open_store(b), test::key_of(64, 96, 128), 8, 800);
  const CommandResult plain = kiln({"db", "diff", a, b});
  EXPECT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_THAT(plain.out, AllOf(HasSubstr("faster"), HasSubstr("other"), HasSubstr("-20.0 % [-20"),
                               HasSubstr("1 problems: 1 faster, 0 slower, 0 the same; 1 other")));
  const auto lines = kiln({"db", "diff", a, b, "--json"}).json();
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[0]["change"], "faster");
  EXPECT_EQ(lines[0]["significant"], true);
  EXPECT_EQ(lines[0]["ratio"], 1.25);
  EXPECT_EQ(lines[1]["summary"]["other_winners"], 1);

  Validators newer = test::kNow;
  newer.runtime = "driver 12.8";
  {
    auto store = open_store(a);
    ASSERT_TRUE(store->measurements().put(test::key_of(64, 96, 128), newer, test::timed(6, 1100)));
    ASSERT_TRUE(store->winners().make_winner(test::key_of(64, 96, 128), newer, test::config_of(6)));
  }
  EXPECT_THAT(kiln({"db", "diff", a, "--drivers", "r1", "12.8"}).out, HasSubstr("1 slower"));
  const CommandResult unknown = kiln({"db", "diff", a, "--drivers", "r1", "13"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("drivers = \"13\""), HasSubstr("driver 12.8")));
  EXPECT_EQ(kiln({"db", "diff", a}).exit_code, 2);
}

TEST(CliDb, MeasurementsAsCsvJsonAndT4AndBack) {
  const KilnCommand kiln;
  store_winner(*open_store(kiln.folder / "kiln.db"), test::key_of(64, 96, 128), 6);
  store_winner(*open_store(kiln.folder / "kiln.db"), test::key_of(1, 2, 3), 6);
  const CommandResult csv = kiln({"db", "measurements", "--csv", "--shape", "fp32 N N 64 96 128"});
  EXPECT_EQ(csv.exit_code, 0) << csv.err;
  EXPECT_EQ(std::ranges::count(csv.out, '\n'), 3) << csv.out;
  EXPECT_THAT(csv.out, AllOf(testing::StartsWith("shape,device,"), HasSubstr("wrong result"),
                             HasSubstr("\"cpu arch=x86-64-v4 model=\"\"avx512\"\"")));
  const auto lines = kiln({"db", "measurements", "--json", "--winners"}).json();
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_EQ(lines[0]["median_ns"], 1000);
  EXPECT_EQ(lines[2]["summary"]["measurements"], 2);
  const CommandResult t4 = kiln({"db", "measurements", "--t4"});
  EXPECT_EQ(t4.exit_code, 0);
  const std::string file = kiln.folder / "all.t4.json";
  std::ofstream(file) << t4.out;
  const std::string other = kiln.folder / "other.db";
  const CommandResult back = kiln({"db", "import", "--t4", file, "--db", other});
  EXPECT_EQ(back.exit_code, 0) << back.err;
  EXPECT_THAT(back.out, HasSubstr("4 of 4 results added"));
  EXPECT_THAT(kiln({"db", "measurements", "--db", other}).out, HasSubstr("4 measurements"));
  std::ofstream(file) << "{\"results\": [{\"configuration\": 7}]}";
  const CommandResult bad = kiln({"db", "import", "--t4", file, "--db", other});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, AllOf(HasSubstr(file), HasSubstr("results[0].configuration = 7")));
}

TEST(CliDb, PruneSaysWhatGoes) {
  const KilnCommand kiln;
  store_winner(*open_store(kiln.folder / "kiln.db"), test::key_of(64, 96, 128), 6);
  const CommandResult dry = kiln({"db", "prune", "--device", "avx512", "--dry-run"});
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_THAT(dry.out, AllOf(HasSubstr("measurement     1"), HasSubstr("would drop 0 winners")));
  const auto lines = kiln({"db", "prune", "--device", "avx512", "--json"}).json();
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(lines[0]["dropped"]["measurement"], 1);
  const CommandResult large = kiln({"db", "prune", "--max-size", "1K"});
  EXPECT_EQ(large.exit_code, 1);
  EXPECT_THAT(large.out, HasSubstr("max-size = 1K: what must stay is larger"));
}

TEST(CliDb, CompactSaysHowSmall) {
  const KilnCommand kiln;
  store_winner(*open_store(kiln.folder / "kiln.db"), test::key_of(64, 96, 128), 6);
  const CommandResult first = kiln({"db", "compact"});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("of 2 sources and binaries made smaller; "));
  const auto lines = kiln({"db", "compact", "--json"}).json();
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(lines[0]["made_smaller"], 0);
  EXPECT_EQ(lines[0]["bytes_before"], lines[0]["bytes_after"]);
  EXPECT_EQ(kiln({"db", "compact", "--db", kiln.folder / "absent.db"}).exit_code, 2);
}

}  // namespace kiln::cli_db_test
