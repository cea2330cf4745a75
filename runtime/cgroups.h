// Which control groups this process is in. Knows no limits.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

namespace kiln {

/// The group of one hierarchy. Every folder from `mount / group` up to `mount` may hold a limit.
struct ControlGroup {
  std::filesystem::path mount, group;
  bool second;  // of version 2, whose groups have all controllers
};

/// Calls `f` with the groups in which `controller` ("cpu", "memory") may limit this process, by
/// /proc/self/cgroup below `root`.
inline void for_each_control_group(const std::filesystem::path& root, const std::string& controller,
                                   const std::function<void(const ControlGroup&)>& f) {
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // number:controllers:path
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::filesystem::path group = line.substr(second + 1), mounts = root / "sys/fs/cgroup";
    if (controllers.empty()) f({mounts, group, true});
    if (("," + controllers + ",").find("," + controller + ",") == std::string::npos) continue;
    f({mounts / controller, group, false});
    // Mounted together, "cpu,cpuacct", where no link has the one's name.
    if (controllers != controller) f({mounts / controllers, group, false});
  }
}

}  // namespace kiln
