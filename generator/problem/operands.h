// A call as its kernel takes it. Knows the canonical form and the fields of kernel arguments; knows
// no device.
#pragma once

#include <cstddef>
#include <tuple>

#include "generator/problem/extent.h"
#include "generator/problem/problem.h"
#include "kiln/engine.hpp"

namespace kiln {

/// How many pointers to operands a call has. A field of Operands that is not named here does not
/// compile.
constexpr std::size_t pointers_of(const Operands& operands) {
  const auto& [a, b, packed_b, c, d, bias, residual, alpha, beta, threads, stream, workspace,
               workspace_bytes, scale_a, scale_b, zero_b, groups, scale_d, zero_a, column_sums_b,
               index_a, index_d, amax_d, row_weights, list, extra, outputs] = operands;
  return std::tuple_size_v<decltype(std::tie(a, b, c, d, bias, residual, scale_a, scale_b, zero_b,
                                             groups, scale_d, zero_a, column_sums_b, index_a,
                                             index_d, amax_d, row_weights))> +
         std::tuple_size_v<std::remove_cvref_t<decltype(extra)>> +
         std::tuple_size_v<std::remove_cvref_t<decltype(outputs)>>;
}
static_assert(pointers_of({}) == kOperandCount);

/// What a kernel is called with, workspace aside: `Args` is KilnArgs or KilnGpuArgs.
template <typename Args>
Args kernel_args(const Problem& problem, const Operands& operands) {
  const Gemm& g = problem.gemm;
  Args args{};
  args.m = g.m, args.n = g.n, args.k = g.k, args.batch = g.batch;
  args.lda = g.a.ld, args.ldb = g.b.ld, args.ldc = g.c.ld, args.ldd = g.d.ld;
  args.stride_a = g.a.batch_stride, args.stride_b = g.b.batch_stride;
  args.stride_c = g.c.batch_stride, args.stride_d = g.d.batch_stride;
  if constexpr (requires { args.rows_of_a; }) {
    args.rows_of_a = rows_of_a(g);
    args.rows_of_d = rows_of_d(g);
  }
  for (const Operand which : kOperands) {
    if (extra_of(g, which) == nullptr) continue;
    const std::size_t i = index_of_extra(which);
    std::int64_t ld = leading_dimension(g, which), stride = batch_stride(g, which);
    if (is_extra(which)) {
      args.extra_ld[i] = ld, args.extra_stride[i] = stride;
      continue;
    }
    // Kernels store what is reduced as a tight matrix.
    if (leaves_values(g, which)) {
      args.reduced_stride[i] = stride;
      ld = g.n, stride = g.m * g.n;
    }
    args.output_ld[i] = ld, args.output_stride[i] = stride;
  }
  bind_operands(args, operands, problem.swapped);
  if (g.grouping() == Grouping::list) args.groups = operands.list;
  return args;
}

}  // namespace kiln
