#include "fleet/work_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "cache/exchange/recorded_work.h"
#include "cache/keys.h"
#include "generator/problem/spelling.h"
#include "runtime/backend.h"

namespace kiln {
namespace {

FleetItem in_one_spelling(FleetItem item) {
  item.gemm = normalised(item.gemm);
  if (item.range) item.range->gemm = item.gemm;
  return item;
}

bool is_for(const FleetItem& item, DeviceCaps device) {
  if (item.device.empty()) return true;
  device.compute_units = item.threads;
  return item.device == fingerprint(device);
}

}  // namespace

std::string text(const FleetItem& item) {
  std::string line = item.range ? text(*item.range) : text(item.gemm);
  if (item.threads > 0) line += fmt::format(", {} threads", item.threads);
  return line;
}

std::vector<FleetItem> ordered(std::vector<FleetItem> items) {
  using Order = std::tuple<bool, double, std::string, std::string>;
  std::map<Order, FleetItem> sorted;
  for (FleetItem& item : items) {
    item = in_one_spelling(std::move(item));
    sorted.try_emplace(Order{!item.range, -item.gemm.flops(), text(item), item.device}, item);
  }
  std::vector<FleetItem> list;
  for (auto& [order, item] : sorted) list.push_back(std::move(item));
  return list;
}

std::vector<FleetItem> recorded_list(const std::vector<RecordedCalls>& rows, int threads,
                                     bool each) {
  std::map<std::string, std::vector<RecordedWork>> by_device;
  for (const RecordedCalls& row : rows)
    if (threads == 0 || row.threads == threads)
      by_device[row.device].push_back({normalised(row.gemm), row.threads, row.total_ns()});
  std::vector<FleetItem> items;
  for (const auto& [device, work] : by_device)
    for (const WorkItem& item : work_items(work, each))
      items.push_back({item.gemm, item.range, item.threads, device});
  return ordered(std::move(items));
}

std::vector<FleetItem> of_device(const std::vector<FleetItem>& list, const DeviceCaps& device) {
  std::vector<FleetItem> own;
  std::set<FleetItem> seen;
  for (FleetItem item : list) {
    if (!is_for(item, device)) continue;
    if (!item.range) item.gemm = with_defaults_of(item.gemm, device);
    if (seen.insert(item).second) own.push_back(std::move(item));
  }
  return own;
}

}  // namespace kiln
