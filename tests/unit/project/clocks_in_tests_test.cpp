// No test depends on seconds: what one does is the same on a slow or busy machine. Each use of a
// clock, a pause, a time limit or a budget in seconds says in a comment "clock: …" why its time
// cannot fail a test; a search ends by a number of candidates (support/few.h), waiting is
// support/eventually.h.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/paths.h"

namespace kiln::clocks_in_tests_test {

namespace fs = std::filesystem;

constexpr std::string_view kClocks[] = {
    "steady_clock::now", "system_clock::now",     "clock_gettime(",  "getrusage(",   "now_ns(",
    "sleep_for(",        "sleep_until(",          ".wait_for(",      ".wait_until(", "alarm(",
    "\"--budget\"",      ".budget = std::chrono", "TIMEOUT ",        "timeout=",     "budget=0",
    "time.time(",        "time.sleep(",           "time.monotonic(", "perf_counter("};

bool is_source(const fs::path& path) {
  const std::string ending = path.extension().string();
  return ending == ".cpp" || ending == ".h" || ending == ".c" || ending == ".py" ||
         ending == ".cmake" || path.filename() == "CMakeLists.txt";
}

/// Text that is compared, what a GPU's seconds are for, and programs that a night is for: CI's runs
/// of them end by count.
bool is_apart(const fs::path& path) {
  constexpr std::string_view kFolders[] = {"tests/golden/kept", "tests/device", "tests/soak"};
  constexpr std::string_view kFiles[] = {"tests/fuzz/driver.cpp", "tests/hooks/suites.py",
                                         "tests/hooks/cublas_on_gpu.py",
                                         "tests/unit/project/clocks_in_tests_test.cpp"};
  const std::string text = path.generic_string();
  return std::ranges::any_of(kFolders, [&](auto folder) { return text.starts_with(folder); }) ||
         std::ranges::find(kFiles, text) != std::end(kFiles);
}

/// The lines of a file that use a clock without saying why, in the line, one of the three above or
/// the one below. "1h" is a budget that no machine meets.
std::vector<std::string> unexplained(const fs::path& path) {
  std::vector<std::string> lines{"", "", ""};
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  lines.emplace_back();
  std::vector<std::string> found;
  for (std::size_t i = 3; i + 1 < lines.size(); ++i) {
    const auto holds = [&](std::size_t at, std::string_view word) {
      return lines[at].find(word) != std::string::npos;
    };
    if (std::ranges::none_of(kClocks, [&](auto clock) { return holds(i, clock); })) continue;
    bool explained = holds(i, "\"1h\"") || holds(i + 1, "\"1h\"");
    for (std::size_t at = i - 3; at <= i + 1; ++at) explained |= holds(at, "clock: ");
    if (!explained) found.push_back(fmt::format("{}:{}: {}", path.string(), i - 2, lines[i]));
  }
  return found;
}

TEST(ClocksInTests, SayWhyTheyCannotFailOnASlowMachine) {
  const fs::path root = test::source_dir();
  for (const char* folder : {"tests", "python/tests"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      if (is_apart(entry.path().lexically_relative(root))) continue;
      for (const std::string& line : unexplained(entry.path())) ADD_FAILURE() << line;
    }
}

}  // namespace kiln::clocks_in_tests_test
