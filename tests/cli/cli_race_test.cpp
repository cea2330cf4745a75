// `kiln sweep` and `kiln bench --against`, as commands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/kiln_command.h"

namespace kiln::cli_race_test {

using test::CommandResult;
using test::KilnCommand;
using testing::AllOf;
using testing::HasSubstr;

TEST(CliSweep, RacesAllCombinationsAndDrawsThem) {
  const KilnCommand kiln;
  const std::string csv = (kiln.folder / "f.csv").string(), svg = (kiln.folder / "f.svg").string();
  const CommandResult result =
      kiln({"sweep", "float n t m 24 k", "--m", "8:16:8", "--k", "2^3..2^4", "--threads", "1",
            "--samples", "7", "--peers", "openblas", "--csv", csv, "--svg", svg, "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto rows = result.json();
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0]["shape"], "fp32 N T 8 24 8");
  EXPECT_EQ(rows[3]["shape"], "fp32 N T 16 24 16");
  EXPECT_GT(rows[0]["intensity"], 0);
  EXPECT_GT(rows[0]["bytes_per_second"], 0);
  EXPECT_EQ(rows[4]["summary"]["verified"], 4);
  const std::string lines = KilnCommand::read(csv);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1 + 4 * 2);
  EXPECT_THAT(KilnCommand::read(svg), AllOf(HasSubstr("<svg "), HasSubstr(">openblas<")));
}

TEST(CliSweep, BadValuesAreNamed) {
  const KilnCommand kiln;
  const CommandResult values = kiln({"sweep", "fp32 N N m 8 8", "--m", "8..1"});
  EXPECT_EQ(values.exit_code, 2);
  EXPECT_THAT(values.err, HasSubstr("m = \"8..1\""));
  EXPECT_THAT(kiln({"sweep", "fp32 N N m 8 8"}).err, HasSubstr("m has no values"));
}

/// An earlier race of one shape, as `change` leaves it.
CommandResult against_changed(const KilnCommand& kiln, double times) {
  const std::vector<std::string> race = {"bench",     "--shape", "fp32 N N 32 32 32",
                                         "--threads", "1",       "--samples",
                                         "15",        "--peers", "openblas"};
  auto asked = race;
  asked.push_back("--json");
  const CommandResult before = kiln(asked);
  EXPECT_EQ(before.exit_code, 0) << before.err;
  auto row = before.json().at(0);
  for (const char* field : {"kiln_ns", "kiln_low_ns", "kiln_high_ns"})
    row[field] = row[field].get<double>() * times;
  const std::string file = (kiln.folder / "old.jsonl").string();
  std::ofstream(file) << row.dump() << "\n" << before.json().back().dump() << "\n";
  asked.insert(asked.end(), {"--against", file});
  return kiln(asked);
}

// A thousandth of its time: no noise of a shared machine makes that up.
TEST(CliAgainst, AShapeThatIsSlowerMakesTheExitCodeOne) {
  const KilnCommand kiln;
  const CommandResult slower = against_changed(kiln, 0.001);
  EXPECT_EQ(slower.exit_code, 1) << slower.err;
  const auto rows = slower.json();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1]["against"]["slower"], 1);
  EXPECT_EQ(rows[1]["against"]["rows"][0]["trend"], "slower");
  EXPECT_LT(rows[1]["against"]["rows"][0]["p"], 0.05);
}

TEST(CliAgainst, AFasterOneDoesNot) {
  const KilnCommand kiln;
  const CommandResult faster = against_changed(kiln, 1000);
  EXPECT_EQ(faster.exit_code, 0) << faster.err;
  EXPECT_EQ(faster.json().at(1)["against"]["faster"], 1);
}

TEST(CliAgainst, AFileWithoutRacesIsRefusedBeforeTheRace) {
  const KilnCommand kiln;
  const std::string file = (kiln.folder / "old.jsonl").string();
  std::ofstream(file) << "{\"summary\": {}}\n";
  for (const auto& [name, why] : {std::pair{file, std::string("holds no race")},
                                  {std::string("/nowhere.jsonl"), std::string("cannot be read")}}) {
    const CommandResult result =
        kiln({"bench", "--shape", "fp32 N N 32 32 32", "--against", name, "--peers", "openblas"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, AllOf(HasSubstr(name), HasSubstr(why)));
  }
}

}  // namespace kiln::cli_race_test
