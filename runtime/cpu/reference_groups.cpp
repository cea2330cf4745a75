#include <cstddef>

#include "generator/problem/extent.h"
#include "generator/problem/groups.h"
#include "generator/problem/indices.h"
#include "runtime/cpu/reference_kernel.h"

namespace kiln {
namespace {

/// This thread's share of one group's rows, each a product of its own between the rows that indices
/// name.
void run_indexed(const Canonical& problem, const KilnArgs& args, std::int64_t group,
                 const Segment& segment, int thread, int threads) {
  const Gemm& gemm = problem.gemm;
  const Gemm ordered = in_order(gemm);
  const Canonical own = alone(problem, 1);
  const std::int64_t begin = segment.count * thread / threads;
  for (std::int64_t i = begin; i < segment.count * (thread + 1) / threads; ++i) {
    const std::int64_t row = segment.first + i;
    KilnArgs one = args;
    one.m = 1;
    one.batch = 1;
    move_to_group(ordered, one, group, {row, 1});
    const auto line = [&](Operand which, const void* index) {
      const std::int64_t at = row_at(index, row, extent(gemm, which).lines);
      return at * pitch_bytes(gemm, which);
    };
    if (gathers(gemm))
      one.a = static_cast<const std::byte*>(args.a) + line(Operand::a, args.index_a);
    if (is_gathered(gemm, Operand::scale_a))
      one.scale_a =
          static_cast<const std::byte*>(args.scale_a) + line(Operand::scale_a, args.index_a);
    if (scatters(gemm)) one.d = static_cast<std::byte*>(args.d) + line(Operand::d, args.index_d);
    run_ungrouped_reference(own, one, nullptr, 0, 1);
  }
}

}  // namespace

void run_reference(const Canonical& problem, const KilnArgs& args, const PackedLayout* packed,
                   int thread, int threads) {
  if (!grouped(problem.gemm))
    return run_ungrouped_reference(problem, args, packed, thread, threads);
  for (std::int64_t group = 0; group < problem.gemm.batch; ++group) {
    const Segment segment = segment_of(problem.gemm, args.groups, group);
    if (indexed(problem.gemm)) {
      run_indexed(problem, args, group, segment, thread, threads);
      continue;
    }
    const Canonical own = alone(problem, segment.count);
    KilnArgs one = args;
    one.m = own.gemm.m;
    one.k = own.gemm.k;
    one.batch = 1;
    move_to_group(problem.gemm, one, group, segment);
    run_ungrouped_reference(own, one, packed, thread, threads);
  }
}

}  // namespace kiln
