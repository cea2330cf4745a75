#include <algorithm>
#include <cstddef>
#include <vector>

#include "generator/problem/extent.h"
#include "generator/problem/groups.h"
#include "generator/problem/indices.h"
#include "generator/problem/product_list.h"
#include "runtime/cpu/added_rows.h"
#include "runtime/cpu/reductions.h"
#include "runtime/cpu/reference_expression.h"
#include "runtime/cpu/reference_kernel.h"

namespace kiln {
namespace {

/// Whether steps follow a product, or it has memory of its own for D.
bool has_steps(const Gemm& gemm) {
  const Expression& expression = gemm.epilogue.expression;
  return expression::reduces(expression) || !expression.stores_d();
}

/// A whole product by one thread, with the steps that follow it.
Status run_alone(const Problem& own, const KilnArgs& args, const PartOfK& k) {
  HostArgs call = args;
  if (has_steps(own.gemm)) call.reduced_of = &own;
  return reducing(
      call,
      [&](const HostArgs& one) -> Status {
        run_ungrouped_reference(own, one, nullptr, 0, 1, k);
        return {};
      },
      [&](const KilnArgs& one) { reduce_reference(own, one, 1); });
}

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

/// This thread's share of one group's rows, each a product of its own, between the rows that
/// indices name.
Status run_rows(const Problem& problem, const KilnArgs& args, std::int64_t group,
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
    one.first_row = row;
    move_to_group(ordered, one, group, {row, 1});
    take_rows_of_a(gemm, args, row, one);
    if (scatters(gemm))
      one.d = static_cast<std::byte*>(args.d) + line_at(gemm, Operand::d, args.index_d, row);
    if (Status ran = run_alone(own, one, part_of_k(gemm, segment)); !ran) return ran;
  }
  return {};
}

/// Rows of a product that are added to rows of D, each of them computed where it is needed.
template <typename Real>
class AddedRow {
 public:
  AddedRow(const Problem& problem, const KilnArgs& args)
      : gemm_(problem.gemm),
        args_(args),
        ordered_(in_order(gemm_)),
        own_(alone(problem, 1)),
        product_(static_cast<std::size_t>(gemm_.n)),
        sums_(product_.size()) {}

  /// All that are added to one row; `to` negative: those that are added to none, which may have
  /// outputs beside D.
  Status run(std::int64_t to) {
    const std::int64_t rows = rows_of_d(gemm_);
    std::ranges::fill(sums_, Real(0));
    Segments segments(gemm_, args_.groups);
    for (std::int64_t group = 0; group < gemm_.batch; ++group) {
      const Segment segment = segments.of(group);
      for (std::int64_t row = segment.first; row < segment.first + segment.count; ++row) {
        const std::int64_t named = row_to_add_to(args_.index_d, row, rows);
        if (to < 0 ? named >= 0 : named != to) continue;
        if (Status ran = multiply(group, segment, row); !ran) return ran;
        if (to >= 0) add_elements(gemm_, args_, row, product_.data(), gemm_.n, sums_.data());
      }
    }
    if (to >= 0) store_sums(gemm_, args_, to, 0, gemm_.n, sums_.data());
    return {};
  }

 private:
  Status multiply(std::int64_t group, const Segment& segment, std::int64_t row) {
    KilnArgs one = args_;
    one.d = nullptr, one.c = nullptr, one.beta = 0;
    one.m = one.batch = 1;
    one.first_row = row;
    move_to_group(ordered_, one, group, {row, 1});
    take_rows_of_a(gemm_, args_, row, one);
    one.d = product_.data();
    return run_alone(own_, one, part_of_k(gemm_, segment));
  }

  const Gemm& gemm_;
  const KilnArgs& args_;
  Gemm ordered_;
  Problem own_;
  std::vector<Real> product_, sums_;
};

/// This thread's rows of a D that rows of the product are added to.
template <typename Real>
Status run_added(const Problem& problem, const KilnArgs& args, int thread, int threads) {
  AddedRow<Real> added(problem, args);
  const std::int64_t rows = rows_of_d(problem.gemm);
  for (std::int64_t to = rows * thread / threads; to < rows * (thread + 1) / threads; ++to)
    if (Status ran = added.run(to); !ran) return ran;
  const bool beside_d = !problem.gemm.epilogue.expression.outputs().empty();
  return beside_d && thread == 0 ? added.run(-1) : Status{};
}

/// This thread's share of one group, or all of it where steps follow and it is this thread's.
Status run_group(const Problem& problem, const KilnArgs& args, const PackedLayout* packed,
                 std::int64_t group, const Segment& segment, int thread, int threads) {
  const Problem own = alone(problem, segment.count);
  KilnArgs one = args;
  one.m = own.gemm.m;
  one.k = own.gemm.k;
  one.batch = 1;
  one.first_row = first_row_of(problem.gemm, segment);
  move_to_group(problem.gemm, one, group, segment);
  const PartOfK k = part_of_k(problem.gemm, segment);
  if (has_steps(own.gemm)) return group % threads == thread ? run_alone(own, one, k) : Status{};
  run_ungrouped_reference(own, one, packed, thread, threads, k);
  return {};
}

}  // namespace

Status run_reference(const Problem& problem, const KilnArgs& args, const PackedLayout* packed,
                     int thread, int threads) {
  if (!grouped(problem.gemm)) {
    run_ungrouped_reference(problem, args, packed, thread, threads);
    return {};
  }
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
    const Status ran = indexed(problem.gemm)
                           ? run_rows(problem, args, group, segment, thread, threads)
                           : run_group(problem, args, packed, group, segment, thread, threads);
    if (!ran) return ran;
  }
  return {};
}

}  // namespace kiln
