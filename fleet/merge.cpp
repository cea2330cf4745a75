#include "fleet/merge.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "cache/exchange/merge.h"
#include "cache/exchange/transfer.h"
#include "cache/record.h"
#include "cache/records/maintenance.h"
#include "cache/records/winners.h"
#include "cache/store.h"
#include "fleet/device_kind.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

/// Errors: bad_input, naming the first device of another kind that the file has winners of; and
/// those of Store::open().
Status is_of_kind(const fs::path& file, const std::string& kind) {
  const auto store = Store::open({kInMemory, {file}});
  if (!store) return tl::unexpected(store.error());
  const auto records = (*store)->winners().list();
  if (!records) return tl::unexpected(records.error());
  for (const Record& record : *records)
    if (const std::string other = kind_name(record.key.device); other != kind)
      return fail(ErrorCode::bad_input,
                  fmt::format("{}: device = {} ({}): not {}, the kind of its folder", file.string(),
                              record.key.device.model, other, kind));
  return {};
}

/// Parts of equal rank become one: in one go, or, where one of them cannot be read, one by one, so
/// that the others are not lost with it. The order changes nothing.
void add(Store& to, const std::vector<fs::path>& files, KindMerge& report) {
  const auto merged = to.transfer().merge_from(files, {});
  if (!merged && files.size() == 1) {
    report.left_out.push_back(merged.error().message);
    return;
  }
  if (!merged) {
    for (const fs::path& file : files) add(to, {file}, report);
    return;
  }
  report.parts += static_cast<int>(files.size());
  report.conflicts += merged->conflicts.size();
  for (const MergedFile& file : merged->files) {
    report.measurements += file.measurements;
    report.left_out.insert(report.left_out.end(), file.left_out.begin(), file.left_out.end());
  }
}

/// Whether a process may have the file open with a log of its own, as after `kiln db check`, which
/// opens it to write: a file that takes its place would get that log. Errors: those of
/// Store::open() (unreadable, it must not be replaced).
Result<bool> is_logged(const fs::path& file) {
  const auto store = Store::open({kInMemory, {file}});
  if (!store) return tl::unexpected(store.error());
  const auto stats = (*store)->maintenance().stats();
  if (!stats) return tl::unexpected(stats.error());
  std::error_code code;
  return stats->back().journal == "wal" || fs::exists(file.string() + "-journal", code);
}

/// Adds the rows to the file in one transaction, beside whoever reads it.
Status add_in_place(Store& parts, const fs::path& file) {
  const fs::path passed = fmt::format("{}.{}.parts", file.string(), ::getpid());
  if (Status written = parts.transfer().export_to(passed); !written) return written;
  const auto add = [&]() -> Status {
    const auto store = Store::open({file, {}});
    if (!store) return tl::unexpected(store.error());
    const auto merged = (*store)->transfer().merge_from({passed}, {});
    return merged ? Status{} : tl::unexpected(merged.error());
  };
  const Status added = add();
  std::error_code code;
  fs::remove(passed, code);
  return added;
}

/// What the file holds of parts that are here no more stays in it.
Status write_merged(Store& parts, const fs::path& file) {
  std::error_code code;
  if (fs::exists(file, code)) {
    const auto logged = is_logged(file);
    if (!logged) return tl::unexpected(logged.error());
    if (*logged) return add_in_place(parts, file);
    if (const auto old = parts.transfer().merge_from({file}, {}); !old)
      return tl::unexpected(old.error());
  }
  return parts.transfer().export_to(file);
}

}  // namespace

Result<KindMerge> merge_kind(const FleetFolder& folder, const std::string& kind) {
  const auto start = std::chrono::steady_clock::now();
  KindMerge report{.kind = kind, .file = folder.merged(kind)};
  const auto store = Store::open({kInMemory, {}});
  if (!store) return tl::unexpected(store.error());
  std::vector<fs::path> parts;
  for (const fs::path& file : folder.databases(kind)) {
    if (const Status same = is_of_kind(file, kind))
      parts.push_back(file);
    else
      report.left_out.push_back(same.error().message);
  }
  if (!parts.empty()) add(**store, parts, report);
  if (Status written = write_merged(**store, report.file); !written)
    return tl::unexpected(written.error());
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace kiln
