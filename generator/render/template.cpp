#include "generator/render/template.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

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

/// A directive without its mark; nothing where the line is none.
std::optional<std::string_view> directive_of(std::string_view line) {
  const std::string_view text = trimmed(line);
  if (!text.starts_with("//%")) return std::nullopt;
  return trimmed(text.substr(3));
}

/// What is included of a file: without the head, which ends in `#pragma once`, and the last line's
/// end.
std::string_view body_of(std::string_view text) {
  constexpr std::string_view kEndOfHead = "#pragma once\n";
  if (const auto head = text.find(kEndOfHead); head != std::string_view::npos)
    text.remove_prefix(head + kEndOfHead.size());
  text.remove_prefix(std::min(text.size(), text.find_first_not_of('\n')));
  return text.substr(0, text.find_last_not_of('\n') + 1);
}

constexpr std::string_view kInclude = "include ";

class Expansion {
 public:
  Expansion(const TemplateValues& values, const TemplateFiles& files)
      : values_(values), files_(files) {}

  /// Appends what is kept of `text`, indented by `indent`.
  Status append(std::string_view text, std::string_view indent, int depth) {
    struct Branch {
      bool outer, taken;  // whether the surroundings, and this side, are kept
    };
    std::vector<Branch> open;
    bool keep = true;
    int number = 0;
    const auto wrong = [&](const std::string& what) {
      return fail(ErrorCode::internal, fmt::format("line {}: {}", number, what));
    };
    for (const auto line : split(text, "\n")) {
      ++number;
      const auto directive = directive_of(line);
      if (!directive) {
        if (keep && trimmed(line) != "#pragma once") append_line(line, indent);
      } else if (directive->starts_with("if ")) {
        const auto holds = evaluate(directive->substr(3), values_);
        if (!holds) return wrong(holds.error().message);
        open.push_back({keep, *holds});
        keep = keep && *holds;
      } else if (*directive == "else" && !open.empty()) {
        keep = open.back().outer && !open.back().taken;
      } else if (*directive == "end" && !open.empty()) {
        keep = open.back().outer;
        open.pop_back();
      } else if (directive->starts_with(kInclude)) {
        if (!keep) continue;
        const auto included =
            include(trimmed(directive->substr(kInclude.size())), line, indent, depth);
        if (!included) return wrong(included.error().message);
      } else {
        return wrong(fmt::format("stray directive '{}'", *directive));
      }
    }
    if (!open.empty()) return fail(ErrorCode::internal, "a template's '//% if' has no '//% end'");
    return {};
  }

  std::string take() {
    if (out_.ends_with("\n\n")) out_.pop_back();
    return std::move(out_);
  }

 private:
  Status include(std::string_view path, std::string_view line, std::string_view indent, int depth) {
    constexpr int kDeepest = 8;
    const std::string_view text = files_ ? files_(path) : std::string_view();
    if (text.empty())
      return fail(ErrorCode::internal, fmt::format("template includes unknown file '{}'", path));
    if (depth == kDeepest)
      return fail(ErrorCode::internal, fmt::format("'{}' is included too deep", path));
    const std::string inner = std::string(indent).append(line.substr(0, line.find('/')));
    const auto appended = append(body_of(text), inner, depth + 1);
    if (!appended)
      return fail(ErrorCode::internal, fmt::format("{}: {}", path, appended.error().message));
    return {};
  }

  void append_line(std::string_view line, std::string_view indent) {
    const bool empty = trimmed(line).empty();
    // Removed branches leave runs of blank lines behind: one is enough.
    if (empty && out_.ends_with("\n\n")) return;
    // Lines of the preprocessor begin in the first column.
    if (!empty && !line.starts_with('#')) out_.append(indent);
    out_.append(line).push_back('\n');
  }

  const TemplateValues& values_;
  const TemplateFiles& files_;
  std::string out_;
};

}  // namespace

Result<std::string> expand(std::string_view text, const TemplateValues& values,
                           const TemplateFiles& files) {
  Expansion expansion(values, files);
  const Status expanded = expansion.append(text, "", 0);
  if (!expanded) return tl::unexpected(expanded.error());
  return expansion.take();
}

std::vector<std::string_view> included_by(std::string_view text) {
  std::vector<std::string_view> paths;
  for (const auto line : split(text, "\n"))
    if (const auto directive = directive_of(line); directive && directive->starts_with(kInclude))
      paths.push_back(trimmed(directive->substr(kInclude.size())));
  return paths;
}

}  // namespace kiln
