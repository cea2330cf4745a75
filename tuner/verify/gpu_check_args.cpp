#include "tuner/verify/gpu_check_args.h"

#include <algorithm>

#include "generator/problem/extent.h"
#include "generator/problem/operands.h"
#include "generator/problem/quantised_d.h"
#include "tuner/verify/view.h"

namespace kiln::check_args {
namespace {

ScalePlaces places_of(const Gemm& g, Operand which, const PartOfK& part) {
  const Scale scale = scale_of(g, which);
  if (scale == Scale::none) return {};
  const auto [lines, along] = scale_block(scale);
  const ScaleStrides strides = strides_of_scales(g, which, part);
  // One block along all of k has no next one.
  return {lines, along == 0 ? 1 : along, strides.line, along == 0 ? 0 : strides.block,
          strides.batch};
}

Extra extra_of(const Gemm& g, const KilnGpuArgs& args, Operand which) {
  const MatrixView view = view_of(g, which, nullptr, 0);
  return {.data = pointer(args, which),
          .row = view.row_stride,
          .column = view.column_stride,
          .batch = batch_stride(g, which),
          .type = static_cast<std::int64_t>(view.dtype),
          .per_row = view.per_row,
          .per_column = view.per_column};
}

/// What is computed and where it is stored is not said yet.
CheckedExpression checked(const Gemm& g, const KilnGpuArgs& args, std::span<const Extra> reduced,
                          std::int64_t rows_before) {
  CheckedExpression all{.precision = intervals::precision_of(type_of_values(g), 0),
                        .operands = std::ssize(g.epilogue.expression.operands()),
                        .lines = std::ssize(reduced),
                        .rows_before = rows_before};
  std::ranges::copy(intervals::steps_of(*g.epilogue.expression.program()), all.steps);
  std::ranges::copy(reduced, all.reduced);
  for (const Operand which : kOperands)
    if (is_extra(which) && present(g, which))
      all.extra[index_of_extra(which)] = extra_of(g, args, which);
  return all;
}

/// How many lines and blocks there are along each index of D.
std::int64_t count_along_m(const Gemm& g, expression::Line line) {
  return expression::Line::count(line.m, g.m);
}
std::int64_t count_along_n(const Gemm& g, expression::Line line) {
  return expression::Line::count(line.n, g.n);
}

}  // namespace

Types types_of(const Problem& problem, const PartOfK& part) {
  const Gemm& g = problem.gemm;
  Types t{static_cast<int>(g.a.dtype), static_cast<int>(g.b.dtype),
          static_cast<int>(g.d.dtype), static_cast<int>(dtype_of(g, Operand::bias)),
          problem.a_k_major,           problem.b_k_major};
  t.a_scales = places_of(g, Operand::a, part);
  t.b_scales = places_of(g, Operand::b, part);
  t.first_k = part.first;
  t.integers = g.accumulator == s32;
  t.mx = g.a.q.scale == Scale::mx_32 || g.b.q.scale == Scale::mx_32;
  t.scale = static_cast<int>(g.b.q.type);
  if (g.d.q.scale != Scale::none) {
    t.d_scale = is_output(g, Operand::scale_d) ? 2 : 1;
    t.d_along = std::max<std::int64_t>(1, columns_of_a_scale(g));
    t.d_largest = largest_code(g.d.dtype);
  }
  if (g.a.q.zero != Zero::none) t.zero_a = g.a.q.zero == Zero::tensor ? 2 : 1;
  t.zero = g.b.q.zero == Zero::none ? -1 : static_cast<int>(dtype_of(g, Operand::zero_b));
  return t;
}

DeviceAllowance device_allowance(const Gemm& g, const Scaling& scaling) {
  const Allowance a = allowance(g, scaling);
  return {a.per_sum,
          a.per_step,
          a.per_residual,
          a.unit,
          a.steepest,
          a.factor,
          a.per_gate,
          static_cast<int>(g.epilogue.bias),
          static_cast<int>(g.epilogue.activation),
          g.epilogue.residual,
          g.epilogue.gate ? static_cast<int>(g.epilogue.gate->function) : 0,
          interleaved(g)};
}

CheckedExpression compared(const Gemm& gemm, const KilnGpuArgs& args,
                           std::span<const Extra> reduced, int output, std::int64_t rows_before) {
  const expression::Program& program = *gemm.epilogue.expression.program();
  CheckedExpression all = checked(gemm, args, reduced, rows_before);
  if (output == kValueOfD) {
    all.stored = extra_of(gemm, args, Operand::d);
    all.result = program.d;
    return all;
  }
  const auto place = static_cast<std::size_t>(output);
  all.stored = extra_of(gemm, args, extra_output(place));
  all.result = program.results[place];
  all.reduction = static_cast<std::int64_t>(program.outputs[place].reduction);
  return all;
}

Extra place_of_lines(const Gemm& gemm, expression::Line line, void* memory) {
  const std::int64_t columns = count_along_n(gemm, line);
  return {.data = memory,
          .row = line.m == 0 ? 0 : columns,
          .column = line.n == 0 ? 0 : 1,
          .batch = count_along_m(gemm, line) * columns,
          .type = 0,
          .per_row = std::max<std::int64_t>(1, line.m),
          .per_column = std::max<std::int64_t>(1, line.n)};
}

std::int64_t bytes_of_lines(const Gemm& gemm, expression::Line line) {
  return count_along_m(gemm, line) * count_along_n(gemm, line) * gemm.batch *
         std::int64_t{sizeof(intervals::Interval)};
}

CheckedExpression put(const Gemm& gemm, const KilnGpuArgs& args, const expression::Value& value,
                      std::span<const Extra> reduced, const Extra& to, std::int64_t rows_before) {
  CheckedExpression all = checked(gemm, args, reduced, rows_before);
  all.stored = to;
  all.result = value.of[0];
  all.reduction = static_cast<std::int64_t>(value.line.how);
  all.puts = 1;
  return all;
}

}  // namespace kiln::check_args
