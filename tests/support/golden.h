// Golden files: text that is kept beside its test and compared byte for byte. With KILN_ACCEPT=1 in
// the environment a difference rewrites the file instead, and the change is read in review.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>

#include "support/paths.h"

namespace kiln::test {

/// First line at which two texts part, with both versions of it; empty when they are equal.
inline std::string first_difference(const std::string& wanted, const std::string& got) {
  if (wanted == got) return {};
  std::istringstream left(wanted), right(got);
  std::string a, b;
  for (int line = 1;; ++line) {
    const bool more_left = static_cast<bool>(std::getline(left, a));
    const bool more_right = static_cast<bool>(std::getline(right, b));
    if (more_left && more_right && a == b) continue;
    std::ostringstream out;
    out << "line " << line << "\n  kept: " << (more_left ? a : "(end of file)")
        << "\n  now:  " << (more_right ? b : "(end of file)");
    return out.str();
  }
}

inline std::filesystem::path golden_folder(std::string_view folder) {
  return std::filesystem::path(source_dir()) / "tests/golden" / folder;
}

/// Compares `text` with `tests/golden/<folder>/<name>`.
inline testing::AssertionResult matches_golden(std::string_view name, const std::string& text,
                                               std::string_view folder = "kept") {
  const auto path = golden_folder(folder) / name;
  const char* accept = std::getenv("KILN_ACCEPT");
  if (accept != nullptr && std::string_view(accept) == "1") {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << text;
    if (!out.flush()) return testing::AssertionFailure() << "cannot write " << path;
    return testing::AssertionSuccess();
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return testing::AssertionFailure() << path << " is missing; KILN_ACCEPT=1 writes it";
  const std::string kept(std::istreambuf_iterator<char>(in), {});
  const std::string difference = first_difference(kept, text);
  if (difference.empty()) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << path << " differs at " << difference << "\nKILN_ACCEPT=1 accepts the new text";
}

}  // namespace kiln::test
