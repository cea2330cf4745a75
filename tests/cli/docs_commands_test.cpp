// Every ```sh block of the documents is run, in order, in an empty home; those that need what CI
// has not say why (tests/support/fenced.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "support/fenced.h"
#include "support/kiln_command.h"
#include "support/paths.h"

namespace kiln::docs_commands_test {

namespace fs = std::filesystem;
using test::Fenced;
using test::KilnCommand;

std::vector<fs::path> documents() {
  std::vector<fs::path> files{test::source_dir() + "/README.md"};
  for (const auto& entry : fs::recursive_directory_iterator(test::source_dir() + "/docs"))
    if (entry.path().extension() == ".md") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// A `kiln` in a hurry: a search has few candidates, every other budget is a moment and a race has
/// one thread count, one library and few samples, so that pages may name what people need.
std::string hurried() {
  return R"(#!/bin/bash
words=(); given=" "
while (($#)); do
  words+=("$1"); given+="$1 "
  if [[ $1 == --budget || $1 == --range-budget ]]; then words+=(0.2); shift; fi
  shift
done
add() { [[ $given == *" $1 "* ]] || words+=("$@"); }
case ${words[0]} in
  tune) add --candidates 8 ;;
  bench | sweep) add --threads 1; add --samples 7; add --peers openblas ;;
esac
exec ")" +
         test::build_dir() + R"(/bin/kiln" "${words[@]}"
)";
}

void make_program(const fs::path& file, const std::string& text) {
  std::ofstream(file) << text;
  fs::permissions(file, fs::perms(0755));
}

class Page : public testing::TestWithParam<std::string> {};

TEST_P(Page, ItsCommandsRun) {
  const TempDir folder;
  fs::create_directories(folder / "bin");
  fs::create_directories(folder / "work");
  make_program(folder / "bin/kiln", hurried());
  std::string script = "set -eo pipefail\n";
  for (const Fenced& block : test::fenced_blocks(GetParam()))
    if (block.language == "sh" && block.not_run.empty())
      script += "echo '== line " + std::to_string(block.line) + "'\n" + block.text;
  make_program(folder / "script", script);
  const std::string said = (folder / "said").string();
  const std::string run =
      "cd " + (folder / "work").string() + " && env -i HOME=" + (folder / "work").string() +
      " PATH=" + (folder / "bin").string() +
      ":/usr/local/bin:/usr/bin:/bin KILN_LOCK_DIR=" + folder.path().string() + " bash " +
      (folder / "script").string() + " >" + said + " 2>&1 </dev/null";
  EXPECT_EQ(std::system(run.c_str()), 0) << GetParam() << "\n" << KilnCommand::read(said);
}

std::vector<std::string> pages_with_commands() {
  std::vector<std::string> pages;
  for (const fs::path& file : documents())
    for (const Fenced& block : test::fenced_blocks(file.string()))
      if (block.language == "sh" && block.not_run.empty() && !block.hidden) {
        pages.push_back(file.string());
        break;
      }
  return pages;
}

/// The page's path as a test is named: letters, digits and underscores.
std::string test_name(const testing::TestParamInfo<std::string>& info) {
  const fs::path page(info.param);
  const bool of_guide = page.parent_path().filename() == "guide";
  std::string name = (of_guide ? "guide_" : "") + page.stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Docs, Page, testing::ValuesIn(pages_with_commands()), test_name);

TEST(DocsCommands, ReasonsAreGivenWhereNothingIsRun) {
  int run = 0, read = 0;
  for (const fs::path& file : documents())
    for (const Fenced& block : test::fenced_blocks(file.string())) {
      if (block.language == "bash" || block.language == "shell" || block.language == "console")
        ADD_FAILURE() << file << ":" << block.line << ": blocks of commands are called sh";
      if (block.language != "sh") continue;
      (block.not_run.empty() ? run : read) += 1;
      if (!block.not_run.empty()) {
        EXPECT_GT(block.not_run.size(), 10u) << file << ":" << block.line;
      }
    }
  EXPECT_GT(run, 12);
  EXPECT_GT(run, read);
}

}  // namespace kiln::docs_commands_test
