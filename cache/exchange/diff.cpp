#include "cache/exchange/diff.h"

#include <cmath>
#include <map>

#include "cache/record.h"

namespace kiln {
namespace {

constexpr int kFewestSamples = 6;

/// The winner of each key.
std::map<BestKey, StoredMeasurement> by_key(std::vector<StoredMeasurement> rows) {
  std::map<BestKey, StoredMeasurement> winners;
  for (StoredMeasurement& row : rows) {
    const auto [at, fresh] = winners.try_emplace(row.key, row);
    if (!fresh && row.created >= at->second.created) at->second = std::move(row);
  }
  return winners;
}

void compare(DiffRow& row) {
  const Measured &older = row.older->measured, &newer = row.newer->measured;
  row.other_winner = older.config != newer.config;
  if (!older.ok() || !newer.ok()) return;
  const Timing &a = older.timing(), &b = newer.timing();
  if (!(a.low_ns > 0) || !(b.low_ns > 0)) return;
  row.ratio = a.median_ns / b.median_ns;
  row.low = a.low_ns / b.high_ns;
  row.high = a.high_ns / b.low_ns;
  if (a.samples < kFewestSamples || b.samples < kFewestSamples) return;
  if (row.low > 1) row.change = RowChange::faster;
  if (row.high < 1) row.change = RowChange::slower;
}

}  // namespace

std::string_view name(RowChange change) {
  switch (change) {
    case RowChange::same:
      return "same";
    case RowChange::faster:
      return "faster";
    case RowChange::slower:
      return "slower";
    case RowChange::only_old:
      return "only old";
    case RowChange::only_new:
      return "only new";
  }
  return "";
}

std::vector<DiffRow> diff_winners(std::vector<StoredMeasurement> older,
                                  std::vector<StoredMeasurement> newer) {
  std::map<BestKey, DiffRow> rows;
  for (auto& [key, winner] : by_key(std::move(older))) {
    rows[key].older = std::move(winner);
    rows[key].change = RowChange::only_old;
  }
  for (auto& [key, winner] : by_key(std::move(newer))) {
    DiffRow& row = rows[key];
    row.newer = std::move(winner);
    row.change = row.older ? RowChange::same : RowChange::only_new;
  }
  std::vector<DiffRow> all;
  for (auto& [key, row] : rows) {
    row.key = key;
    if (row.older && row.newer) compare(row);
    all.push_back(std::move(row));
  }
  return all;
}

double mean_ratio(const std::vector<DiffRow>& rows) {
  double sum = 0;
  int count = 0;
  for (const DiffRow& row : rows)
    if (row.ratio > 0) {
      sum += std::log(row.ratio);
      ++count;
    }
  return count == 0 ? 1 : std::exp(sum / count);
}

}  // namespace kiln
