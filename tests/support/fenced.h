// Fenced blocks of the documents, for the tests that run what they hold.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace kiln::test {

/// A block of a language, its lines without the indentation of a list. Hidden ones stand in a
/// comment,
/// `<!-- sh` to `-->`: what a reader has (a file, a program) and the test must make. A block after
/// `<!-- not run: WHY -->` is for reading.
struct Fenced {
  std::string language, text;
  int line = 0;
  std::string not_run;  // the reason
  bool hidden = false;
};

inline std::vector<Fenced> fenced_blocks(const std::string& file) {
  constexpr std::string_view kNotRun = "<!-- not run: ", kHidden = "<!-- sh", kEnd = " -->";
  std::ifstream text(file);
  std::vector<Fenced> found;
  std::string reason, fence, indent;  // fence: what ends the block; empty outside of one
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    const std::string_view bare =
        std::string_view(line).substr(std::min(line.find_first_not_of(' '), line.size()));
    if (!fence.empty()) {
      if (bare.starts_with(fence)) {
        fence.clear();
      } else {
        found.back().text += (line.starts_with(indent) ? line.substr(indent.size()) : line) + '\n';
      }
    } else if (bare.starts_with(kNotRun) && bare.ends_with(kEnd)) {
      reason = bare.substr(kNotRun.size(), bare.size() - kNotRun.size() - kEnd.size());
    } else if (bare == kHidden || bare.starts_with("```")) {
      const bool hidden = bare == kHidden;
      found.push_back({hidden ? "sh" : std::string(bare.substr(3)), "", number, reason, hidden});
      fence = hidden ? "-->" : "```";
      indent = line.substr(0, line.size() - bare.size());
      reason.clear();
    }
  }
  return found;
}

}  // namespace kiln::test
