// Ctrl-C: the exit code, what is said, and that the next run continues.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "support/child.h"
#include "support/kiln_command.h"
#include "support/paths.h"

namespace kiln::cli_interrupt_test {

using nlohmann::json;
using test::CommandResult;
using test::KilnCommand;
using testing::AllOf;
using testing::HasSubstr;

const std::string kShape = "fp32 N T 24 24 24";

/// The command in the background, its output in files of `kiln.folder`.
pid_t start(const KilnCommand& kiln, const std::vector<std::string>& arguments) {
  return test::start_child([&] {
    ::unsetenv("KILN_DB_PATH");
    for (const auto& [name, value] : kiln.environment) ::setenv(name.c_str(), value.c_str(), 1);
    for (const auto& [file, fd] : {std::pair{"stdout", 1}, {"stderr", 2}}) {
      const int opened =
          ::open((kiln.folder / file).c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
      if (::dup2(opened, fd) < 0) return false;
    }
    std::string program = test::build_dir() + "/bin/kiln";
    std::vector<char*> words{program.data()};
    for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    ::execv(program.c_str(), words.data());
    return false;
  });
}

/// Waits until the command has said `part` on stderr; false when it ended without.
bool said(const KilnCommand& kiln, pid_t child, const std::string& part) {
  for (;;) {
    if (KilnCommand::read(kiln.folder / "stderr").find(part) != std::string::npos) return true;
    siginfo_t ended{};
    if (::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        ended.si_pid == child)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // clock: how often it asks
  }
}

struct Ended {
  int status = 0;
  CommandResult result;
};

Ended wait(const KilnCommand& kiln, pid_t child) {
  Ended ended;
  EXPECT_EQ(::waitpid(child, &ended.status, 0), child);
  ended.result = {WIFEXITED(ended.status) ? WEXITSTATUS(ended.status) : -1,
                  KilnCommand::read(kiln.folder / "stdout"),
                  KilnCommand::read(kiln.folder / "stderr")};
  return ended;
}

json record_of(const KilnCommand& kiln) {
  const auto listed = kiln({"db", "list", "--json"}).json();
  return listed.size() == 2 ? listed[0] : json();
}

TEST(Interrupt, TuneSaysWhatItKeptAndTheNextRunGoesOn) {
  const KilnCommand kiln;
  const auto tune = [](const std::string& budget) -> std::vector<std::string> {
    return {"tune", "--shape", kShape, "--shape", "fp32 N N 24 24 25",
            // clock: interrupted long before
            "--threads", "1", "--budget", budget, "--json"};
  };
  const pid_t child = start(kiln, tune("600"));
  ASSERT_TRUE(said(kiln, child, ": screen ")) << KilnCommand::read(kiln.folder / "stderr");
  ::kill(child, SIGINT);
  const CommandResult cut = wait(kiln, child).result;
  EXPECT_EQ(cut.exit_code, 130) << cut.err;
  EXPECT_THAT(cut.err, AllOf(HasSubstr("kiln: interrupted: " + kShape + ": "),
                             HasSubstr(" candidates measured"), HasSubstr("continues from there")));
  const auto rows = cut.json();
  ASSERT_EQ(rows.size(), 2u) << cut.out;
  EXPECT_FALSE(rows[0]["already_tuned"].get<bool>());
  EXPECT_TRUE(rows[0]["searched"]["interrupted"].get<bool>());
  EXPECT_TRUE(rows[1]["summary"]["interrupted"].get<bool>());
  EXPECT_EQ(rows[1]["summary"]["not_reached"], 1);

  const json record = record_of(kiln);
  EXPECT_EQ(record["searched"], rows[0]["searched"]);
  EXPECT_THAT(kiln({"explain", "--shape", kShape, "--threads", "1"}).out,
              HasSubstr(" of 600 s, interrupted\n"));

  const int known =
      record["searched"]["measured"].get<int>() + record["searched"]["failed"].get<int>();
  const std::vector<std::string> rest{"tune",
                                      "--shape",
                                      kShape,
                                      "--threads",
                                      "1",
                                      "--budget",
                                      "1h",
                                      "--candidates",
                                      std::to_string(known + 8),
                                      "--json"};
  const CommandResult resumed = kiln(rest);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  const json more = resumed.json().at(0);
  EXPECT_FALSE(more["already_tuned"].get<bool>());
  EXPECT_FALSE(more["searched"]["interrupted"].get<bool>());
  EXPECT_GT(more["searched"]["measured"], record["searched"]["measured"]);
  EXPECT_GT(more["searched"]["seconds"], record["searched"]["seconds"]);
  EXPECT_TRUE(kiln(rest).json().at(0)["already_tuned"].get<bool>());
}

TEST(Interrupt, BenchTuneSaysWhatItKeptAndRacesNoMore) {
  const KilnCommand kiln;
  const pid_t child = start(
      // clock: interrupted long before
      kiln, {"bench", "--tune", "--shape", kShape, "--threads", "1", "--budget", "600", "--json"});
  ASSERT_TRUE(said(kiln, child, ": screen ")) << KilnCommand::read(kiln.folder / "stderr");
  ::kill(child, SIGINT);
  const CommandResult cut = wait(kiln, child).result;
  EXPECT_EQ(cut.exit_code, 130) << cut.err;
  EXPECT_THAT(cut.err, HasSubstr("kiln: interrupted: " + kShape + ": "));
  EXPECT_EQ(cut.json().back()["summary"]["shapes"], 0);
  EXPECT_TRUE(record_of(kiln)["searched"]["interrupted"].get<bool>());
}

TEST(Interrupt, DemoSaysWhatItKeptAndStartsNoTable) {
  const KilnCommand kiln;
  // clock: interrupted long before
  const pid_t child = start(kiln, {"demo", "--tokens", "1", "--threads", "1", "--budget", "6000"});
  ASSERT_TRUE(said(kiln, child, ": screen ")) << KilnCommand::read(kiln.folder / "stderr");
  ::kill(child, SIGINT);
  const CommandResult cut = wait(kiln, child).result;
  EXPECT_EQ(cut.exit_code, 130) << cut.err;
  EXPECT_THAT(cut.err, HasSubstr("kiln: interrupted: "));
  EXPECT_EQ(cut.out, "");
}

/// Whether a process has a handler for SIGINT: two signals at once would be delivered as one.
bool catches_interrupts(pid_t pid) {
  std::ifstream lines("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; lines >> word;)
    if (word == "SigCgt:") {
      lines >> word;
      return (std::stoull(word, nullptr, 16) >> (SIGINT - 1) & 1) != 0;
    }
  return false;
}

TEST(Interrupt, TheSecondOneEndsTheCommandAtOnce) {
  const KilnCommand kiln;
  // clock: interrupted long before
  const pid_t child = start(kiln, {"tune", "--shape", kShape, "--threads", "1", "--budget", "600"});
  ASSERT_TRUE(said(kiln, child, ": compile ")) << KilnCommand::read(kiln.folder / "stderr");
  ::kill(child, SIGINT);
  // clock: how often it asks
  while (catches_interrupts(child)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ::kill(child, SIGINT);
  const int status = wait(kiln, child).status;
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
}

// One group of candidates is measured however small the budget.
TEST(Interrupt, ABriefSearchSaysSo) {
  const KilnCommand kiln;
  const std::vector<std::string> brief{"tune", "--shape", kShape, "--threads",
                                       // clock: spent when the first candidate is timed
                                       "1", "--budget", "0.01"};
  const CommandResult result = kiln(brief);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(testing::ContainsRegex("searched: [1-9] of [0-9,]+ candidates"),
                                HasSubstr("with a larger --budget")));
  EXPECT_THAT(kiln({"db", "list"}).out, testing::ContainsRegex("[1-9] of [0-9,]+ candidates"));
}

}  // namespace kiln::cli_interrupt_test
