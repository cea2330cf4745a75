#include "fleet/part.h"

#include "cache/store.h"
#include "engine/ranges.h"
#include "engine/stored_record.h"
#include "fleet/device_kind.h"

namespace kiln {
namespace {

/// Each once, those that are there.
std::vector<std::filesystem::path> present(const std::vector<std::filesystem::path>& files) {
  std::vector<std::filesystem::path> found;
  std::error_code code;
  for (const auto& file : files)
    if (!file.empty() && file != kInMemory && std::filesystem::exists(file, code))
      found.push_back(file);
  return found;
}

bool is_empty(const Gemm& gemm) { return gemm.m == 0 || gemm.n == 0 || gemm.k == 0; }

}  // namespace

Result<FleetPart> open_part(const FleetFolder& folder, const PartOptions& options) {
  const std::string kind = kind_name(options.device);
  if (Status made = folder.add_kind(kind); !made) return tl::unexpected(made.error());
  auto log = FleetLog::open(folder.log_of(kind, options.name));
  if (!log) return tl::unexpected(log.error());
  OpenOptions opened = options.engine;
  opened.database = folder.database_of(kind, options.name);
  std::vector<std::filesystem::path> known{folder.merged(kind)};
  known.insert(known.end(), options.known.begin(), options.known.end());
  opened.shipped = present(known);
  const auto shipped = default_shipped();
  opened.shipped.insert(opened.shipped.end(), shipped.begin(), shipped.end());
  opened.determinism = folder.plan().determinism;
  auto engine = Engine::open(opened);
  if (!engine) return tl::unexpected(engine.error());
  return FleetPart{std::move(*engine), std::move(*log),
                   of_device(folder.plan().list, options.device), opened.database};
}

ToDo to_do(Engine& engine, const FleetItem& item, double budget_seconds, int candidates,
           TuningPolicy policy) {
  if (item.range)
    return stored_range(engine, *item.range, item.threads) ? ToDo::nothing : ToDo::search;
  if (is_empty(item.gemm)) return ToDo::nothing;
  const auto record = stored_record(engine, item.gemm, item.threads, policy);
  if (!record) return ToDo::search;
  if (is_complete(*record, budget_seconds, candidates)) return ToDo::nothing;
  return record->writable ? ToDo::search : ToDo::whole_search;
}

}  // namespace kiln
