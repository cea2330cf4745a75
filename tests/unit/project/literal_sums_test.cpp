// No source adds a text that a call returns to a literal: with optimisation GCC 12 inlines
// operator+(const char*, std::string&&) into a copy of which it says -Wrestrict (its bug 105651).
// fmt::format() and append() say the same.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "support/paths.h"

namespace kiln::literal_sums_test {

namespace fs = std::filesystem;

/// `"…" + call(` where the literal comes first. Functions that return a reference are not such
/// calls: operator+(const char*, const std::string&) copies otherwise.
std::vector<std::string> sums_in(const std::string& text) {
  static const std::regex call(R"re(^\s+([A-Za-z_][\w:.>-]*(<\w+>)?)\()re");
  static const std::regex reference(R"re((^|[.>])(error|missing|get_name|front|order)$)re");
  constexpr std::size_t kLongestCall = 80;
  std::vector<std::string> found;
  for (std::size_t quote = text.find('"'); quote != text.npos; quote = text.find('"', quote + 1)) {
    const std::size_t plus = text.find_first_not_of(" \n", quote + 1);
    if (plus == text.npos || text[plus] != '+') continue;
    const std::string behind = text.substr(plus + 1, kLongestCall);
    std::smatch called;
    if (!std::regex_search(behind, called, call)) continue;
    const std::string name = called[1];
    if (std::regex_search(name, reference)) continue;
    const std::size_t begin = quote == 0 ? text.npos : text.rfind('"', quote - 1);
    const std::size_t before = begin == text.npos ? begin : text.find_last_not_of(" \n", begin - 1);
    if (before != text.npos && (text[before] == '+' || text[before] == '"')) continue;
    const auto line = std::count(text.begin(), text.begin() + std::ptrdiff_t(plus), '\n') + 1;
    found.push_back(fmt::format("{}: \"…\" + {}(", line, name));
  }
  return found;
}

TEST(LiteralSums, AreFoundWhereACallReturnsAText) {
  EXPECT_EQ(sums_in("x = \"a \" + std::to_string(1);").size(), 1u);
  EXPECT_EQ(sums_in("x = f(\"a \" +\n      file.string() + b);").size(), 1u);
  EXPECT_TRUE(sums_in("x = \"a \" + name;").empty());
  EXPECT_TRUE(sums_in("x = y + \"a \" + f(1);").empty());
  EXPECT_TRUE(sums_in("x = \"a \" + built.error().message;").empty());
}

TEST(LiteralSums, AreInNoSource) {
  const fs::path root = test::source_dir();
  for (const char* folder : {"bench", "cache", "cli", "engine", "fleet", "generator", "hooks",
                             "include", "python/src", "runtime", "tuner"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string ending = entry.path().extension().string();
      if (ending != ".cpp" && ending != ".h" && ending != ".hpp") continue;
      std::ifstream in(entry.path());
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      for (const std::string& sum : sums_in(text))
        ADD_FAILURE() << entry.path().string() << ":" << sum;
    }
}

}  // namespace kiln::literal_sums_test
