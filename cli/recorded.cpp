#include "cli/recorded.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "cache/keys.h"
#include "cli/session.h"
#include "generator/problem/size.h"

namespace kiln::cli {
namespace {

bool is_of(const RecordedCalls& row, DeviceCaps device) {
  device.compute_units = row.threads;
  return row.device == fingerprint(device);
}

/// Rows whose problems were spelt differently are one.
std::vector<RecordedCalls> folded(const std::vector<RecordedCalls>& rows) {
  std::map<std::pair<Gemm, int>, RecordedCalls> sums;
  for (RecordedCalls row : rows) {
    row.gemm = normalised(row.gemm);
    const auto [at, fresh] = sums.try_emplace({row.gemm, row.threads}, row);
    if (fresh) continue;
    at->second.calls += row.calls;
    at->second.timed_calls += row.timed_calls;
    at->second.timed_ns += row.timed_ns;
  }
  std::vector<RecordedCalls> all;
  for (const auto& [key, sum] : sums) all.push_back(sum);
  return all;
}

Error nothing_recorded(const std::filesystem::path& file, std::size_t elsewhere, int threads) {
  std::string what = fmt::format("recorded calls {}: none of this device", file.string());
  if (threads > 0) what += fmt::format(" on {} threads", threads);
  if (elsewhere > 0) what += fmt::format("; {} rows of others", elsewhere);
  return {ErrorCode::bad_input, what};
}

}  // namespace

Result<RecordedShapes> recorded_shapes(const std::filesystem::path& file, const Target& target,
                                       int threads, Engine& engine) {
  const auto rows = read_calls(file);
  if (!rows) return tl::unexpected(rows.error());
  RecordedShapes found;
  std::vector<RecordedCalls> own;
  for (const RecordedCalls& row : *rows) {
    const bool here = is_of(row, target.caps) && (threads == 0 || row.threads == threads);
    if (here)
      own.push_back(row);
    else
      ++found.elsewhere;
  }
  if (own.empty()) return tl::unexpected(nothing_recorded(file, found.elsewhere, threads));
  for (const RecordedCalls& row : folded(own)) {
    if (interrupted()) break;
    const double called_ns = row.ns_per_call();
    auto seen = outlook(engine, row.gemm, row.threads, called_ns);
    const double call_ns = called_ns > 0 ? called_ns : seen ? seen->now_ns : 0;
    found.shapes.push_back({row, std::move(seen), call_ns});
  }
  std::ranges::stable_sort(found.shapes, std::ranges::greater{}, &RecordedShape::total_ns);
  return found;
}

std::vector<RecordedItem> items_to_tune(const std::vector<RecordedShape>& shapes,
                                        const std::string& origin) {
  constexpr std::size_t kFewestOfARange = 4;
  struct Group {
    std::vector<const RecordedShape*> members;
    double total_ns = 0;
    bool tuned = false;
  };
  std::map<std::tuple<Gemm, int, bool>, Group> by_rest;
  std::vector<Group> groups;
  for (const RecordedShape& shape : shapes) {
    const RecordedCalls& calls = shape.recorded;
    Group& group = by_rest[{without_size(calls.gemm, Size::m), calls.threads, shape.tuned()}];
    group.members.push_back(&shape);
  }
  for (auto& [key, group] : by_rest) {
    const bool tuned = std::get<bool>(key);
    if (!tuned && group.members.size() >= kFewestOfARange) {
      groups.push_back({group.members, 0, false});
      continue;
    }
    for (const RecordedShape* one : group.members) groups.push_back({{one}, 0, tuned});
  }
  for (Group& group : groups)
    for (const RecordedShape* one : group.members) group.total_ns += one->total_ns();
  std::ranges::stable_sort(groups, [](const Group& x, const Group& y) {
    return std::pair(x.tuned, -x.total_ns) < std::pair(y.tuned, -y.total_ns);
  });
  std::vector<RecordedItem> items;
  for (const Group& group : groups) {
    const RecordedCalls& calls = group.members.front()->recorded;
    Shape shape{calls.gemm, origin};
    if (group.members.size() > 1) {
      const auto m = [](const RecordedShape* one) { return one->recorded.gemm.m; };
      const auto [least, most] = std::ranges::minmax(group.members, {}, m);
      shape.range = most->recorded.gemm.with_m(m(least), m(most));
      shape.gemm = shape.range->gemm;
    }
    items.push_back({std::move(shape), calls.threads});
  }
  return items;
}

}  // namespace kiln::cli
