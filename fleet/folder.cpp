#include "fleet/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cache/layers/trust.h"
#include "fleet/plan_file.h"
#include "fleet/shared_file.h"
#include "runtime/log.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlanFile = "fleet.json";
constexpr const char* kDatabase = ".kiln";
constexpr const char* kLog = ".jsonl";

/// The user may give a link to a folder.
Status make_folder(const fs::path& path) {
  std::error_code code;
  return fs::is_directory(path, code) ? Status{} : make_shared_folder(path);
}

/// The folder's databases say the same of themselves when they are opened.
void warn_of_others(const fs::path& file) {
  const auto walked = walk_to(file);
  if (walked && !walked->distrust.empty())
    log::warn("{}: {}; its list and results may be anybody's", file.string(), walked->distrust);
}

/// Whether kiln gives such names: others could stand for anything on a terminal.
bool is_plain(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.');
  });
}

/// Links are left out: they lead to other folders.
std::vector<fs::path> files_of(const fs::path& folder, std::string_view ending) {
  std::vector<fs::path> found;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code))
    if (entry.path().extension() == ending && is_plain(entry.path().filename().string()) &&
        fs::is_regular_file(entry.symlink_status(code)))
      found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

}  // namespace

Result<FleetFolder> FleetFolder::join(const fs::path& path, const FleetPlan& plan) {
  if (Status made = make_folder(path); !made) return tl::unexpected(made.error());
  if (Status own = not_for_everybody(path); !own) return tl::unexpected(own.error());
  const fs::path file = path / kPlanFile;
  std::error_code code;
  if (!fs::exists(file, code)) {
    const auto created = create_shared(file, plan_text(plan));
    if (!created) return tl::unexpected(created.error());
  }
  auto there = open(path);
  if (!there) return there;
  if (const std::string other = difference(plan, there->plan()); !other.empty())
    return fail(ErrorCode::bad_input, fmt::format("out = {}: {}", path.string(), other));
  return there;
}

Result<FleetFolder> FleetFolder::open(const fs::path& path) {
  const fs::path file = path / kPlanFile;
  std::error_code code;
  if (!fs::exists(file, code))
    return fail(ErrorCode::bad_input, fmt::format("folder = {}: no fleet's folder: there is no {}",
                                                  path.string(), kPlanFile));
  const auto text = read_shared(file);
  if (!text) return tl::unexpected(text.error());
  warn_of_others(file);
  auto plan = parse_plan(*text, file);
  if (!plan) return tl::unexpected(plan.error());
  return FleetFolder(path, std::move(*plan));
}

std::vector<std::string> FleetFolder::kinds() const {
  std::vector<std::string> found;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(path_, code))
    if (fs::is_directory(entry.symlink_status(code)) &&
        is_plain(entry.path().filename().string()) &&
        !(files_of(entry.path(), kDatabase).empty() && files_of(entry.path(), kLog).empty()))
      found.push_back(entry.path().filename().string());
  for (const fs::path& file : files_of(path_, kDatabase)) found.push_back(file.stem().string());
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

Status FleetFolder::add_kind(const std::string& kind) const {
  return make_shared_folder(path_ / kind);
}

std::string FleetFolder::part_name(const Shard& shard) {
  return fmt::format("shard-{}-of-{}", shard.index, shard.of);
}

std::string FleetFolder::part_name(int rank) { return fmt::format("rank-{}", rank); }

fs::path FleetFolder::database_of(const std::string& kind, const std::string& part) const {
  return path_ / kind / (part + kDatabase);
}

fs::path FleetFolder::log_of(const std::string& kind, const std::string& part) const {
  return path_ / kind / (part + kLog);
}

fs::path FleetFolder::merged(const std::string& kind) const { return path_ / (kind + kDatabase); }

std::vector<fs::path> FleetFolder::databases(const std::string& kind) const {
  return files_of(path_ / kind, kDatabase);
}

std::vector<fs::path> FleetFolder::logs(const std::string& kind) const {
  return files_of(path_ / kind, kLog);
}

}  // namespace kiln
