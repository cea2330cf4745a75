#include <algorithm>
#include <cstddef>
#include <vector>

#include "generator/problem/extent.h"
#include "generator/problem/groups.h"
#include "generator/problem/indices.h"
#include "generator/problem/product_list.h"
#include "runtime/cpu/added_rows.h"
#include "runtime/cpu/reference_kernel.h"

namespace kiln {
namespace {

std::int64_t line_at(const Gemm& gemm, Operand which, const void* index, std::int64_t row) {
  return line_offset(gemm, which, row_at(index, row, extent(gemm, which).lines));
}

/// A's row, and its scales, of one row of the product, where they are by index.
void take_rows_of_a(const Gemm& gemm, const KilnArgs& args, std::int64_t row, KilnArgs& one) {
  const auto line = [&](Operand which) { return line_at(gemm, which, args.index_a, row); };
  if (gathers(gemm)) one.a = static_cast<const std::byte*>(args.a) + line(Operand::a);
  if (is_gathered(gemm, Operand::scale_a))
    one.scale_a = static_cast<const std::byte*>(args.scale_a) + line(Operand::scale_a);
}

/// This thread's share of one group's rows, each a product of its own between the rows that indices
/// name.
void run_indexed(const Problem& problem, const KilnArgs& args, std::int64_t group,
                 const Segment& segment, int thread, int threads) {
  const Gemm& gemm = problem.gemm;
  const Gemm ordered = in_order(gemm);
  const Problem own = alone(problem, 1);
  const std::int64_t begin = segment.count * thread / threads;
  for (std::int64_t i = begin; i < segment.count * (thread + 1) / threads; ++i) {
    const std::int64_t row = segment.first + i;
    KilnArgs one = args;
    one.m = 1;
    one.batch = 1;
    move_to_group(ordered, one, group, {row, 1});
    take_rows_of_a(gemm, args, row, one);
    if (scatters(gemm))
      one.d = static_cast<std::byte*>(args.d) + line_at(gemm, Operand::d, args.index_d, row);
    run_ungrouped_reference(own, one, nullptr, 0, 1, part_of_k(gemm, segment));
  }
}

/// This thread's rows of a D that rows of the product are added to: each of those is computed where
/// it is needed.
template <typename Real>
void run_added(const Problem& problem, const KilnArgs& args, int thread, int threads) {
  const Gemm& gemm = problem.gemm;
  const Gemm ordered = in_order(gemm);
  const Problem own = alone(problem, 1);
  const std::int64_t rows = rows_of_d(gemm);
  std::vector<Real> product(static_cast<std::size_t>(gemm.n)), sums(product.size());
  for (std::int64_t to = rows * thread / threads; to < rows * (thread + 1) / threads; ++to) {
    std::ranges::fill(sums, Real(0));
    Segments segments(gemm, args.groups);
    for (std::int64_t group = 0; group < gemm.batch; ++group) {
      const Segment segment = segments.of(group);
      for (std::int64_t row = segment.first; row < segment.first + segment.count; ++row) {
        if (row_to_add_to(args.index_d, row, rows) != to) continue;
        KilnArgs one = args;
        one.d = nullptr, one.c = nullptr, one.beta = 0;
        one.m = one.batch = 1;
        move_to_group(ordered, one, group, {row, 1});
        take_rows_of_a(gemm, args, row, one);
        one.d = product.data();
        run_ungrouped_reference(own, one, nullptr, 0, 1, part_of_k(gemm, segment));
        add_elements(gemm, args, row, product.data(), gemm.n, sums.data());
      }
    }
    store_sums(gemm, args, to, 0, gemm.n, sums.data());
  }
}

}  // namespace

void run_reference(const Problem& problem, const KilnArgs& args, const PackedLayout* packed,
                   int thread, int threads) {
  if (!grouped(problem.gemm))
    return run_ungrouped_reference(problem, args, packed, thread, threads);
  if (adds_rows(problem.gemm))
    return problem.gemm.d.dtype == DType::fp64 ? run_added<double>(problem, args, thread, threads)
                                               : run_added<float>(problem, args, thread, threads);
  Segments segments(problem.gemm, args.groups);
  for (std::int64_t group = 0; group < problem.gemm.batch; ++group) {
    if (lists_products(problem.gemm)) {
      const auto* const list = static_cast<const ListEntry*>(args.groups);
      const ListEntry entry = canonical_entry(problem, list[group]);
      if (!writes_d(entry)) continue;
      KilnArgs one = args;
      call_one(one, entry);
      run_ungrouped_reference(alone(problem, entry), one, packed, thread, threads);
      continue;
    }
    const Segment segment = segments.of(group);
    if (!writes_d(problem.gemm, segment)) continue;
    if (indexed(problem.gemm)) {
      run_indexed(problem, args, group, segment, thread, threads);
      continue;
    }
    const Problem own = alone(problem, segment.count);
    KilnArgs one = args;
    one.m = own.gemm.m;
    one.k = own.gemm.k;
    one.batch = 1;
    move_to_group(problem.gemm, one, group, segment);
    run_ungrouped_reference(own, one, packed, thread, threads, part_of_k(problem.gemm, segment));
  }
}

}  // namespace kiln
