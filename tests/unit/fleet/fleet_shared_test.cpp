// A fleet's folder in which others have put links, FIFOs and endless files.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "fleet/folder.h"
#include "fleet/log.h"
#include "fleet/shared_file.h"
#include "support/kiln_command.h"
#include "support/temp_dir.h"

namespace kiln::fleet_shared_test {

namespace fs = std::filesystem;
using test::KilnCommand;
using testing::AllOf;
using testing::HasSubstr;

FleetPlan plan() { return {{{parse_gemm("fp32 N N 8 8 8").value()}}, 1}; }

std::string why(const auto& result) { return result ? "" : result.error().message; }

TEST(FleetFolderOfOthers, APlanThatIsNoRegularFileIsNamedAtOnce) {
  const TempDir dir;
  const fs::path file = dir / "fleet.json";
  const auto expect = [&](const std::string& reason) {
    EXPECT_THAT(why(FleetFolder::open(dir.path())),
                AllOf(HasSubstr("fleet.json"), HasSubstr(reason)));
    EXPECT_THAT(why(FleetFolder::join(dir.path(), plan())), HasSubstr(reason));
    fs::remove(file);
  };
  ASSERT_EQ(::mkfifo(file.c_str(), 0644), 0);
  expect("it is a FIFO, not a regular file");
  fs::create_symlink("/dev/zero", file);
  expect("it is a symbolic link, not a regular file");
  fs::create_directory(file);
  expect("it is a directory, not a regular file");
}

TEST(FleetFolderOfOthers, NoFileIsReadBeyondWhatItsKindMayHold) {
  const TempDir dir;
  const fs::path file = dir / "fleet.json";
  ASSERT_TRUE(FleetFolder::join(dir.path(), plan()));
  fs::resize_file(file, kMostSharedBytes + 1);  // a hole: it takes no room
  EXPECT_THAT(why(FleetFolder::open(dir.path())), HasSubstr("larger than"));
  std::ofstream(dir / "small") << "12345";
  EXPECT_EQ(read_shared(dir / "small", 5).value(), "12345");
  EXPECT_THAT(why(read_shared(dir / "small", 4)), HasSubstr("larger than 4 bytes"));
}

TEST(FleetFolderOfOthers, AFolderThatEverybodyMayWriteIsRefused) {
  const TempDir dir;
  const fs::path folder = dir / "fleet";
  ASSERT_TRUE(FleetFolder::join(folder, plan()));
  ASSERT_EQ(::chmod(folder.c_str(), 0777), 0);
  const auto joined = FleetFolder::join(folder, plan());
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::bad_input);
  EXPECT_THAT(joined.error().message, AllOf(HasSubstr(folder.string()), HasSubstr("mode = 0777")));
}

TEST(FleetFolderOfOthers, FoldersAndLogsThatAreLinksAreNotFollowed) {
  const TempDir dir;
  const fs::path folder = dir / "fleet", away = dir / "away";
  fs::create_directory(away);
  const auto fleet = FleetFolder::join(folder, plan());
  ASSERT_TRUE(fleet);
  fs::create_symlink(away, folder / "kind");
  EXPECT_THAT(why(fleet->add_kind("kind")), HasSubstr("it is a symbolic link, not a folder"));
  std::ofstream(away / "rank-0.jsonl") << "kept\n";
  EXPECT_TRUE(fleet->kinds().empty());
  ASSERT_TRUE(fleet->add_kind("other"));
  fs::create_symlink(away / "rank-0.jsonl", fleet->log_of("other", "rank-0"));
  EXPECT_FALSE(FleetLog::open(fleet->log_of("other", "rank-0")));
  EXPECT_EQ(KilnCommand::read(away / "rank-0.jsonl"), "kept\n");
  EXPECT_TRUE(fleet->logs("other").empty());
  const fs::path fifo = fleet->log_of("other", "rank-1");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0644), 0);
  EXPECT_THAT(why(FleetLog::open(fifo)), HasSubstr("it is a FIFO"));
  EXPECT_TRUE(read_log(fifo).empty());
}

TEST(FleetFolderOfOthers, WhatIsWrittenTakesALinksPlaceAndSparesItsTarget) {
  const KilnCommand kiln;
  const fs::path folder = kiln.folder / "fleet", away = kiln.folder / "away";
  const std::vector<std::string> words{"fleet", "slurm",         "--shape",  "fp32 N N 8 8 8",
                                       "--out", folder.string(), "--dry-run"};
  ASSERT_EQ(kiln(words).exit_code, 0);
  for (const char* name : {"slurm/job.sh", "list.txt"}) {
    std::ofstream(away) << "kept\n";
    fs::remove(folder / name);
    fs::create_symlink(away, folder / name);
    const auto run = kiln(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(KilnCommand::read(away), "kept\n") << name;
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder / name))) << name;
  }
  fs::remove_all(folder / "slurm");
  fs::create_directory(kiln.folder / "elsewhere");
  fs::create_symlink(kiln.folder / "elsewhere", folder / "slurm");
  const auto run = kiln(words);
  EXPECT_EQ(run.exit_code, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr("it is a symbolic link, not a folder"));
  EXPECT_TRUE(fs::is_empty(kiln.folder / "elsewhere"));
}

}  // namespace kiln::fleet_shared_test
