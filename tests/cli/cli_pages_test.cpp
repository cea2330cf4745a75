// What the command makes of its own tree: completion scripts, run by the shells, and man pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/kiln_command.h"

namespace kiln::cli_pages_test {

using test::CommandResult;
using test::KilnCommand;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

/// Output of a shell's command line; its messages are failures.
std::string shell(const KilnCommand& kiln, const std::string& line) {
  const std::string out = (kiln.folder / "out").string();
  EXPECT_EQ(std::system((line + " >" + out + " 2>&1 </dev/null").c_str()), 0)
      << line << "\n"
      << KilnCommand::read(out);
  return KilnCommand::read(out);
}

std::string script_of(const KilnCommand& kiln, const std::string& name) {
  const CommandResult result = kiln({"completion", name});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string file = (kiln.folder / name).string();
  std::ofstream(file) << result.out;
  return file;
}

/// What bash offers for the last of the words.
std::vector<std::string> in_bash(const KilnCommand& kiln, const std::string& words) {
  const std::size_t last = words_of(words).size() - (words.ends_with(' ') ? 0 : 1);
  return words_of(shell(kiln, "bash -c 'source " + script_of(kiln, "bash") + "; COMP_WORDS=(" +
                                  words + "); COMP_CWORD=" + std::to_string(last) +
                                  "; _kiln; echo \"${COMPREPLY[@]}\"'"));
}

TEST(CliCompletion, BashOffersCommandsOptionsAndValues) {
  const KilnCommand kiln;
  EXPECT_THAT(in_bash(kiln, "kiln tu"), testing::ElementsAre("tune"));
  EXPECT_THAT(in_bash(kiln, "kiln "), AllOf(Contains("tune"), Contains("sweep"), Contains("db")));
  EXPECT_THAT(in_bash(kiln, "kiln db "), AllOf(Contains("list"), Not(Contains("tune"))));
  EXPECT_THAT(in_bash(kiln, "kiln tune --bud"), testing::ElementsAre("--budget"));  // clock: a word
  EXPECT_THAT(in_bash(kiln, "kiln db list --w"), testing::ElementsAre("--wide"));
  EXPECT_THAT(in_bash(kiln, "kiln compile --device avx51"),
              AllOf(Contains("avx512"), Not(Contains("avx2"))));
  EXPECT_THAT(in_bash(kiln, "kiln bench --layers bert"), testing::ElementsAre("bert-base"));
  EXPECT_THAT(in_bash(kiln, "kiln tune --determinism b"), testing::ElementsAre("batch_invariant"));
  EXPECT_THAT(in_bash(kiln, "kiln completion "), AllOf(Contains("bash"), Contains("fish")));
  EXPECT_THAT(in_bash(kiln, "kiln help ex"), testing::ElementsAre("explain", "examples"));
  std::ofstream(kiln.folder / "shapes.txt") << "fp32 N N 1 2 3\n";
  const std::string begin = (kiln.folder / "sha").string();
  EXPECT_THAT(in_bash(kiln, "kiln tune --file " + begin), testing::ElementsAre(begin + "pes.txt"));
  EXPECT_THAT(in_bash(kiln, "kiln db import " + begin), testing::ElementsAre(begin + "pes.txt"));
  EXPECT_THAT(in_bash(kiln, "kiln tune --seed "), IsEmpty());
}

TEST(CliCompletion, FishOffersThem) {
  const KilnCommand kiln;
  const auto offered = [&](const std::string& line) {
    return shell(kiln, "env HOME=" + kiln.folder.path().string() + " fish --no-config -c 'source " +
                           script_of(kiln, "fish") + "; complete -C \"" + line + "\"'");
  };
  EXPECT_THAT(offered("kiln tu"), HasSubstr("tune\tSearch the fastest kernel"));
  EXPECT_THAT(offered("kiln db "), AllOf(HasSubstr("list\t"), Not(HasSubstr("tune\t"))));
  EXPECT_THAT(offered("kiln tune --bud"), HasSubstr("--budget\t"));
  EXPECT_THAT(offered("kiln compile --device avx51"), HasSubstr("avx512"));
}

TEST(CliCompletion, ZshReadsItsScript) {
  const KilnCommand kiln;
  EXPECT_THAT(shell(kiln, "zsh -n " + script_of(kiln, "zsh")), IsEmpty());
  // The function itself, with what it calls taken down.
  const std::string offered = shell(
      kiln, "zsh -f -c 'compdef() { : }; _describe() { print -l -- ${(P)@[-1]} }; source " +
                script_of(kiln, "zsh") + "; words=(kiln db \"\"); CURRENT=3; options=(); _kiln'");
  EXPECT_THAT(offered, HasSubstr("--help"));
}

TEST(CliMan, EveryCommandHasAPageWithoutAWarning) {
  const KilnCommand kiln;
  const std::string folder = (kiln.folder / "man1").string();
  ASSERT_EQ(kiln({"man", "--write", folder}).exit_code, 0);
  for (const char* page : {"kiln", "kiln-tune", "kiln-sweep", "kiln-db", "kiln-db-list"})
    EXPECT_TRUE(std::filesystem::exists(folder + "/" + page + ".1")) << page;
  EXPECT_THAT(shell(kiln, "mandoc -Tlint -Wwarning " + folder + "/*.1"), IsEmpty());
  EXPECT_THAT(
      shell(kiln, "for page in " + folder + "/*.1; do groff -k -man -wall -Tutf8 -z $page; done"),
      IsEmpty());
}

TEST(CliMan, APageHoldsWhatHelpSays) {
  KilnCommand kiln;
  kiln.environment["SOURCE_DATE_EPOCH"] = "86400";
  const CommandResult page = kiln({"man", "db", "list"});
  EXPECT_EQ(page.exit_code, 0) << page.err;
  EXPECT_THAT(page.out,
              AllOf(HasSubstr(".TH KILN-DB-LIST 1 1970-01-02 \"kiln "),
                    HasSubstr(".SH NAME\nkiln\\-db\\-list \\- List the best kernel"),
                    HasSubstr("\\fB\\-\\-wide\\fR"), HasSubstr(".SH EXAMPLES\n"),
                    HasSubstr(".SH EXIT STATUS\n"), HasSubstr("\\fBkiln\\-db\\-merge\\fR(1)")));
  EXPECT_EQ(kiln({"man", "db", "list", "--json"}).json().at(0)["page"], page.out);
  EXPECT_EQ(kiln({"completion", "bash", "--json"}).json().at(0)["script"],
            kiln({"completion", "bash"}).out);
  const CommandResult wrong = kiln({"man", "db", "lst"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean \"kiln db list\"?"));
}

}  // namespace kiln::cli_pages_test
