// The command's contract with scripts: exit codes, messages that name field and value, help.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/layers/schema.h"
#include "cache/store.h"
#include "generator/space/space.h"
#include "kiln/engine.hpp"
#include "support/kiln_command.h"
#include "support/paths.h"

namespace kiln::cli_test {

using test::CommandResult;
using test::KilnCommand;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<std::string> kCommands = {
    "devices",  "compile",  "tune",      "bench",      "sweep",   "demo",    "report",
    "show",     "explain",  "verify",    "completion", "man",     "db list", "db stats",
    "db check", "db class", "db export", "db import",  "db merge"};

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

TEST(Cli, PrintsItsVersion) {
  const CommandResult result = KilnCommand{}({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "kiln " + std::string(version()) + "\n");
}

TEST(Cli, PrintsItsVersionAsJson) {
  KilnCommand kiln;
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--version", "--json"}, {"--json", "--version"}}) {
    const CommandResult result = kiln(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const auto rows = result.json();
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0]["version"], std::string(version()));
    EXPECT_EQ(rows[0]["schema_version"], schema_version());
    EXPECT_EQ(rows[0]["worker"], test::build_dir() + "/bin/kiln-worker");
    EXPECT_EQ(rows[0]["database"], kiln.environment["KILN_DB"]);
#ifdef KILN_HAS_LLVM
    EXPECT_THAT(rows[0]["compiler"].get<std::string>(), HasSubstr("clang version"));
#endif
  }
  kiln.environment["KILN_CLANG"] = "/nowhere/libkiln_clang.so";
  EXPECT_TRUE(kiln({"--version", "--json"}).json().at(0)["compiler"].is_null());
}

TEST(Cli, WarningsAreOnStderrAsLoudAsAsked) {
  KilnCommand kiln;
  ASSERT_TRUE(Store::open({.database = kiln.folder / "kiln.db"}));
  std::filesystem::permissions(kiln.folder / "kiln.db", std::filesystem::perms(0666));
  for (const char* level : {"", "warn", "debug"}) {
    kiln.environment["KILN_LOG"] = level;
    const CommandResult told = kiln({"db", "stats", "--json"});
    EXPECT_EQ(told.json().size(), 1u);
    EXPECT_THAT(told.err, AllOf(HasSubstr("kiln: warning: "), HasSubstr("kiln.db")));
  }
  for (const char* level : {"off", "error"}) {
    kiln.environment["KILN_LOG"] = level;
    EXPECT_THAT(kiln({"db", "stats", "--json"}).err, IsEmpty());
  }
}

TEST(Cli, EveryCommandHasAManual) {
  const KilnCommand kiln;
  for (const std::string& command : kCommands) {
    auto asked = words(command);
    asked.push_back("--help");
    const CommandResult page = kiln(asked);
    EXPECT_EQ(page.exit_code, 0) << command;
    EXPECT_THAT(page.out, AllOf(HasSubstr("Usage: kiln " + command), HasSubstr("Description:"),
                                HasSubstr("Examples:\n  "), HasSubstr("Exit codes:"),
                                HasSubstr("\n  130  "), HasSubstr("--json")))
        << command;
    auto help = words(command);
    help.insert(help.begin(), "help");
    const CommandResult same = kiln(help);
    EXPECT_EQ(same.exit_code, 0) << command;
    EXPECT_EQ(same.out, page.out) << command;
  }
}

TEST(Cli, OverviewNamesEveryCommand) {
  const KilnCommand kiln;
  const CommandResult overview = kiln({"help"});
  EXPECT_EQ(overview.exit_code, 0);
  EXPECT_EQ(overview.out, kiln({"--help"}).out);
  for (const std::string& command : kCommands)
    EXPECT_THAT(overview.out, HasSubstr("\n  " + words(command).front() + " ")) << command;
}

TEST(Cli, HelpForAMistypedCommandGuesses) {
  const CommandResult result = KilnCommand{}({"help", "bnech"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("help \"bnech\": there is no such command; did you mean "
                                    "\"bench\"?"));
}

struct Misuse {
  std::vector<std::string> arguments;
  int exit_code;
  std::string message;  // found on stderr
};

class CliMisuse : public testing::TestWithParam<Misuse> {};

TEST_P(CliMisuse, GivesItsExitCodeAndNamesWhatIsWrong) {
  const KilnCommand kiln;
  const CommandResult plain = kiln(GetParam().arguments);
  EXPECT_EQ(plain.exit_code, GetParam().exit_code) << plain.err;
  EXPECT_THAT(plain.err, HasSubstr(GetParam().message));
  EXPECT_THAT(plain.out, IsEmpty());

  auto arguments = GetParam().arguments;
  arguments.emplace_back("--json");
  const CommandResult result = kiln(arguments);
  EXPECT_EQ(result.exit_code, GetParam().exit_code);
  const auto objects = result.json();
  ASSERT_EQ(objects.size(), 1u);
  EXPECT_THAT(objects[0]["error"]["message"].get<std::string>(), HasSubstr(GetParam().message));
  EXPECT_EQ(objects[0]["exit"], GetParam().exit_code);
}

const std::string kShape = "fp32 N N 8 8 8";

INSTANTIATE_TEST_SUITE_P(
    Usage, CliMisuse,
    testing::Values(
        Misuse{{"tune", "--shpae", kShape}, 2, "--shpae"}, Misuse{{"conquer"}, 2, "conquer"},
        Misuse{{"db"}, 2, "subcommand"}, Misuse{{"tune"}, 2, "give --shape, --file or --layers"},
        Misuse{{"tune", "--shape", kShape, "--budget", "soon"}, 2, "budget"},  // clock: refused
        Misuse{{"tune", "--shape", kShape, "--budget", "-1"}, 2, "budget"},
        Misuse{{"tune", "--shape", kShape, "--budget", "nan"}, 2, "budget"},
        Misuse{{"tune", "--shape", kShape, "--budget", "5 parsecs"}, 2, "5 parsecs: must be"},
        // clock: refused
        Misuse{{"tune", "--shape", kShape, "--budget", "2d"}, 2, "2d: must be 0.01 to 86400"},
        Misuse{{"tnue"}, 2, "command = \"tnue\": there is no such command; did you mean \"tune\"?"},
        Misuse{{"db", "lits"}, 2, "command = \"lits\": there is no such command; did you mean"},
        Misuse{{"tune", "--shpae", kShape}, 2, "did you mean \"--shape\"? (see kiln tune --help)"},
        Misuse{{"tune", "--shape", kShape, "--offline", "--force"}, 2, "force"},
        Misuse{{"tune", "--shape", kShape, "--threads", "100000"}, 2, "threads = 100000"},
        Misuse{{"compile", "--shape", kShape, "--threads", "-2"}, 2, "threads = -2"},
        Misuse{{"compile", "--shape", kShape, "--sample", "0"}, 2, "sample"},
        Misuse{{"verify", "--config", "host_small isa=portable"}, 2, "--config needs the shape"},
        Misuse{{"verify", "--shape", kShape, "--config", "host_magic mr=1"}, 2, "host_magic"},
        Misuse{{"verify", "--shape", kShape, "--config", "host_smal mr=1"},
               2,
               "no family 'host_smal'; did you mean \"host_small\"?"}));

INSTANTIATE_TEST_SUITE_P(
    Shapes, CliMisuse,
    testing::Values(
        Misuse{{"explain", "--shape", "fp32 N X 8 8 8"}, 2, "tb = \"X\""},
        Misuse{{"explain", "--shape", "fp31 N N 8 8 8"}, 2, "dtype = \"fp31\""},
        Misuse{{"explain", "--shape", "fp31 N N 8 8 8"}, 2, "did you mean \"fp32\"?"},
        Misuse{{"explain", "--shape", "fp32 N N -8 8 8"}, 2, "m = -8"},
        Misuse{{"explain", "--shape", "fp32 N N 8 8 8 lda=4"}, 2, "lda = 4"},
        Misuse{{"explain", "--file", "/nowhere/shapes.txt"},
               2,
               "file = \"/nowhere/shapes.txt\": No such file"},
        Misuse{{"explain", "--file", "/"}, 2, "file = \"/\""},
        Misuse{{"explain", "--file", "/dev/null"}, 2, "holds no shape"},
        Misuse{{"explain", "--shape", "fp32 N N 9..3 8 8"}, 2, "the range is reversed"},
        Misuse{{"verify", "--shape", "fp32 N N 1..3 8 8"}, 2, "takes single sizes"},
        Misuse{{"bench", "--any-m", "--shape", kShape}, 2, "draws from a range"},
        Misuse{{"bench", "--count", "3", "--shape", kShape}, 2, "--any-m"},
        Misuse{{"bench", "--svg", "x.svg", "--overhead", "--shape", kShape}, 2, "svg = \"x.svg\""},
        Misuse{{"bench", "--random", "3", "--shape", kShape}, 2, "random = 3"},
        Misuse{{"explain", "--layers", "gpt-17"}, 2, "layers = \"gpt-17\""},
        Misuse{{"explain", "--layers", "bert-bsae"}, 2, "did you mean \"bert-base\"?"},
        Misuse{{"explain", "--layers", "bert-base:x"}, 2, "layers = \"bert-base:x\""}));

INSTANTIATE_TEST_SUITE_P(
    Devices, CliMisuse,
    testing::Values(
        Misuse{{"tune", "--device", "cuda:0", "--shape", kShape}, 3, "device = cuda:0"},
        Misuse{{"verify", "--device", "hip:1"}, 3, "device = hip:1"},
        Misuse{{"verify", "--device", "emu:avx2"}, 2, "runs code of GPUs: sm_75"},
        Misuse{{"tune", "--device", "emu:gfx942", "--shape", kShape},
               2,
               "the emulator verifies kernels and times none"},
        Misuse{{"bench", "--device", "emu:sm_90a", "--shape", kShape}, 2, "kiln verify"},
        Misuse{{"compile", "--device", "z80", "--shape", kShape}, 2, "device = \"z80\""},
        Misuse{{"compile", "--device", "axv2", "--shape", kShape}, 2, "did you mean \"avx2\"?"},
        Misuse{{"tune", "--device", "portable", "--shape", kShape}, 3, "--device cpu"},
        Misuse{{"db", "list", "--db", "/nowhere/kiln.db"}, 2, "db = \"/nowhere/kiln.db\""},
        Misuse{{"db", "import", "/nowhere/app.kiln"}, 2, "/nowhere/app.kiln"},
        Misuse{{"db", "diff", "/nowhere/a.db", "/nowhere/b.db"}, 2, "file = /nowhere/a.db"},
        Misuse{{"db", "prune"}, 2, "give an age, a device or a size"},
        Misuse{{"db", "prune", "--older-than", "3x"}, 2, "older-than = \"3x\""},
        Misuse{{"db", "prune", "--max-size", "-1"}, 2, "max-size = \"-1\""},
        Misuse{{"db", "merge", "/nowhere/a.db"}, 2, "file = /nowhere/a.db: no such file"},
        Misuse{{"tune", "--db", "/proc/kiln.db", "--shape", kShape}, 3, "/proc/kiln.db"}));

TEST(Cli, ShapeFileErrorsNameFileAndLine) {
  const KilnCommand kiln;
  const std::string file = (kiln.folder / "shapes.txt").string();
  std::ofstream(file) << "# a comment\nfp32 N N 8 8 8  # fine\n\nfp32 N N 8 eight 8\n";
  const CommandResult result = kiln({"explain", "--file", file});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr(file + ":4"), HasSubstr("n = \"eight\"")));
}

TEST(Cli, FileThatIsNoDatabaseIsLeftAlone) {
  KilnCommand kiln;
  const std::string file = (kiln.folder / "notes.txt").string();
  const std::string text = "these are my notes, and no database at all\n";
  std::ofstream(file) << text;
  const CommandResult result = kiln({"db", "stats", "--db", file});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr(file));
  EXPECT_EQ(KilnCommand::read(file), text);
}

TEST(Cli, DevicesDescribesThisMachine) {
  const auto objects = KilnCommand{}({"devices", "--json"}).json();
  ASSERT_EQ(objects.size(), 1u);
  const auto& device = objects[0];
  EXPECT_EQ(device["device"], "cpu");
  EXPECT_GE(device["threads"].get<int>(), 1);
  EXPECT_GT(device["l2_bytes"].get<std::int64_t>(), 0);
  EXPECT_THAT(device["fingerprint"].get<std::string>(),
              HasSubstr("arch=" + device["arch"].get<std::string>()));
  EXPECT_TRUE(device["peers"].is_object() && device["absent_peers"].is_object());
}

}  // namespace kiln::cli_test
