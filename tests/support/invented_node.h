// A node with four invented GPUs for child processes of the `kiln` command: the fake HIP runtime,
// whose kernels run on the emulator. This process stays without it. Empty in a build without a
// compiler, which has no fakes.
#pragma once

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "support/kiln_command.h"
#include "support/paths.h"

#ifdef KILN_HAS_FAKE_HIP

namespace kiln::test {

/// The command on such a node, with lock files of its own, a folder for a fleet and a list.
struct InventedNode : KilnCommand {
  /// `cards`: which of the fake's cards each of the node's is.
  explicit InventedNode(const std::string& cards = "0,0,0,0") {
    environment["KILN_FAKE_HIP_CARDS"] = cards;
    environment["KILN_CLANG"] = fake_clang_path();
    environment["KILN_REAL_CLANG"] = real_clang_path();
    environment["KILN_KEPT_CODE"] = kept_code_path();
    environment["LD_LIBRARY_PATH"] = std::filesystem::path(fake_hip_path()).parent_path().string();
    environment["KILN_LOCK_DIR"] = folder.path().string();
  }

  /// Writes a list of up to 64 products of one tile, which an emulator computes at once.
  void write_list(int shapes) const {
    std::ofstream file(list);
    for (int i = 0; i < shapes; ++i)
      file << fmt::format("fp32 N N {} {} 16\n", 9 + i % 8, 9 + i / 8);
  }
  /// "tune" of the list into `out` with a budget that ends after the first candidate.
  std::vector<std::string> tune(std::vector<std::string> more) const {
    std::vector<std::string> all{"tune", "--file", list, "--out",
                                 // clock: spent when the first candidate is timed
                                 out, "--budget", "0.01", "--json"};
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

/// Pids of `kiln tune` processes whose arguments name this folder.
inline std::vector<pid_t> tuning_into(const std::string& out) {
  std::vector<pid_t> found;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", code)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::string line = KilnCommand::read(entry.path() / "cmdline");
    std::replace(line.begin(), line.end(), '\0', ' ');
    if (line.starts_with(build_dir() + "/bin/kiln tune ") &&
        line.find(' ' + out + ' ') != std::string::npos)
      found.push_back(std::stoi(name));
  }
  return found;
}

/// Waits until so many shapes were tuned into a folder, then kills one of the processes at work.
inline bool kill_one_after(const std::string& out, std::size_t tuned) {
  for (int i = 0; i < 6000; ++i) {
    std::error_code code;
    const auto pids = tuning_into(out);
    if (std::filesystem::exists(out, code) && tuned_in(out).size() >= tuned && !pids.empty())
      return ::kill(pids.back(), SIGKILL) == 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // clock: how often it asks
  }
  return false;
}

/// How many shapes the long form of these tests has: $KILN_FLEET_SHAPES.
inline int fleet_shapes() {
  const char* shapes = std::getenv("KILN_FLEET_SHAPES");
  return shapes == nullptr ? 8 : std::stoi(shapes);
}

}  // namespace kiln::test

#endif
