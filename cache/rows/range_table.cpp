#include "cache/rows/range_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

namespace kiln {
namespace {

/// Takes the number that a line begins with, and the blank behind it.
template <typename T>
bool take_number(std::string_view& line, T& value) {
  const auto [end, code] = std::from_chars(line.data(), line.data() + line.size(), value);
  const auto used = static_cast<std::size_t>(end - line.data());
  if (code != std::errc{} || used == line.size() || line[used] != ' ') return false;
  line.remove_prefix(used + 1);
  return true;
}

std::optional<RangeCell> read_cell(std::string_view line, const GemmRange& range) {
  RangeCell cell;
  if (!take_number(line, cell.last) || !take_number(line, cell.tuned_at) ||
      !take_number(line, cell.expected_ns))
    return std::nullopt;
  const auto config = parse_config(line);
  if (!config || cell.tuned_at < range.first || cell.tuned_at > range.last() ||
      !std::isfinite(cell.expected_ns) || cell.expected_ns < 0)
    return std::nullopt;
  cell.config = *config;
  return cell;
}

}  // namespace

const RangeCell& RangeTable::at(std::int64_t size) const {
  const auto cell = std::ranges::lower_bound(cells, size, {}, &RangeCell::last);
  return cell == cells.end() ? cells.back() : *cell;
}

std::size_t RangeTable::kernels() const {
  std::set<std::vector<int>> kernels;
  for (const RangeCell& cell : cells) kernels.insert(code_fields(cell.config));
  return kernels.size();
}

std::string RangeTable::text() const {
  std::string lines;
  for (const RangeCell& cell : cells)
    lines += fmt::format("{} {} {:.0f} {}\n", cell.last, cell.tuned_at, cell.expected_ns,
                         kiln::text(cell.config));
  return lines;
}

std::optional<RangeTable> RangeTable::parse(std::string_view text, const GemmRange& range) {
  RangeTable table;
  std::int64_t before = range.first - 1;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return std::nullopt;
    auto cell = read_cell(text.substr(0, end), range);
    if (!cell || cell->last <= before) return std::nullopt;
    before = cell->last;
    table.cells.push_back(std::move(*cell));
    text.remove_prefix(end + 1);
  }
  if (table.cells.empty() || before != range.last()) return std::nullopt;
  return table;
}

}  // namespace kiln
