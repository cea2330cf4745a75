#include "fleet/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "fleet/plan_file.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlanFile = "fleet.json";
constexpr const char* kDatabase = ".kiln";
constexpr const char* kLog = ".jsonl";

tl::unexpected<Error> cannot(const fs::path& path, std::string_view why) {
  return fail(ErrorCode::database, fmt::format("{}: {}", path.string(), why));
}

/// Machine code is loaded only from folders that nobody else may write, so these are made so
/// whatever the umask.
Status make_folder(const fs::path& path) {
  if (::mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return {};
  return cannot(path, ::strerror(errno));
}

Result<std::string> read_file(const fs::path& file) {
  // An empty file sets failbit on `text`: errno tells.
  errno = 0;
  std::ifstream opened(file);
  std::ostringstream text;
  if (!opened || (!(text << opened.rdbuf()) && errno != 0)) return cannot(file, ::strerror(errno));
  return text.str();
}

/// Whole or not at all, and never over another's: false where the file is there.
Result<bool> create(const fs::path& file, const std::string& text) {
  std::string partial = file.string() + ".XXXXXX";
  const int fd = ::mkostemp(partial.data(), O_CLOEXEC);
  if (fd < 0) return cannot(file, ::strerror(errno));
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fchmod(fd, 0644) == 0 && ::fsync(fd) == 0;
  const bool named = written && ::link(partial.c_str(), file.c_str()) == 0;
  const int reason = errno;
  ::close(fd);
  ::unlink(partial.c_str());
  if (named) return true;
  if (written && reason == EEXIST) return false;
  return cannot(file, ::strerror(reason));
}

std::vector<fs::path> files_of(const fs::path& folder, std::string_view ending) {
  std::vector<fs::path> found;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code))
    if (entry.path().extension() == ending && entry.is_regular_file(code))
      found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

}  // namespace

Result<FleetFolder> FleetFolder::join(const fs::path& path, const FleetPlan& plan) {
  if (Status made = make_folder(path); !made) return tl::unexpected(made.error());
  const fs::path file = path / kPlanFile;
  std::error_code code;
  if (!fs::exists(file, code)) {
    const auto created = create(file, plan_text(plan));
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
  const auto text = read_file(file);
  if (!text) return tl::unexpected(text.error());
  auto plan = parse_plan(*text, file);
  if (!plan) return tl::unexpected(plan.error());
  return FleetFolder(path, std::move(*plan));
}

std::vector<std::string> FleetFolder::kinds() const {
  std::vector<std::string> found;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(path_, code))
    if (entry.is_directory(code) &&
        !(files_of(entry.path(), kDatabase).empty() && files_of(entry.path(), kLog).empty()))
      found.push_back(entry.path().filename().string());
  for (const fs::path& file : files_of(path_, kDatabase)) found.push_back(file.stem().string());
  std::ranges::sort(found);
  const auto [repeated, end] = std::ranges::unique(found);
  found.erase(repeated, end);
  return found;
}

Status FleetFolder::add_kind(const std::string& kind) const { return make_folder(path_ / kind); }

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
