#include "runtime/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

#include "runtime/cgroups.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

/// The number behind `key` in a file of "key number" lines.
std::optional<std::int64_t> field(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  std::int64_t value = 0;
  for (std::string word; file >> word; file.ignore(kUnknown, '\n'))
    if (word == key && file >> value) return value;
  return std::nullopt;
}

/// A file of one number; nothing when it holds a word ("max").
std::optional<std::int64_t> number(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

/// The names of one version's files.
struct Names {
  const char *limit, *used, *reclaimable;
};
constexpr Names kFirst{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr Names kSecond{"memory.max", "memory.current", "inactive_file"};

/// What the group leaves, and each group above it. Inside a container the path may name groups that
/// cannot be seen; the container's own are then found at the top.
std::int64_t left_in(const fs::path& top, fs::path group, const Names& names) {
  std::int64_t least = kUnknown;
  for (;; group = group.parent_path()) {
    const fs::path folder = top / group.relative_path();
    const auto limit = number(folder / names.limit), used = number(folder / names.used);
    if (limit && used) {
      const std::int64_t cached = field(folder / "memory.stat", names.reclaimable).value_or(0);
      least = std::min(least, std::max<std::int64_t>(0, *limit - *used + std::min(cached, *used)));
    }
    if (group == group.parent_path()) return least;
  }
}

std::int64_t left_in_groups(const fs::path& root) {
  std::int64_t least = kUnknown;
  for_each_control_group(root, "memory", [&](const ControlGroup& own) {
    least = std::min(least, left_in(own.mount, own.group, own.second ? kSecond : kFirst));
  });
  return least;
}

std::string gigabytes(double bytes) { return fmt::format("{:.1f} GB", bytes * 1e-9); }

}  // namespace

std::int64_t available_memory(const fs::path& root) {
  const auto kilobytes = field(root / "proc/meminfo", "MemAvailable:");
  return std::min(kilobytes ? *kilobytes * 1024 : kUnknown, left_in_groups(root));
}

Status room_for(double bytes, std::int64_t available, const std::string& what) {
  if (bytes <= static_cast<double>(available)) return {};
  return fail(
      ErrorCode::device,
      fmt::format("{} need {} of memory ({:.0f} bytes), and {} are available ({} bytes)", what,
                  gigabytes(bytes), bytes, gigabytes(static_cast<double>(available)), available));
}

}  // namespace kiln
