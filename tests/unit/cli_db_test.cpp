// `kiln db` as an operator runs it: what it prints, its JSON and its exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace kiln::cli_db_test
