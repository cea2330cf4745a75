// The guide says each thing once: no sentence stands in it twice, and no command twice in a
// section.
#include <gtest/gtest.h>

#include <algorithm>
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

TEST(Guide, SaysEachThingOnce) {
  constexpr std::size_t kSentence = 40;  // shorter ones may be the same by chance
  std::ifstream guide(test::source_dir() + "/docs/guide.md");
  ASSERT_TRUE(guide);
  std::set<std::string> sentences, commands;
  bool fenced = false;
  for (std::string line; std::getline(guide, line);) {
    if (line.starts_with("```")) {
      fenced = !fenced;
    } else if (fenced) {
      if (line.starts_with("kiln ")) {
        EXPECT_TRUE(commands.insert(command_of(line)).second) << line;
      }
    } else if (line.starts_with("## ")) {
      commands.clear();
    } else {
      for (std::string_view rest = line; !rest.empty();) {
        const std::size_t end = std::min(rest.find(". "), rest.size() - 1);
        const std::string_view sentence = rest.substr(0, end + 1);
        if (sentence.size() > kSentence) {
          EXPECT_TRUE(sentences.emplace(sentence).second) << sentence;
        }
        rest.remove_prefix(end + 1);
      }
    }
  }
  EXPECT_GT(sentences.size(), 200u);
}

}  // namespace kiln::docs_repeats_test
