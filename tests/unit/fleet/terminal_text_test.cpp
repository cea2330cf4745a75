// Text of files on its way to a terminal: it neither obeys escape sequences nor shows lines that
// kiln did not write.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cache/printable.h"
#include "fleet/folder.h"
#include "fleet/log.h"
#include "fleet/missing.h"
#include "support/kiln_command.h"
#include "support/temp_dir.h"

namespace kiln::terminal_text_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kHostile =
    "broke\x1b[2J\nfleet: 1 of 1 shapes tuned\t\x7f\xc2\x9b"
    "2J\xff";
constexpr const char* kShown =
    "broke\\x1b[2J\\x0afleet: 1 of 1 shapes tuned\\x09\\x7f\\xc2\\x9b2J\\xff";

/// A folder whose only part says that its shape failed, for this reason.
FleetFolder failed_fleet(const std::filesystem::path& path, const std::string& reason) {
  const FleetItem item{parse_gemm("fp32 N N 8 8 8").value()};
  FleetFolder folder = FleetFolder::join(path, {{item}, 1}).value();
  EXPECT_TRUE(folder.add_kind("kind"));
  const auto log = FleetLog::open(folder.log_of("kind", "shard-1-of-1"));
  EXPECT_TRUE(log);
  log->add({text(item), FleetState::failed, 0, 0, reason});
  return folder;
}

TEST(TerminalText, ALineStaysOneLine) {
  EXPECT_EQ(printable_line(kHostile), kShown);
  EXPECT_EQ(printable_line("a\xe2\x80\xa8"
                           "b"),
            "a\\xe2\\x80\\xa8b")
      << "a separator of lines";
  EXPECT_EQ(printable_line("caf\xc3\xa9 \xe2\x96\x88"), "caf\xc3\xa9 \xe2\x96\x88");
  EXPECT_EQ(printable("a\n\tb\x1b"), "a\n\tb\\x1b");
}

TEST(TerminalText, OfAFleetsLogsAndFoldersIsEscapedOrLeftOut) {
  const TempDir dir;
  const FleetFolder folder = failed_fleet(dir / "fleet", kHostile);
  const auto events = read_log(folder.log_of("kind", "shard-1-of-1"));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_THAT(events[0].reason, HasSubstr("broke\\x1b[2J\\x0afleet: 1 of 1"));
  for (const char* name : {"kind\x1b[2J", "kind\nother", "\xff"}) {
    std::filesystem::create_directory(folder.path() / name);
    std::ofstream(folder.path() / name / "rank-0.jsonl") << "{}\n";
    std::ofstream(folder.path() / (std::string(name) + ".kiln")) << "";
    std::ofstream(folder.path() / "kind" / (std::string(name) + ".jsonl")) << "{}\n";
  }
  EXPECT_THAT(folder.kinds(), ElementsAre("kind"));
  EXPECT_EQ(folder.logs("kind").size(), 1u);
  std::ofstream(folder.path() / "fleet.json") << "{\"kiln_fleet\": 1, \"shards\": 1, "
                                                 "\"determinism\": \"x\\u001b[2J\\nkiln: fine\"}";
  const auto opened = FleetFolder::open(folder.path());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().message, printable_line(opened.error().message));
}

TEST(TerminalText, OfAFleetsStatusHasNoLinesOfOthers) {
  const test::KilnCommand kiln;
  const std::filesystem::path path = kiln.folder / "fleet";
  failed_fleet(path, kHostile);
  const auto run = kiln({"fleet", "status", path.string()});
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_EQ(std::ranges::count(run.out, '\n'), 3) << run.out;
  EXPECT_THAT(run.out, AllOf(HasSubstr("failed: broke\\x1b[2J\\x0afleet"), Not(HasSubstr("\x1b"))));
}

TEST(TerminalText, OfJsonIsEscapedBeyondWhatJsonAsksFor) {
  const test::KilnCommand kiln;
  const std::string nowhere = "nowhere-\x7f-\xc2\x9b-caf\xc3\xa9";
  const auto run = kiln({"fleet", "status", nowhere, "--json"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("nowhere-\\u007f-\\u009b-caf\xc3\xa9"), Not(HasSubstr("\x7f"))));
  const std::string message = run.json().back()["error"]["message"];
  EXPECT_THAT(message, HasSubstr(nowhere));
  EXPECT_THAT(run.err, HasSubstr("nowhere-\\x7f-\\xc2\\x9b-caf\xc3\xa9"));
}

}  // namespace kiln::terminal_text_test
