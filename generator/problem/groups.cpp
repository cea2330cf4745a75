#include "generator/problem/groups.h"

#include <algorithm>

namespace kiln {

std::int64_t to_group(const Gemm& gemm, Operand which, std::int64_t group, std::int64_t first_row) {
  const std::int64_t at = group * batch_stride(gemm, which);
  if (first_row == 0 || !shared_by_batches(gemm, which)) return at;
  if (which == Operand::bias) return at + first_row;
  if (!row_of(which).matrix && scale_of(gemm, which) == Scale::tensor) return at;
  const bool along_rows = row_of(which).matrix && (matrix(gemm, which).order == Order::row_major) ==
                                                      matrix(gemm, which).transposed;
  return at + first_row * (along_rows ? 1 : leading_dimension(gemm, which));
}

std::int64_t tiles_of_rows(const Gemm& gemm, std::int64_t tile) {
  const std::int64_t full = (gemm.m + tile - 1) / tile;
  return gemm.grouping == Grouping::rows ? full + std::min(gemm.batch, gemm.m) : full * gemm.batch;
}

double expected_rows_of(const Gemm& gemm) {
  return gemm.expected_rows > 0 ? double(std::min(gemm.expected_rows, gemm.m)) : double(gemm.m) / 2;
}

GroupRows rows_of_group(const Gemm& gemm, const void* groups, std::int64_t group) {
  const auto listed = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(static_cast<const std::int32_t*>(groups)[at], 0, gemm.m);
  };
  if (gemm.grouping == Grouping::masked) return {0, listed(group)};
  const std::int64_t first = group == 0 ? 0 : listed(group - 1);
  return {first, std::max<std::int64_t>(0, listed(group) - first)};
}

std::vector<ProductPart> parts_of(const Gemm& gemm, const void* groups) {
  if (!grouped(gemm)) return {{gemm, 0, {0, gemm.m}}};
  std::vector<ProductPart> parts;
  for (std::int64_t group = 0; group < gemm.batch; ++group)
    if (const GroupRows rows = rows_of_group(gemm, groups, group); rows.count > 0)
      parts.push_back({alone(gemm, rows.count), group, rows});
  return parts;
}

Gemm alone(const Gemm& gemm, std::int64_t rows) {
  Gemm one = gemm;
  one.a.ld = gemm.lda(), one.b.ld = gemm.ldb(), one.c.ld = gemm.ldc(), one.d.ld = gemm.ldd();
  one.a.batch_stride = one.b.batch_stride = one.c.batch_stride = one.d.batch_stride = 0;
  one.m = rows;
  one.batch = 1;
  one.grouping = Grouping::none;
  one.expected_rows = 0;
  return one;
}

Canonical alone(const Canonical& problem, std::int64_t rows) {
  Canonical one = problem;
  one.gemm = alone(problem.gemm, rows);
  Gemm& g = one.gemm;
  g.a.batch_stride = g.stride_a(), g.b.batch_stride = g.stride_b();
  g.c.batch_stride = g.stride_c(), g.d.batch_stride = g.stride_d();
  return one;
}

}  // namespace kiln
