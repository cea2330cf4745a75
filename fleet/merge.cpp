#include "fleet/merge.h"

#include <fmt/format.h>

#include <chrono>

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
  const auto records = (*store)->list();
  if (!records) return tl::unexpected(records.error());
  for (const Record& record : *records)
    if (const std::string other = kind_name(record.key.device); other != kind)
      return fail(ErrorCode::bad_input,
                  fmt::format("{}: device = {} ({}): not {}, the kind of its folder", file.string(),
                              record.key.device.model, other, kind));
  return {};
}

/// The one place that says how two files become one.
Result<std::int64_t> add(Store& to, const fs::path& file) {
  const auto added = to.import_from(file);
  if (!added) return tl::unexpected(added.error());
  return added->measurements;
}

}  // namespace

Result<KindMerge> merge_kind(const FleetFolder& folder, const std::string& kind) {
  const auto start = std::chrono::steady_clock::now();
  KindMerge report{.kind = kind, .file = folder.merged(kind)};
  const auto store = Store::open({kInMemory, {}});
  if (!store) return tl::unexpected(store.error());
  for (const fs::path& file : folder.databases(kind)) {
    const Status same = is_of_kind(file, kind);
    const auto rows = same ? add(**store, file) : tl::unexpected(same.error());
    if (!rows) {
      report.left_out.push_back(rows.error().message);
      continue;
    }
    ++report.parts;
    report.measurements += *rows;
  }
  std::error_code code;
  if (fs::exists(report.file, code))
    if (const auto rows = add(**store, report.file); !rows) return tl::unexpected(rows.error());
  if (Status written = (*store)->export_to(report.file); !written)
    return tl::unexpected(written.error());
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace kiln
