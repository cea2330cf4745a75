// The script of a Slurm job array: whatever characters a value has, it stays one word of its line.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "fleet/slurm.h"
#include "support/kiln_command.h"

namespace kiln::slurm_script_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

SlurmJob job() {
  SlurmJob job;
  job.out = "/shared/fleet";
  job.command = {"kiln", "tune"};
  job.partition = "gpu";
  return job;
}

std::vector<std::string> directives_of(const std::string& script) {
  constexpr std::string_view kBegin = "#SBATCH ";
  std::vector<std::string> found;
  std::istringstream lines(script);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(kBegin)) found.push_back(line.substr(kBegin.size()));
  return found;
}

/// The words that a shell makes of a line.
std::vector<std::string> words_of(const std::string& line) {
  std::FILE* pipe = ::popen(("printf '%s\\n' " + line).c_str(), "r");
  std::string said;
  for (std::array<char, 256> piece{}; std::fgets(piece.data(), piece.size(), pipe) != nullptr;)
    said += piece.data();
  EXPECT_EQ(::pclose(pipe), 0) << line;
  std::vector<std::string> words;
  std::istringstream lines(said);
  for (std::string word; std::getline(lines, word);) words.push_back(word);
  return words;
}

/// The fields that the user's text reaches, as the command names them.
constexpr std::pair<const char*, std::string SlurmJob::*> kTexts[] = {
    {"partition", &SlurmJob::partition},
    {"constraint", &SlurmJob::constraint},
    {"account", &SlurmJob::account},
    {"time", &SlurmJob::time_limit}};

TEST(SlurmScript, AnOrdinaryJobIsWrittenAsAPersonWould) {
  SlurmJob plain = job();
  plain.time_limit = "1-02:00:00";
  plain.more = {"--qos=high"};
  ASSERT_TRUE(check_job(plain));
  EXPECT_THAT(
      script_text(plain),
      AllOf(HasSubstr("#SBATCH --partition=gpu\n"), HasSubstr("#SBATCH --time=1-02:00:00\n"),
            HasSubstr("#SBATCH --output=/shared/fleet/slurm/task-%a.out\n"),
            HasSubstr("#SBATCH --qos=high\n")));
}

TEST(SlurmScript, AnyOtherValueIsOneWord) {
  const std::size_t lines = directives_of(script_text(job())).size();
  for (const std::string value : {"a b", "it's", "\"two\"", "a;touch /tmp/x", "$(id)", "`id`",
                                  "a#b", "a\\b", "a100&ib|x*", "caf\xc3\xa9", "a --uid=0"}) {
    for (const auto& [option, field] : kTexts) {
      SlurmJob hostile = job();
      hostile.*field = value;
      ASSERT_TRUE(check_job(hostile)) << value;
      const auto found = directives_of(script_text(hostile));
      EXPECT_EQ(found.size(), lines + (field == &SlurmJob::partition ? 0 : 1));
      bool there = false;
      for (const std::string& directive : found)
        if (directive.starts_with(fmt::format("--{}=", option))) {
          there = true;
          EXPECT_THAT(words_of(directive), ElementsAre(fmt::format("--{}={}", option, value)));
        }
      EXPECT_TRUE(there) << option;
    }
    SlurmJob more = job();
    more.more = {"--comment=" + value};
    EXPECT_THAT(words_of(directives_of(script_text(more)).back()),
                ElementsAre("--comment=" + value));
    SlurmJob out = job();
    out.out = "/shared/" + value;
    EXPECT_THAT(words_of(directives_of(script_text(out)).back()),
                ElementsAre("--output=/shared/" + value + "/slurm/task-%a.out"));
  }
  SlurmJob percent = job();
  percent.out = "/shared/50%j";
  EXPECT_THAT(script_text(percent), HasSubstr("--output=/shared/50%%j/slurm/task-%a.out\n"));
}

TEST(SlurmScript, ControlCharactersAreRefusedByName) {
  const auto refused = [](const SlurmJob& hostile, const std::string& words) {
    const Status status = check_job(hostile);
    ASSERT_FALSE(status) << words;
    EXPECT_EQ(status.error().code, ErrorCode::bad_input);
    EXPECT_THAT(status.error().message, HasSubstr(words));
  };
  for (const auto& [value, shown] : {std::pair{"x\n#SBATCH --uid=0", "x\\x0a#SBATCH --uid=0"},
                                     {"x\ry", "x\\x0dy"},
                                     {"x\ty", "x\\x09y"},
                                     {"x\x1b[2J", "x\\x1b[2J"},
                                     {"x\x7f", "x\\x7f"}}) {
    for (const auto& [option, field] : kTexts) {
      SlurmJob hostile = job();
      hostile.*field = value;
      refused(hostile, fmt::format("{} = \"{}\": must not have control characters", option, shown));
    }
    SlurmJob out = job(), more = job(), command = job();
    out.out = std::string("/shared/") + value;
    refused(out, fmt::format("out = \"/shared/{}\"", shown));
    more.more = {std::string("--qos=") + value};
    refused(more, fmt::format("sbatch = \"--qos={}\"", shown));
    command.command.push_back(value);
    refused(command, fmt::format("command = \"{}\"", shown));
  }
  SlurmJob none = job();
  none.more = {"/etc/passwd"};
  refused(none, "sbatch = \"/etc/passwd\": must be an option of sbatch");
}

TEST(SlurmScript, TheCommandRefusesThemBeforeItWritesAnything) {
  const test::KilnCommand kiln;
  const std::string out = (kiln.folder / "fleet").string();
  for (const char* option : {"--partition", "--constraint", "--account", "--time", "--kiln"}) {
    const auto run = kiln({"fleet", "slurm", "--shape", "fp32 N N 8 8 8", "--out", out, "--dry-run",
                           option, "x\n#SBATCH --uid=0"});
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_THAT(run.err, HasSubstr("must not have control characters"));
    EXPECT_FALSE(std::filesystem::exists(out));
  }
  const auto folder = kiln({"fleet", "slurm", "--shape", "fp32 N N 8 8 8", "--out",
                            out + "\n#SBATCH --uid=0", "--dry-run"});
  EXPECT_EQ(folder.exit_code, 2) << folder.err;
}

}  // namespace kiln::slurm_script_test
