// The sub-commands that work: compile, show, verify, tune, explain, db, bench.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/kiln_command.h"
#include "support/worker_script.h"

namespace kiln::cli_run_test {

using nlohmann::json;
using test::CommandResult;
using test::KilnCommand;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kShape = "fp32 N T 24 24 24";

TEST(CliCompile, ReportsEveryFamilyForForeignDevices) {
  const KilnCommand kiln;
  for (const std::string device : {"avx2", "avx512", "portable"}) {
    const CommandResult result = kiln({"compile", "--device", device, "--shape", kShape, "--sample",
                                       "1", "--seed", "3", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const auto rows = result.json();
    ASSERT_GE(rows.size(), 3u) << device;  // two families or more, and the summary
    std::vector<std::string> families;
    for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
      EXPECT_EQ(rows[i]["shape"], kShape);
      EXPECT_TRUE(rows[i]["ok"].get<bool>());
      EXPECT_GT(rows[i]["code_bytes"].get<int>(), 0);
      EXPECT_GT(rows[i]["compile_ms"].get<double>(), 0);
      families.push_back(rows[i]["family"]);
    }
    EXPECT_EQ(std::unique(families.begin(), families.end()), families.end()) << device;
    EXPECT_EQ(rows.back()["summary"]["failed"], 0);
    EXPECT_EQ(rows.back()["summary"]["compiled"], rows.size() - 1);
  }
}

TEST(CliCompile, SameSeedDrawsTheSameConfigs) {
  const KilnCommand kiln;
  const auto configs = [&](const char* seed) {
    std::vector<std::string> all;
    for (const json& row : kiln({"compile", "--device", "portable", "--shape", "fp32 N N 64 64 64",
                                 "--sample", "2", "--seed", seed, "--json"})
                               .json())
      if (row.contains("config")) all.push_back(row["config"]);
    return all;
  };
  const auto first = configs("5");
  EXPECT_THAT(first, testing::Not(IsEmpty()));
  EXPECT_EQ(first, configs("5"));
  EXPECT_NE(first, configs("6"));
}

TEST(CliCompile, KeepsSourcesAndObjects) {
  const KilnCommand kiln;
  const auto out = kiln.folder / "kept";
  const CommandResult result =
      kiln({"compile", "--shape", kShape, "--sample", "1", "--keep", out.string(), "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto rows = result.json();
  ASSERT_GE(rows.size(), 2u);
  const std::filesystem::path source = out / rows[0]["source"].get<std::string>();
  EXPECT_THAT(KilnCommand::read(source), HasSubstr("kiln_gemm"));
  EXPECT_EQ(KilnCommand::read(std::filesystem::path(source).replace_extension(".so")).substr(0, 4),
            "\x7F"
            "ELF");
}

TEST(CliShow, PrintsSourceOfTheIsaAskedFor) {
  const KilnCommand kiln;
  const CommandResult result =
      kiln({"show", "--device", "avx512", "--isa", "avx2", "--shape", kShape, "--json"});
  const auto rows = result.json();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  ASSERT_EQ(rows.size(), 1u);
  const std::string config = rows[0]["config"];
  EXPECT_THAT(config, HasSubstr("isa=avx2 "));
  EXPECT_THAT(rows[0]["source"].get<std::string>(), AllOf(HasSubstr(config), HasSubstr(kShape)));

  // The config alone, given for the device whose best instruction set that is, is the same kernel.
  const CommandResult plain =
      kiln({"show", "--device", "avx2", "--config", config, "--shape", kShape});
  EXPECT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_EQ(plain.out, rows[0]["source"].get<std::string>());

  const CommandResult absent =
      kiln({"show", "--device", "avx2", "--isa", "avx512", "--shape", kShape});
  EXPECT_EQ(absent.exit_code, 2);
  EXPECT_THAT(absent.err, HasSubstr("isa = \"avx512\""));
}

TEST(CliShow, PrintsAssembly) {
  const CommandResult result =
      KilnCommand{}({"show", "--device", "portable", "--shape", kShape, "--asm"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("kiln_gemm:"), HasSubstr("ret")));
}

TEST(CliVerify, RandomSweepPasses) {
  const CommandResult result = KilnCommand{}({"verify", "--random", "3", "--seed", "11", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const auto rows = result.json();
  ASSERT_GE(rows.size(), 4u);
  const json& summary = rows.back()["summary"];
  EXPECT_EQ(summary["problems"], 3);
  EXPECT_EQ(summary["failed"], 0);
  EXPECT_EQ(summary["checked"], rows.size() - 1);
}

// A worker that ends at once fails every check. What is printed then must repeat the very case.
TEST(CliVerify, FailurePrintsACommandThatRepeatsIt) {
  const test::WorkerScript worker(test::kCompilesAlone);
  KilnCommand kiln;
  kiln.environment["KILN_WORKER"] = worker.path();
  const CommandResult broken = kiln({"verify", "--device", "portable", "--random", "1", "--json"});
  EXPECT_EQ(broken.exit_code, 1);
  const auto rows = broken.json();
  ASSERT_GE(rows.size(), 2u);
  EXPECT_EQ(rows[0]["kind"], "resources");
  const std::string repeat = rows[0]["repeat"];
  EXPECT_EQ(repeat, "kiln verify --device portable --threads 1 --shape \"" +
                        rows[0]["shape"].get<std::string>() + "\" --config \"" +
                        rows[0]["config"].get<std::string>() + "\" --seed 1");

  kiln.environment.erase("KILN_WORKER");
  const CommandResult again =
      kiln({"verify", "--device", "portable", "--threads", "1", "--shape", rows[0]["shape"],
            "--config", rows[0]["config"], "--seed", "1", "--json"});
  EXPECT_EQ(again.exit_code, 0) << again.out;
  EXPECT_EQ(again.json().at(0)["config"], rows[0]["config"]);
}

TEST(CliDeterminism, IsTunedExplainedAndRefused) {
  KilnCommand kiln;
  const std::vector<std::string> of_class{"--threads",       "1",       "--determinism",
                                          "batch_invariant", "--shape", kShape};
  const auto run = [&](const char* command, std::vector<std::string> more = {}) {
    more.insert(more.begin(), command);
    more.insert(more.end(), of_class.begin(), of_class.end());
    return kiln(more);
  };
  EXPECT_EQ(run("tune", {"--budget", "1h", "--candidates", "8"}).exit_code, 0);
  const CommandResult story = run("explain");
  EXPECT_THAT(story.out, AllOf(HasSubstr("match:     exact"),
                               HasSubstr("class:     batch_invariant, sums: ")));
  EXPECT_THAT(kiln({"explain", "--threads", "1", "--shape", kShape}).out,
              AllOf(testing::Not(HasSubstr("match:     exact")),
                    HasSubstr("class:     run_to_run, sums: ")));
  EXPECT_EQ(kiln({"db", "list", "--json"}).json().at(0)["determinism"], "batch_invariant");
  EXPECT_EQ(kiln({"explain", "--shape", kShape, "--determinism", "often"}).exit_code, 2);
  // Without code there is the plain loop, whose order is another.
  kiln.environment["KILN_CLANG"] = "/nowhere/libkiln_clang.so";
  kiln.environment["KILN_DB"] = ":memory:";
  const CommandResult refused = run("explain");
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("determinism = batch_invariant: " + kShape),
                                 HasSubstr("no stored kernel sums as ")));
}

TEST(CliTune, AWinnerThatCannotBeStoredIsSaidAndIsNoSuccess) {
  KilnCommand kiln;
  kiln.environment["KILN_DB"] = "";
  kiln.environment["XDG_CACHE_HOME"] = "/proc/none";
  const std::vector<std::string> tune{"tune", "--shape",      kShape, "--budget",
                                      "1h",   "--candidates", "8"};
  const CommandResult plain = kiln(tune);
  EXPECT_EQ(plain.exit_code, 3) << plain.err;
  EXPECT_THAT(plain.out, AllOf(HasSubstr("  warning: not stored: the winner for "),
                               HasSubstr("1 tuned, 0 tuned before, 0 failed, 1 not stored")));
  auto words = tune;
  words.emplace_back("--json");
  const CommandResult result = kiln(words);
  EXPECT_EQ(result.exit_code, 3) << result.err;
  const auto rows = result.json();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["stored"], false);
  EXPECT_THAT(rows[0]["warnings"].at(0).get<std::string>(),
              HasSubstr("not stored: the winner for "));
  EXPECT_EQ(rows[1]["summary"]["not_stored"], 1);
}

TEST(CliTune, MemoryThatWasAskedForIsASuccess) {
  KilnCommand kiln;
  const std::vector<std::string> tune{"tune", "--shape",      kShape, "--budget",
                                      "1h",   "--candidates", "8",    "--json"};
  const auto expect_done = [&](const std::vector<std::string>& words) {
    const CommandResult result = kiln(words);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    const auto rows = result.json();
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[0]["stored"], true);
    EXPECT_THAT(rows[0].dump() + result.err, testing::Not(HasSubstr("no file could be opened")));
  };
  kiln.environment["KILN_DB"] = ":memory:";
  expect_done(tune);
  kiln.environment["KILN_DB"] = (kiln.folder / "kiln.db").string();
  auto words = tune;
  words.insert(words.end(), {"--db", ":memory:"});
  expect_done(words);
  EXPECT_FALSE(std::filesystem::exists(kiln.folder / "kiln.db"));
}

/// One database tuned once, read by the tests below.
class CliDatabase : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    kiln_ = new KilnCommand;
    tuned_ = new CommandResult((*kiln_)({"tune", "--shape", kShape, "--threads", "1", "--budget",
                                         "1h", "--candidates", "16", "--seed", "2", "--json"}));
  }
  static void TearDownTestSuite() {
    delete tuned_;
    delete kiln_;
  }
  static KilnCommand* kiln_;
  static CommandResult* tuned_;
};
KilnCommand* CliDatabase::kiln_ = nullptr;
CommandResult* CliDatabase::tuned_ = nullptr;

TEST_F(CliDatabase, TuneReportsTheWinner) {
  EXPECT_EQ(tuned_->exit_code, 0) << tuned_->err;
  const auto rows = tuned_->json();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["shape"], kShape);
  EXPECT_EQ(rows[0]["threads"], 1);
  EXPECT_GT(rows[0]["median_ns"].get<double>(), 0);
  EXPECT_GT(rows[0]["share_of_peak"].get<double>(), 0);
  EXPECT_LE(rows[0]["share_of_peak"].get<double>(), 1);
  EXPECT_GT(rows[0]["share_of_roof"].get<double>(), 0);
  EXPECT_GT(rows[0]["searched"]["measured"].get<int>(), 0);
  EXPECT_FALSE(rows[0]["already_tuned"].get<bool>());
  EXPECT_EQ(rows[1]["summary"]["tuned"], 1);
  EXPECT_THAT(tuned_->err, HasSubstr("[1/1] " + kShape + ": "));  // progress, off stdout
}

TEST_F(CliDatabase, TunedShapeIsNotTunedAgain) {
  const auto rows = (*kiln_)({"tune", "--shape", kShape, "--threads", "1", "--budget", "1h",
                              "--candidates", "16", "--json"})
                        .json();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_TRUE(rows[0]["already_tuned"].get<bool>());
  EXPECT_EQ(rows[0]["config"], tuned_->json()[0]["config"]);
  EXPECT_EQ(rows[0]["searched"], tuned_->json()[0]["searched"]);
}

TEST_F(CliDatabase, EmptyProblemIsNothingToTune) {
  const CommandResult result = (*kiln_)({"tune", "--shape", "fp32 N N 0 8 8", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.json().at(0)["gflops"], 0);
}

TEST_F(CliDatabase, ExplainAndShowGiveTheTunedKernel) {
  const std::string config = tuned_->json()[0]["config"];
  const auto rows = (*kiln_)({"explain", "--shape", kShape, "--threads", "1", "--json"}).json();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["match"], "exact");
  EXPECT_EQ(rows[0]["config"], config);
  EXPECT_GT(rows[0]["roof"]["ns"].get<double>(), 0) << "tune stored the machine's limits";
  EXPECT_THAT(rows[0]["explanation"].get<std::string>(), HasSubstr("\nroof:      "));
  EXPECT_THAT(rows[0]["explanation"].get<std::string>(), HasSubstr(config));
  const auto shown = (*kiln_)({"show", "--shape", kShape, "--threads", "1", "--json"}).json();
  EXPECT_EQ(shown.at(0)["config"], config);
  EXPECT_EQ(shown.at(0)["why"], "tuned");
}

/// Rows that a text takes on a screen of so many columns.
std::size_t rows_of(const std::string& text, std::size_t columns) {
  std::size_t rows = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto wide = std::count_if(line.begin(), line.end(), [](char c) {
      return (c & 0xC0) != 0x80;  // no continuation of a UTF-8 character
    });
    rows += std::max<std::size_t>(1, (static_cast<std::size_t>(wide) + columns - 1) / columns);
  }
  return rows;
}

TEST_F(CliDatabase, ExplainFitsOneScreenAndHasTheSourceWhenAsked) {
  const auto explained = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"explain", "--shape", kShape, "--threads", "1"});
    return (*kiln_)(more);
  };
  const std::string page = explained({}).out;
  EXPECT_LE(rows_of(page, 100), 24u) << page;
  EXPECT_THAT(page, AllOf(HasSubstr("match:     exact"), HasSubstr("other candidates, slower by:"),
                          testing::Not(HasSubstr("source:\n"))));
  const std::string whole = explained({"--source"}).out;
  EXPECT_EQ(whole.substr(0, page.size()), page);
  EXPECT_THAT(whole, AllOf(HasSubstr("\nsource:\n"), HasSubstr("kiln_gemm")));
  const auto bare = explained({"--json"}).json().at(0);
  EXPECT_FALSE(bare.contains("source"));
  const auto& record = bare["record"];
  EXPECT_GT(record["measured"]["median_ns"], 0);
  EXPECT_EQ(record["verified"], true);
  EXPECT_EQ(
      record["tried"], record["others"].size() + 1 + [&] {
        int failed = 0;
        for (const auto& row : record["failures"]) failed += row["count"].get<int>();
        return failed;
      }());
  EXPECT_GT(record["others"].at(0)["gflops"], 0);
  EXPECT_THAT(bare["fingerprint"].get<std::string>(), HasSubstr("units=1"));
  EXPECT_THAT(explained({"--json", "--source"}).json().at(0)["source"].get<std::string>(),
              HasSubstr("kiln_gemm"));
}

TEST_F(CliDatabase, ListFitsTheTerminal) {
  KilnCommand narrow;
  narrow.environment["KILN_DB"] = kiln_->environment["KILN_DB"];
  for (const std::size_t columns : {80u, 120u, 200u}) {
    narrow.environment["COLUMNS"] = std::to_string(columns);
    const std::string list = narrow({"db", "list"}).out;
    EXPECT_EQ(rows_of(list, columns), 3u) << list;
    EXPECT_THAT(list, AllOf(HasSubstr(kShape), HasSubstr("host_")));
  }
  const std::string whole = narrow({"db", "list", "--wide"}).out;
  EXPECT_EQ(whole, (*kiln_)({"db", "list"}).out);
  EXPECT_THAT(whole, HasSubstr(tuned_->json()[0]["config"].get<std::string>()));
}

TEST_F(CliDatabase, ListStatsAndCheckSeeTheRecord) {
  const auto listed = (*kiln_)({"db", "list", "--json"}).json();
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0]["shape"], kShape);
  EXPECT_EQ(listed[0]["config"], tuned_->json()[0]["config"]);
  EXPECT_EQ(listed[1]["summary"]["records"], 1);
  const auto stats = (*kiln_)({"db", "stats", "--json"}).json();
  ASSERT_EQ(stats.size(), 1u);
  EXPECT_EQ(stats[0]["winners"], 1);
  EXPECT_GE(stats[0]["binaries"].get<int>(), 1);
  const CommandResult check = (*kiln_)({"db", "check", "--json"});
  EXPECT_EQ(check.exit_code, 0);
  EXPECT_TRUE(check.json().back()["summary"]["sound"].get<bool>());
}

TEST_F(CliDatabase, ExportedFileServesAnotherUser) {
  const std::string file = (kiln_->folder / "app.kiln").string();
  const CommandResult exported = (*kiln_)({"db", "export", file});
  EXPECT_EQ(exported.exit_code, 0) << exported.err;

  KilnCommand shipped;  // read from where it lies
  shipped.environment["KILN_DB_PATH"] = file;
  const auto seen = shipped({"explain", "--shape", kShape, "--threads", "1", "--json"}).json();
  EXPECT_EQ(seen.at(0)["match"], "exact");

  const KilnCommand imported;  // merged into another database
  EXPECT_EQ(imported({"db", "import", file}).exit_code, 0);
  const auto listed = imported({"db", "list", "--json"}).json();
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0]["config"], tuned_->json()[0]["config"]);
}

TEST_F(CliDatabase, BenchPrintsTheFieldsThatScriptsRead) {
  const CommandResult result =
      (*kiln_)({"bench", "--shape", kShape, "--threads", "1", "--samples", "3", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto rows = result.json();
  ASSERT_EQ(rows.size(), 2u);
  const json& row = rows[0];
  EXPECT_EQ(row["dtype"], "fp32");
  EXPECT_EQ(row["ta"], "N");
  EXPECT_EQ(row["tb"], "T");
  EXPECT_EQ(row["m"], 24);
  EXPECT_EQ(row["n"], 24);
  EXPECT_EQ(row["k"], 24);
  EXPECT_EQ(row["threads"], 1);
  EXPECT_EQ(row["device"], "cpu");
  EXPECT_GT(row["kiln_ns"].get<double>(), 0);
  EXPECT_TRUE(row["peers"].is_object());
  EXPECT_TRUE(row["verified"].get<bool>());
  EXPECT_EQ(row["config"], tuned_->json()[0]["config"]);
  for (const char* field : {"best_peer", "ratio", "policy"})
    EXPECT_TRUE(row.contains(field)) << field;
  EXPECT_GT(rows[1]["summary"]["machine"][0]["fp32_fma_flops"].get<double>(), 0);
}

TEST_F(CliDatabase, ColdStartLoadsNoCompiler) {
  const CommandResult result =
      (*kiln_)({"bench", "--cold-start", "--shape", kShape, "--threads", "1", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto rows = result.json();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0]["cold_start"]["exact"].get<bool>());
  EXPECT_TRUE(rows[0]["cold_start"]["verified"].get<bool>());
  EXPECT_THAT(rows[0]["cold_start"]["compiler_files"], IsEmpty());
}

TEST(CliDbClass, MakesTheKernelsOfAKindOnceAndMarksThemPredicted) {
  const KilnCommand kiln;
  const std::vector<std::string> make{
      "db", "class", "portable", "--shape", "s8u8 N N 1 1 1 out=u8", "--json"};
  const CommandResult first = kiln(make), second = kiln(make);
  ASSERT_EQ(first.exit_code, 0) << first.err << first.out;
  EXPECT_EQ(first.json().at(0)["kinds"], 1);
  EXPECT_GT(first.json().at(0)["made"], 0);
  EXPECT_TRUE(first.json().at(0)["failed"].empty());
  EXPECT_EQ(second.json().at(0)["made"], 0);
  EXPECT_EQ(second.json().at(0)["there"], first.json().at(0)["made"]);
  const auto rows = kiln({"db", "list", "--json"}).json();
  ASSERT_EQ(rows.back()["summary"]["records"], first.json().at(0)["made"]);
  EXPECT_EQ(rows[0]["predicted"], true);
  EXPECT_EQ(rows[0]["verified"], true);
  EXPECT_EQ(kiln({"db", "check"}).exit_code, 0);
  EXPECT_EQ(kiln({"db", "refresh", "--check"}).exit_code, 0);
}

TEST(CliDbClass, NamesTheClassThatItCannotMake) {
  const KilnCommand kiln;
  EXPECT_EQ(kiln({"db", "class"}).exit_code, 2);
  const CommandResult unknown = kiln({"db", "class", "avx3"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("avx3"));
#if defined(__x86_64__)
  const CommandResult foreign = kiln({"db", "class", "aarch64"});
  EXPECT_EQ(foreign.exit_code, 3);
  EXPECT_THAT(foreign.err, HasSubstr("class = \"aarch64\": this CPU lacks its instructions"));
#endif
}

}  // namespace kiln::cli_run_test
