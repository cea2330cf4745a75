// Default paths of the databases.
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "cache/store.h"
#include "runtime/env.h"
#include "runtime/log.h"
#include "runtime/own_folder.h"

namespace kiln {
namespace {

std::filesystem::path variable(const char* name) {
  const char* value = env(name);
  return value == nullptr ? "" : value;
}

/// The user's home folder, absolute; empty when neither $HOME nor the password database has one.
std::filesystem::path home() {
  if (auto named = variable("HOME"); named.is_absolute()) return named;
  std::vector<char> buffer(1 << 16);
  passwd user{}, *found = nullptr;
  if (::getpwuid_r(::geteuid(), &user, buffer.data(), buffer.size(), &found) != 0 || !found)
    return {};
  const std::filesystem::path listed = user.pw_dir;
  return listed.is_absolute() ? listed : std::filesystem::path();
}

/// The databases of the installation that this code is part of: in share/kiln beside its bin/, lib/
/// or lib/<architecture>/.
std::vector<std::filesystem::path> installed_databases() {
  std::vector<std::filesystem::path> files;
  const auto own = own_folder();
  if (own.empty()) return files;
  for (const char* step : {"../share/kiln", "../../share/kiln"}) {
    std::error_code code;
    std::filesystem::directory_iterator entry((own / step).lexically_normal(), code);
    for (; !code && entry != std::filesystem::directory_iterator(); entry.increment(code))
      if (entry->path().extension() == ".kiln") files.push_back(entry->path());
    if (!files.empty()) break;
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

std::filesystem::path default_database() {
  if (const auto file = variable("KILN_DB"); !file.empty()) return file;
  // The XDG Base Directory Specification: relative paths are invalid and to be ignored.
  if (const auto cache = variable("XDG_CACHE_HOME"); cache.is_absolute())
    return cache / "kiln/kiln.db";
  if (const auto folder = home(); !folder.empty()) return folder / ".cache/kiln/kiln.db";
  log::warn(
      "no database: HOME = \"{}\" is not an absolute path and uid {} has no home folder; winners "
      "are not stored unless $KILN_DB names a file",
      variable("HOME").string(), ::geteuid());
  return {};
}

std::vector<std::filesystem::path> split_paths(std::string_view list) {
  std::vector<std::filesystem::path> files;
  while (!list.empty()) {
    const std::size_t colon = list.find(':');
    if (colon != 0) files.emplace_back(list.substr(0, colon));
    list.remove_prefix(colon == list.npos ? list.size() : colon + 1);
  }
  return files;
}

std::vector<std::filesystem::path> default_shipped() {
  const char* listed = env("KILN_DB_PATH");
  return listed == nullptr ? installed_databases() : split_paths(listed);
}

StoreOptions store_options(const std::filesystem::path& named,
                           const std::vector<std::filesystem::path>& shipped) {
  return {.database = named.empty() ? default_database() : named,
          .shipped = shipped.empty() ? default_shipped() : shipped,
          .by_default = named.empty() && variable("KILN_DB").empty()};
}

}  // namespace kiln
