#include "fleet/missing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "cache/keys.h"
#include "cache/record.h"
#include "cache/records/ranges.h"
#include "cache/records/winners.h"
#include "cache/rows/range_table.h"
#include "cache/store.h"
#include "engine/stored_record.h"
#include "fleet/device_kind.h"
#include "fleet/log.h"
#include "runtime/backend.h"

namespace kiln {
namespace {

/// A kind's winners and tables, as an item asks for them.
struct Holdings {
  std::optional<DeviceCaps> device;
  std::map<Gemm, std::map<int, Record>> records;  // by threads
  std::vector<std::pair<GemmRange, int>> ranges;  // with their threads
};

/// Of a measurement policy of its device and the fleet's class of determinism.
bool counts(const BestKey& key, const FleetFolder& folder, const std::string& kind) {
  const Backend& backend = backend_of(key.device.vendor);
  return key.determinism == folder.plan().determinism &&
         (key.policy == backend.policy || key.policy == backend.sustained) &&
         kind_name(key.device) == kind;
}

Result<Holdings> read_merged(const FleetFolder& folder, const std::string& kind) {
  Holdings all;
  std::error_code code;
  if (!std::filesystem::exists(folder.merged(kind), code)) return all;
  const auto store = Store::open({kInMemory, {folder.merged(kind)}});
  if (!store) return tl::unexpected(store.error());
  const auto records = (*store)->winners().list();
  if (!records) return tl::unexpected(records.error());
  for (const Record& record : *records) {
    if (!counts(record.key, folder, kind)) continue;
    all.device = record.key.device;
    all.records[record.key.gemm].emplace(record.key.device.compute_units, record);
  }
  const auto ranges = (*store)->ranges().list();
  if (!ranges) return tl::unexpected(ranges.error());
  for (const RangeRecord& range : *ranges) {
    if (!counts(range.key, folder, kind)) continue;
    all.device = range.key.device;
    all.ranges.emplace_back(range.range, range.key.device.compute_units);
  }
  return all;
}

bool has_ended(FleetState state) {
  return state == FleetState::tuned || state == FleetState::held || state == FleetState::failed;
}

/// The newest event of each item: of a part that ended it, where there is one.
std::map<std::string, FleetEvent> last_events(const FleetFolder& folder, const std::string& kind) {
  std::map<std::string, FleetEvent> last;
  for (const auto& file : folder.logs(kind)) {
    std::map<std::string, FleetEvent> here;
    for (const FleetEvent& event : read_log(file)) here[event.item] = event;
    for (const auto& [item, event] : here) {
      const auto [at, fresh] = last.try_emplace(item, event);
      if (!fresh && has_ended(event.state)) at->second = event;
    }
  }
  return last;
}

std::string reason_of(const std::map<std::string, FleetEvent>& last, const FleetItem& item) {
  const auto event = last.find(text(item));
  if (event == last.end()) return "never begun";
  switch (event->second.state) {
    case FleetState::begun:
      return "begun, and not ended";
    case FleetState::failed:
      return "failed: " + event->second.reason;
    case FleetState::interrupted:
      return "interrupted";
    case FleetState::tuned:
    case FleetState::held:
      return "ended, but its record is in no database of this kind";
  }
  return "never begun";
}

/// Whether a table is that of an item, as either is spelt.
bool is_table_of(const GemmRange& table, const GemmRange& asked) {
  GemmRange as = table;
  as.gemm.alignment = asked.gemm.alignment;
  return as.size == asked.size && as.first == asked.first && as.last() == asked.last() &&
         as.at(1) == asked.at(1);
}

/// "": held.
std::string what_is_missing(const Holdings& all, const FleetItem& item) {
  if (item.range) {
    const bool held = std::ranges::any_of(all.ranges, [&](const auto& row) {
      return is_table_of(row.first, *item.range) &&
             (item.threads == 0 || row.second == item.threads);
    });
    return held ? "" : "no table";
  }
  const Gemm& gemm = item.gemm;
  if (gemm.m == 0 || gemm.n == 0 || gemm.k == 0) return "";
  const auto found = all.records.find(gemm);
  if (found == all.records.end()) return "no record";
  const auto record = item.threads == 0 ? found->second.begin() : found->second.find(item.threads);
  if (record == found->second.end()) return "no record";
  const auto& searched = record->second.searched;
  // One that was cut after its budget, in its last race, is complete: nobody would continue it.
  const bool cut =
      searched && searched->interrupted && !is_complete(record->second, searched->budget_seconds);
  return cut ? fmt::format("interrupted after {:.1f} s of {:.1f} s", searched->spent_seconds,
                           searched->budget_seconds)
             : "";
}

}  // namespace

Result<KindState> state_of(const FleetFolder& folder, const std::string& kind) {
  const auto all = read_merged(folder, kind);
  if (!all) return tl::unexpected(all.error());
  KindState state{.kind = kind};
  std::vector<FleetItem> list;
  if (all->device) {
    state.model = all->device->model;
    list = of_device(folder.plan().list, *all->device);
  } else {  // what device it was is not known: what was recorded of some device may be of another
    for (const FleetItem& item : folder.plan().list)
      if (item.device.empty()) list.push_back(item);
  }
  state.wanted = list.size();
  const auto last = last_events(folder, kind);
  for (std::size_t place = 0; place < list.size(); ++place) {
    const FleetItem& item = list[place];
    const std::string why = what_is_missing(*all, item);
    if (why.empty()) continue;
    const bool partial = why.starts_with("interrupted");
    state.missing.push_back({item, partial ? why : reason_of(last, item), place});
  }
  return state;
}

FleetProgress progress_of(const FleetFolder& folder) {
  FleetProgress progress;
  for (const std::string& kind : folder.kinds())
    for (const auto& [item, event] : last_events(folder, kind)) {
      progress.done += has_ended(event.state);
      progress.failed += event.state == FleetState::failed;
      progress.open += event.state == FleetState::begun;
    }
  return progress;
}

}  // namespace kiln
