// The language of templates.
#include "generator/render/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

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

TEST(Templates, IncludeFilesThatThereAre) {
  for (const EmbeddedFile& file : embedded_templates())
    for (const std::string_view included : included_by(file.text)) {
      int found = 0;
      for (const EmbeddedFile& other : embedded_templates())
        found += other.path == included ? 1 : 0;
      EXPECT_EQ(found, 1) << "templates/" << file.path << " includes " << included;
    }
}

}  // namespace kiln::template_test
