// The language of templates, and what every template must be: source that tools can read, whichever
// branch is chosen.
#include "generator/render/template.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "generator/render/embedded.h"

namespace kiln::template_test {

using testing::HasSubstr;

std::string_view file(std::string_view path) {
  if (path == "body.h")
    return "// Head.\n#pragma once\n\nint x;\n\n//% if two\n#pragma y\nint y;\n//% end\n";
  if (path == "outer.h") return "{\n  //% include body.h\n}\n";
  if (path == "itself.h") return "//% include itself.h\n";
  if (path == "open.h") return "//% if two\n";
  return {};
}

std::string expanded(std::string_view text, const TemplateValues& values = {}) {
  const auto result = expand(text, values, file);
  return result ? *result : "error: " + result.error().message;
}

TEST(Template, KeepsTheBranchThatTheValuesChoose) {
  constexpr std::string_view kText =
      "a\n//% if x == 1 && !y || z\n  b\n  //% if y\n  c\n  //% end\n//% else\nd\n//% end\n";
  EXPECT_EQ(expanded(kText, {{"x", "1"}, {"y", "0"}, {"z", ""}}), "a\n  b\n");
  EXPECT_EQ(expanded(kText, {{"x", "2"}, {"y", "3"}, {"z", "none"}}), "a\nd\n");
  EXPECT_EQ(expanded(kText, {{"x", "2"}, {"y", "3"}, {"z", "4"}}), "a\n  b\n  c\n");
}

TEST(Template, LeavesOneBlankLineWhereABranchWas) {
  EXPECT_EQ(expanded("a\n\n//% if x\nb\n//% end\n\nc\n", {{"x", "0"}}), "a\n\nc\n");
}

TEST(Template, IndentsAnIncludedFileAsTheLineThatIncludesIt) {
  constexpr std::string_view kText = "{\n  //% include outer.h\n}\n";
  EXPECT_EQ(expanded(kText, {{"two", "0"}}), "{\n  {\n    int x;\n\n  }\n}\n");
  EXPECT_EQ(expanded(kText, {{"two", "1"}}),
            "{\n  {\n    int x;\n\n#pragma y\n    int y;\n  }\n}\n");
}

TEST(Template, IncludesNothingInABranchThatIsLeftOut) {
  EXPECT_EQ(expanded("//% if x\n//% include unknown.h\n//% end\na\n", {{"x", "0"}}), "a\n");
}

TEST(Template, FindsWhatIsIncludedInAnyBranch) {
  EXPECT_THAT(included_by("//% if x\n  //% include a.h\n//% else\n//% include b.h\n//% end\n"),
              testing::ElementsAre("a.h", "b.h"));
}

TEST(Template, ErrorsNameTheLine) {
  EXPECT_THAT(expanded("a\n//% if x\n//% end\n"), HasSubstr("line 2: template asks about unknown"));
  EXPECT_THAT(expanded("//% end\n"), HasSubstr("line 1: stray directive 'end'"));
  EXPECT_THAT(expanded("//% elif x\n"), HasSubstr("stray directive 'elif x'"));
  EXPECT_THAT(expanded("//% if x\n", {{"x", "1"}}), HasSubstr("no '//% end'"));
  EXPECT_THAT(expanded("a\n//% include b.h\n"),
              HasSubstr("line 2: template includes unknown file"));
  EXPECT_THAT(expanded("//% include itself.h\n"), HasSubstr("too deep"));
  EXPECT_THAT(expanded("//% include open.h\n", {{"two", "1"}}), HasSubstr("open.h: a template's"));
}

/// Follows brackets through a template. Those of a branch of `//% if` are the branch's own.
class Brackets {
 public:
  /// What is unbalanced, a line each.
  static std::string complaint(std::string_view text) {
    Brackets brackets;
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line);) brackets.read_line(line);
    brackets.end_branch();
    return brackets.complaint_;
  }

 private:
  struct Open {
    char bracket;
    int line;
  };

  void read_line(const std::string& line) {
    ++number_;
    std::istringstream words(line);
    std::string mark, word;
    words >> mark >> word;
    if (!in_comment_ && mark == "//%") {
      if (word == "else" || word == "end") end_branch();
      if (word == "end") branches_.pop_back();
      if (word == "if") branches_.emplace_back();
      if (word == "else") branches_.back().clear();
      return;
    }
    for (std::size_t i = 0; i < line.size(); i = next(line, i)) {
      const char c = line[i];
      if (in_comment_) continue;
      if (c == '(' || c == '[' || c == '{') branches_.back().push_back({c, number_});
      if (c == ')' || c == ']' || c == '}') close(c);
    }
  }

  /// Where to read on after line[i]: behind a comment or a literal that begins or goes on there.
  std::size_t next(const std::string& line, std::size_t i) {
    if (in_comment_) {
      const auto end = line.find("*/", i);
      in_comment_ = end == std::string::npos;
      return in_comment_ ? line.size() : end + 2;
    }
    if (line.compare(i, 2, "//") == 0) return line.size();
    if (line.compare(i, 2, "/*") == 0) {
      in_comment_ = true;
      return i + 2;
    }
    const bool separator =  // of the digits of a number
        line[i] == '\'' && i > 0 && std::isxdigit(static_cast<unsigned char>(line[i - 1])) != 0;
    if (separator || (line[i] != '"' && line[i] != '\'')) return i + 1;
    std::size_t end = i + 1;
    while (end < line.size() && line[end] != line[i]) end += line[end] == '\\' ? 2 : 1;
    return end + 1;
  }

  void close(char bracket) {
    auto& branch = branches_.back();
    const char opened = bracket == ')' ? '(' : bracket == ']' ? '[' : '{';
    if (branch.empty() || branch.back().bracket != opened)
      complaint_ += fmt::format("  line {}: '{}' closes nothing of its branch\n", number_, bracket);
    else
      branch.pop_back();
  }

  void end_branch() {
    for (const Open& open : branches_.back())
      complaint_ +=
          fmt::format("  line {}: '{}' is not closed in its branch\n", open.line, open.bracket);
  }

  std::vector<std::vector<Open>> branches_{1};
  std::string complaint_;
  int number_ = 0;
  bool in_comment_ = false;
};

/// So that editors, formatters and people can follow a template: a branch is whole declarations,
/// statements, parameters or arguments. What needs more is a file of its own that both branches
/// include.
TEST(Templates, EachBranchIsBalanced) {
  for (const EmbeddedFile& file : embedded_templates())
    EXPECT_EQ(Brackets::complaint(file.text), "") << "templates/" << file.path;
}

TEST(Templates, PlantedBracketsAreSeen) {
  EXPECT_EQ(Brackets::complaint("int f(int (&x)[4]) { return x[0]; }\n"), "");
  EXPECT_EQ(Brackets::complaint("f(\n    //% if x\n    int a,\n    //% end\n    int b) {\n}\n"),
            "");
  EXPECT_EQ(Brackets::complaint("// {\n/* ( \n { */ f(\"[\\\"(\", '{', '\\'', 1'000, 0xf'f);\n"),
            "");
  EXPECT_EQ(Brackets::complaint("//% if x\nvoid f() {\n//% else\nvoid f(int) {\n//% end\n}\n"),
            "  line 2: '{' is not closed in its branch\n"
            "  line 4: '{' is not closed in its branch\n"
            "  line 6: '}' closes nothing of its branch\n");
  EXPECT_EQ(Brackets::complaint("f(]\n"),
            "  line 1: ']' closes nothing of its branch\n"
            "  line 1: '(' is not closed in its branch\n");
}

// But lines that follow from the problem's expression (generator/expression/code.h).
TEST(Templates, IncludeFilesThatThereAre) {
  for (const EmbeddedFile& file : embedded_templates())
    for (const std::string_view included : included_by(file.text)) {
      int found = 0;
      for (const EmbeddedFile& other : embedded_templates())
        found += other.path == included ? 1 : 0;
      EXPECT_EQ(found, included.starts_with("expression/") ? 0 : 1)
          << "templates/" << file.path << " includes " << included;
    }
}

}  // namespace kiln::template_test
