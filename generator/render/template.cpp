#include "generator/render/template.h"

#include <fmt/format.h>

#include <vector>

namespace kiln {
namespace {

std::string_view trimmed(std::string_view s) {
  const auto begin = s.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return s.substr(begin, s.find_last_not_of(" \t") - begin + 1);
}

std::vector<std::string_view> split(std::string_view s, std::string_view by) {
  std::vector<std::string_view> parts;
  for (auto at = s.find(by); at != std::string_view::npos; at = s.find(by)) {
    parts.push_back(s.substr(0, at));
    s.remove_prefix(at + by.size());
  }
  parts.push_back(s);
  return parts;
}

Result<bool> term(std::string_view expression, const TemplateValues& values) {
  const bool differs = expression.find("!=") != std::string_view::npos;
  const auto sides = split(expression, differs ? "!=" : "==");
  auto key = trimmed(sides[0]);
  const bool negated = sides.size() == 1 && key.starts_with('!');
  if (negated) key = trimmed(key.substr(1));
  const auto found = values.find(key);
  if (found == values.end())
    return fail(ErrorCode::internal, fmt::format("template asks about unknown value '{}'", key));
  if (sides.size() == 2) return (found->second == trimmed(sides[1])) != differs;
  const bool holds = !found->second.empty() && found->second != "0" && found->second != "none";
  return holds != negated;
}

Result<bool> evaluate(std::string_view expression, const TemplateValues& values) {
  for (const auto alternative : split(expression, "||")) {
    bool all = true;
    for (const auto part : split(alternative, "&&")) {
      const auto holds = term(trimmed(part), values);
      if (!holds) return holds;
      all = all && *holds;
    }
    if (all) return true;
  }
  return false;
}

}  // namespace

Result<std::string> expand(std::string_view text, const TemplateValues& values) {
  struct Branch {
    bool outer, taken;  // whether the surroundings, and this side, are kept
  };
  std::vector<Branch> open;
  std::string out;
  bool keep = true;
  int number = 0;
  for (const auto line : split(text, "\n")) {
    ++number;
    auto rest = trimmed(line);
    if (rest == "#pragma once") continue;
    if (!rest.starts_with("//%")) {
      // Removed branches leave runs of blank lines behind: one is enough.
      if (keep && !(rest.empty() && out.ends_with("\n\n"))) out.append(line).push_back('\n');
      continue;
    }
    rest = trimmed(rest.substr(3));
    if (rest.starts_with("if ")) {
      const auto holds = evaluate(rest.substr(3), values);
      if (!holds)
        return fail(holds.error().code, fmt::format("line {}: {}", number, holds.error().message));
      open.push_back({keep, *holds});
      keep = keep && *holds;
    } else if (rest == "else" && !open.empty()) {
      keep = open.back().outer && !open.back().taken;
    } else if (rest == "end" && !open.empty()) {
      keep = open.back().outer;
      open.pop_back();
    } else {
      return fail(ErrorCode::internal, fmt::format("line {}: stray directive '{}'", number, rest));
    }
  }
  if (!open.empty()) return fail(ErrorCode::internal, "a template's '//% if' has no '//% end'");
  if (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace kiln
