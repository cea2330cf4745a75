// A node with four invented GPUs for child processes of the `kiln` command: the fake HIP runtime,
// whose kernels run on the emulator. This process stays without it. Empty in a build without a
// compiler, which has no fakes.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "support/kiln_command.h"

#ifdef KILN_FAKE_HIP

namespace kiln::test {

/// The command on such a node, with lock files of its own, a folder for a fleet and a list.
struct InventedNode : KilnCommand {
  /// `cards`: which of the fake's cards each of the node's is.
  explicit InventedNode(const std::string& cards = "0,0,0,0") {
    environment["KILN_FAKE_HIP_CARDS"] = cards;
    environment["KILN_CLANG"] = KILN_FAKE_CLANG;
    environment["KILN_REAL_CLANG"] = KILN_REAL_CLANG;
    environment["KILN_FAKE_CLANG_KEPT"] = KILN_FAKE_CLANG_KEPT;
    environment["LD_LIBRARY_PATH"] = std::filesystem::path(KILN_FAKE_HIP).parent_path().string();
    environment["KILN_LOCK_DIR"] = folder.path().string();
  }

  /// Writes a list of so many small products, which an emulator computes at once.
  void write_list(int shapes) const {
    std::ofstream file(list);
    for (int i = 1; i <= shapes; ++i) file << fmt::format("fp32 N N 16 16 {}\n", 8 * i);
  }
  /// "tune" of the list into `out` with a budget that ends after the first candidate.
  std::vector<std::string> tune(std::vector<std::string> more) const {
    std::vector<std::string> all{"tune", "--file",   list,   "--out",
                                 out,    "--budget", "0.01", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  std::string list = (folder / "list.txt").string(), out = (folder / "fleet").string();
};

/// How often the processes of a folder ended each shape by tuning it.
inline std::map<std::string, int> tuned_in(const std::filesystem::path& out) {
  std::map<std::string, int> times;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(out)) {
    if (entry.path().extension() != ".jsonl") continue;
    std::ifstream lines(entry.path());
    for (std::string line; std::getline(lines, line);) {
      const auto event = nlohmann::json::parse(line, nullptr, false);
      if (event.is_object() && event.value("state", "") == "tuned") ++times[event["item"]];
    }
  }
  return times;
}

}  // namespace kiln::test

#endif
