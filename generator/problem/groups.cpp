#include "generator/problem/groups.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <set>

#include "generator/expression/program.h"
#include "generator/problem/indices.h"
#include "generator/problem/product_list.h"

namespace kiln {

std::int64_t to_group(const Gemm& gemm, Operand which, std::int64_t group, const Segment& segment) {
  if (which == Operand::amax_d) return 0;  // one for all groups
  const std::int64_t at = group * batch_stride(gemm, which);
  if (segment.first == 0 || !shared_by_batches(gemm, which)) return at;
  if (const ExtraOperand* const extra = extra_of(gemm, which)) {
    if (gemm.grouping() != Grouping::rows || !expression::has_index(*extra, Index::m)) return at;
    const bool rows_are_lines = expression::has_lines(*extra) && extra->index.back() == Index::n;
    return at + segment.first * (rows_are_lines ? leading_dimension(gemm, which) : 1);
  }
  // Blocks of scales divide the k of all groups (part_of_k()).
  if (gemm.grouping() == Grouping::k && !row_of(which).matrix) return at;
  if (which == Operand::bias) return at + segment.first;
  if (!row_of(which).matrix && scale_of(gemm, which) == Scale::tensor) return at;
  const bool along_rows = row_of(which).matrix && (matrix(gemm, which).order == Order::row_major) ==
                                                      matrix(gemm, which).transposed;
  // Of the dimension that groups divide: rows, but of an A whose k they divide columns.
  const bool of_columns = which == Operand::a && gemm.grouping() == Grouping::k;
  const bool by_blocks = !row_of(which).matrix && order_of_scales(gemm, which) != ScaleOrder::lines;
  const bool adjacent = by_blocks || along_rows != of_columns;
  return at + segment.first * (adjacent ? 1 : leading_dimension(gemm, which));
}

std::int64_t tiles_of_rows(const Gemm& gemm, std::int64_t tile) {
  const std::int64_t full = (gemm.m + tile - 1) / tile;
  return gemm.grouping() == Grouping::rows ? full + std::min(gemm.batch, gemm.m)
                                           : full * gemm.batch;
}

double expected_rows_of(const Gemm& gemm) {
  const auto* const masked = std::get_if<MaskedGroups>(&gemm.groups);
  const std::int64_t expected = masked != nullptr ? masked->expected_rows : 0;
  return expected > 0 ? double(std::min(expected, gemm.m)) : double(gemm.m) / 2;
}

double k_of_product(const Gemm& gemm) {
  return double(gemm.k) / (gemm.grouping() == Grouping::k ? double(gemm.batch) : 1.0);
}

double stages_of_tile(const Gemm& gemm, std::int64_t depth) {
  const double stages = k_of_product(gemm) / double(depth);
  return gemm.grouping() == Grouping::k ? std::max(1.0, stages + 0.5) : std::ceil(stages);
}

std::int64_t Segments::listed(std::int64_t group) const {
  const std::int64_t most = gemm_.grouping() == Grouping::k ? gemm_.k : gemm_.m;
  return std::clamp<std::int64_t>(static_cast<const std::int32_t*>(groups_)[group], 0, most);
}

Segment Segments::of(std::int64_t group) {
  if (gemm_.grouping() == Grouping::masked) return {0, listed(group)};
  assert(group >= next_);
  for (; next_ < group; ++next_) first_ = std::max(first_, listed(next_));
  return {first_, std::max<std::int64_t>(0, listed(group) - first_)};
}

Segment segment_of(const Gemm& gemm, const void* groups, std::int64_t group) {
  return Segments(gemm, groups).of(group);
}

PartOfK part_of_k(const Gemm& gemm, const Segment& segment) {
  if (gemm.grouping() == Grouping::k) return {.first = segment.first, .all = gemm.k};
  return {.rows = grouped(gemm) && !lists_products(gemm) ? gemm.m : 0};
}

bool writes_d(const Gemm& gemm, const Segment& segment) {
  return segment.count > 0 || gemm.grouping() == Grouping::k;
}

std::vector<ProductPart> parts_of(const Gemm& gemm, const void* groups) {
  if (!grouped(gemm)) return {{gemm, 0, {0, gemm.m}}};
  std::vector<ProductPart> parts;
  if (lists_products(gemm)) {
    for (std::int64_t number = 0; number < gemm.batch; ++number)
      if (const ListEntry entry = listed(groups, number); writes_d(entry))
        parts.push_back({alone(gemm, entry), number, {0, entry.m}});
    return parts;
  }
  Segments segments(gemm, groups);
  for (std::int64_t group = 0; group < gemm.batch; ++group)
    if (const Segment segment = segments.of(group); writes_d(gemm, segment))
      parts.push_back({alone(gemm, segment.count), group, segment});
  return parts;
}

std::vector<std::int64_t> unnamed_rows(const Gemm& gemm, Operand which, const void* index,
                                       const std::vector<ProductPart>& parts) {
  const std::int64_t rows = extent(gemm, which).lines;
  std::vector<bool> named(static_cast<std::size_t>(rows));
  for (const ProductPart& part : parts)
    for (std::int64_t i = 0; i < part.segment.count; ++i)
      named[static_cast<std::size_t>(row_at(index, part.segment.first + i, rows))] = true;
  std::vector<std::int64_t> others;
  for (std::int64_t row = 0; row < rows; ++row)
    if (!named[static_cast<std::size_t>(row)]) others.push_back(row);
  return others;
}

std::vector<std::int64_t> k_behind_groups(const Gemm& gemm, const std::vector<ProductPart>& parts,
                                          std::int64_t reach) {
  if (gemm.grouping() != Grouping::k) return {};
  std::set<std::int64_t> behind;
  for (const ProductPart& part : parts) {
    const std::int64_t end = part.segment.first + part.segment.count;
    for (std::int64_t k = end; k < std::min(gemm.k, end + reach); ++k) behind.insert(k);
  }
  for (const ProductPart& part : parts)
    behind.erase(behind.lower_bound(part.segment.first),
                 behind.lower_bound(part.segment.first + part.segment.count));
  return {behind.begin(), behind.end()};
}

Gemm alone(const Gemm& given, std::int64_t count) {
  const Gemm gemm = in_order(given);
  Gemm one = gemm;
  one.a.ld = gemm.lda(), one.b.ld = gemm.ldb(), one.c.ld = gemm.ldc(), one.d.ld = gemm.ldd();
  one.a.batch_stride = one.b.batch_stride = one.c.batch_stride = one.d.batch_stride = 0;
  (gemm.grouping() == Grouping::k ? one.k : one.m) = count;
  one.batch = 1;
  one.groups = Groups{};
  return one;
}

Problem alone(const Problem& problem, std::int64_t count) {
  Problem one = problem;
  one.gemm = alone(problem.gemm, count);
  Gemm& g = one.gemm;
  g.a.batch_stride = g.stride_a(), g.b.batch_stride = g.stride_b();
  g.c.batch_stride = g.stride_c(), g.d.batch_stride = g.stride_d();
  return one;
}

}  // namespace kiln
