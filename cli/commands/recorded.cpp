#include "cli/commands/recorded.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cache/keys.h"
#include "cli/session.h"

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
    if (!fresh) at->second.add(row);
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

}  // namespace kiln::cli
