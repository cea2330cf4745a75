// The guide says each thing once: no sentence stands twice in its pages, and no command twice in a
// section.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>

#include "support/paths.h"

namespace kiln::docs_repeats_test {

/// Without comment and alignment: words with a blank between.
std::string command_of(std::string_view line) {
  std::string command;
  for (const char c : line.substr(0, line.find(" #")))
    if (c != ' ' || (!command.empty() && command.back() != ' ')) command += c;
  while (!command.empty() && command.back() == ' ') command.pop_back();
  return command;
}

/// Adds the sentences of a page to those of the pages before it.
void read_page(const std::filesystem::path& file, std::set<std::string>& sentences) {
  constexpr std::size_t kSentence = 40;  // shorter ones may be the same by chance
  std::ifstream page(file);
  ASSERT_TRUE(page) << file;
  std::set<std::string> commands;
  bool fenced = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("```")) {
      fenced = !fenced;
    } else if (fenced) {
      if (line.starts_with("kiln ")) {
        EXPECT_TRUE(commands.insert(command_of(line)).second) << file << ": " << line;
      }
    } else if (line.starts_with("## ")) {
      commands.clear();
    } else {
      for (std::string_view rest = line; !rest.empty();) {
        const std::size_t end = std::min(rest.find(". "), rest.size() - 1);
        const std::string_view sentence = rest.substr(0, end + 1);
        if (sentence.size() > kSentence) {
          EXPECT_TRUE(sentences.emplace(sentence).second) << file << ": " << sentence;
        }
        rest.remove_prefix(end + 1);
      }
    }
  }
}

TEST(Guide, SaysEachThingOnce) {
  std::set<std::string> sentences;
  const std::string folder = test::source_dir() + "/docs/guide";
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".md") read_page(entry.path(), sentences);
  EXPECT_GT(sentences.size(), 200u);
}

}  // namespace kiln::docs_repeats_test
