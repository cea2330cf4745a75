// `kiln tune --shard`, `kiln fleet status` and `merge` on a node of invented GPUs.
#include <SQLiteCpp/Database.h>
#include <gmock/gmock.h>

#include "support/invented_node.h"

#ifdef KILN_HAS_FAKE_HIP

namespace kiln::fleet_shard_test {

using nlohmann::json;
using test::CommandResult;
using test::InventedNode;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Pair;
using testing::SizeIs;

json summary_of(const CommandResult& result) {
  const auto rows = result.json();
  return rows.empty() ? json() : rows.back().value("summary", json());
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder,
                                            const std::string& ending) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ending) found.push_back(entry.path());
  return found;
}

TEST(FleetShards, CoverAListOnceAndAMergedFileIsNotRepeated) {
  const InventedNode node;
  node.write_list(5);
  const auto first = node(node.tune({"--device", "hip:0", "--shard", "1/2"}));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(summary_of(first)["tuned"], 3);
  const auto half = node({"fleet", "merge", node.out, "--json"});
  EXPECT_EQ(half.exit_code, 1) << "two shapes are missing";
  EXPECT_THAT(half.json().back()["missing"], SizeIs(2));
  EXPECT_EQ(half.json().back()["missing"][0]["reason"], "never begun");
  ASSERT_EQ(node(node.tune({"--device", "hip:1", "--shard", "2/2"})).exit_code, 0);
  EXPECT_THAT(test::tuned_in(node.out), AllOf(SizeIs(5), Each(Pair(testing::_, 1))));

  EXPECT_EQ(summary_of(node(node.tune({"--device", "hip:2", "--shard", "1/2"})))["already_tuned"],
            3);
  const auto whole = node({"fleet", "merge", node.out, "--json"});
  EXPECT_EQ(whole.exit_code, 0) << whole.out << whole.err;
  EXPECT_EQ(whole.json()[0]["parts"], 2);
  const std::string merged = whole.json()[0]["file"];
  EXPECT_EQ(node({"db", "check", "--db", merged}).exit_code, 0);
  EXPECT_EQ(node({"db", "list", "--db", merged, "--json"}).json().back()["summary"]["records"], 5);

  // The merged file alone, in the folder or as the user's own database, is enough.
  for (const auto& part : files_in(node.out, ".kiln"))
    if (part != merged) std::filesystem::remove(part);
  EXPECT_EQ(summary_of(node(node.tune({"--device", "hip:3", "--shard", "2/2"})))["tuned"], 0);
  InventedNode elsewhere;
  elsewhere.write_list(6);
  elsewhere.environment["KILN_DB"] = merged;
  const auto rest = summary_of(elsewhere(elsewhere.tune({"--device", "hip:0", "--shard", "1/1"})));
  EXPECT_EQ(rest["already_tuned"], 5);
  EXPECT_EQ(rest["tuned"], 1);
  EXPECT_EQ(elsewhere({"db", "list", "--json"}).json().back()["summary"]["records"], 5)
      << "the user's database is only read";
  EXPECT_THAT(node({"fleet", "status", node.out}).out, HasSubstr("5 of 5 shapes tuned"));
}

std::int64_t rows_in(const std::filesystem::path& file) {
  SQLite::Database db(file.string(), SQLite::OPEN_READONLY);
  return db.execAndGet("SELECT count(*) FROM measurement").getInt64();
}

TEST(FleetShards, AMergedFileThatWasOpenedToWriteAndIsReadIsMergedAgain) {
  const InventedNode node;
  node.write_list(3);
  ASSERT_EQ(node(node.tune({"--device", "hip:0", "--shard", "1/2"})).exit_code, 0);
  const auto half = node({"fleet", "merge", node.out, "--json"});
  const std::string merged = half.json().at(0)["file"];
  const auto before = rows_in(merged);
  ASSERT_EQ(node({"db", "check", "--db", merged}).exit_code, 0);  // from now on it has a log
  SQLite::Database reader(merged, SQLite::OPEN_READONLY);
  ASSERT_EQ(reader.execAndGet("PRAGMA journal_mode").getString(), "wal");
  ASSERT_TRUE(std::filesystem::exists(merged + "-wal"));

  const auto same = node({"fleet", "merge", node.out});
  EXPECT_THAT(same.err, testing::IsEmpty());
  EXPECT_THAT(same.out, HasSubstr("2 of 3 shapes tuned"));
  EXPECT_EQ(rows_in(merged), before);
  ASSERT_EQ(node(node.tune({"--device", "hip:1", "--shard", "2/2"})).exit_code, 0);
  const auto whole = node({"fleet", "merge", node.out});
  EXPECT_EQ(whole.exit_code, 0) << whole.out << whole.err;
  EXPECT_EQ(reader.execAndGet("SELECT count(*) FROM measurement WHERE winner = 1").getInt64(), 3)
      << "who has it open sees what was added";

  const auto copy = node.folder / "copy.kiln";  // without its log
  std::filesystem::copy(merged, copy);
  EXPECT_EQ(rows_in(copy), rows_in(merged));
  EXPECT_THAT(files_in(node.out, ".parts"), testing::IsEmpty());
}

TEST(FleetShards, UnequalDevicesAreKeptApart) {
  const InventedNode node("0,1");
  node.write_list(2);
  ASSERT_EQ(node(node.tune({"--device", "hip:0", "--shard", "1/2"})).exit_code, 0);
  ASSERT_EQ(node(node.tune({"--device", "hip:1", "--shard", "2/2"})).exit_code, 0);
  const auto merged = node({"fleet", "merge", node.out, "--json"});
  EXPECT_EQ(merged.exit_code, 1);
  const auto rows = merged.json();
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_NE(rows[0]["kind"], rows[1]["kind"]);
  for (const int state : {2, 3}) {
    EXPECT_EQ(rows[state]["wanted"], 2);
    EXPECT_EQ(rows[state]["held"], 1);
  }
  // A database that was put among those of another device.
  const auto parts = files_in(node.out + '/' + rows[0]["kind"].get<std::string>(), ".kiln");
  ASSERT_THAT(parts, SizeIs(1));
  std::filesystem::copy(parts[0],
                        node.out + '/' + rows[1]["kind"].get<std::string>() + "/foreign.kiln");
  const auto mixed = node({"fleet", "merge", node.out, "--json"});
  EXPECT_EQ(mixed.exit_code, 1);
  EXPECT_THAT(mixed.json()[1]["left_out"][0].get<std::string>(),
              AllOf(HasSubstr("foreign.kiln"), HasSubstr("device = AMD Instinct MI300X")));
  EXPECT_EQ(mixed.json()[1]["parts"], 1);
}

TEST(FleetShards, ADatabaseOfAnotherVersionOrDamagedIsLeftOutAndStays) {
  const InventedNode node;
  node.write_list(2);
  for (const char* shard : {"1/2", "2/2"})
    ASSERT_EQ(node(node.tune({"--device", "hip:0", "--shard", shard})).exit_code, 0);
  ASSERT_EQ(node({"fleet", "merge", node.out}).exit_code, 0);
  const auto parts = files_in(node.out, ".kiln");
  ASSERT_THAT(parts, SizeIs(3));
  int newer = 0;
  for (const auto& part : parts)
    if (part.filename() == "shard-1-of-2.kiln") {
      SQLite::Database(part.string(), SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 1000");
      ++newer;
    } else if (part.filename() == "shard-2-of-2.kiln") {
      std::ofstream(part) << "overwritten";
    }
  ASSERT_EQ(newer, 1);
  const auto merged = node({"fleet", "merge", node.out});
  EXPECT_EQ(merged.exit_code, 1);
  EXPECT_THAT(merged.err, AllOf(HasSubstr("shard-1-of-2.kiln"), HasSubstr("1000"),
                                HasSubstr("shard-2-of-2.kiln"), HasSubstr("not a database")));
  EXPECT_THAT(merged.out, HasSubstr("2 of 2 shapes tuned")) << "the merged file loses nothing";
  const auto again = node(node.tune({"--device", "hip:0", "--shard", "1/2"}));
  EXPECT_EQ(again.exit_code, 3) << again.out;
  EXPECT_THAT(again.err, AllOf(HasSubstr("shard-1-of-2.kiln"), HasSubstr("1000")));
}

TEST(FleetShards, WhatDoesNotFitIsRefusedByName) {
  const InventedNode node;
  node.write_list(3);
  ASSERT_EQ(node(node.tune({"--device", "hip:0", "--shard", "3/3"})).exit_code, 0);
  const auto refused = [&](std::vector<std::string> more, const std::string& reason) {
    more.insert(more.end(), {"--device", "hip:0"});
    const auto result = node(node.tune(more));
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_THAT(result.err, HasSubstr(reason));
  };
  refused({"--shard", "0/3"}, "shard = 0/3: I = 0");
  refused({"--shard", "4/3"}, "shard = 4/3: I = 4");
  refused({"--shard", "1/4"}, "shards = 4: this folder is one of 3 shards");
  refused({"--shard", "1/3", "--shape", "fp32 N N 7 7 7"}, "list = 4 shapes");
  refused({"--shard", "1/3", "--offline"}, "excludes --offline");
  refused({}, "must come with --shard or --mpi");
  const auto folderless = node({"tune", "--file", node.list, "--shard", "1/3"});
  EXPECT_EQ(folderless.exit_code, 2);
  EXPECT_THAT(folderless.err, HasSubstr("--out"));
  for (const char* command : {"status", "merge"}) {
    const auto nothing = node({"fleet", command, (node.folder / "nowhere").string()});
    EXPECT_EQ(nothing.exit_code, 2);
    EXPECT_THAT(nothing.err, AllOf(HasSubstr("nowhere"), HasSubstr("no fleet's folder")));
  }
}

}  // namespace kiln::fleet_shard_test

#endif
