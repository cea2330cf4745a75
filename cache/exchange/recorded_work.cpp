#include "cache/exchange/recorded_work.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "generator/problem/size.h"

namespace kiln {
namespace {

constexpr std::size_t kFewestOfARange = 4;

/// Problems that are tuned at once.
struct WorkGroup {
  std::vector<const RecordedWork*> members;
  double total_ns = 0;
  bool tuned = false;
};

WorkItem item_of(const WorkGroup& group) {
  const RecordedWork& first = *group.members.front();
  if (group.members.size() == 1) return {first.gemm, std::nullopt, first.threads};
  const auto m = [](const RecordedWork* one) { return one->gemm.m; };
  const auto [least, most] = std::ranges::minmax(group.members, {}, m);
  const GemmRange range = most->gemm.with_m(m(least), m(most));
  return {range.gemm, range, first.threads};
}

}  // namespace

std::vector<WorkItem> work_items(const std::vector<RecordedWork>& work, bool each) {
  std::map<std::tuple<Gemm, int, bool>, std::vector<const RecordedWork*>> alike;
  for (const RecordedWork& one : work)
    alike[{without_size(one.gemm, Size::m), one.threads, one.tuned}].push_back(&one);
  std::vector<WorkGroup> groups;
  for (const auto& [key, members] : alike) {
    const bool tuned = std::get<bool>(key);
    if (!each && !tuned && members.size() >= kFewestOfARange)
      groups.push_back({members});
    else
      for (const RecordedWork* one : members) groups.push_back({.members = {one}, .tuned = tuned});
  }
  for (WorkGroup& group : groups)
    for (const RecordedWork* one : group.members) group.total_ns += one->total_ns;
  std::ranges::stable_sort(groups, [](const WorkGroup& x, const WorkGroup& y) {
    return std::pair(x.tuned, -x.total_ns) < std::pair(y.tuned, -y.total_ns);
  });
  std::vector<WorkItem> items;
  for (const WorkGroup& group : groups) items.push_back(item_of(group));
  return items;
}

}  // namespace kiln
