// What the kernels of templates/cuda/check take beside KilnGpuArgs, laid out as there. Knows
// problems; knows no device.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "generator/expression/program.h"
#include "generator/problem/problem.h"
#include "templates/cuda/common/abi.h"
#include "tuner/verify/interval.h"
#include "tuner/verify/reference.h"

namespace kiln::check_args {

/// Of check.cu: elements that share a scale, 0 lines: without.
struct ScalePlaces {
  int lines = 0, along = 1;
  std::int64_t line = 0, block = 0, batch = 0;
};

/// Of check.cu.
struct Types {
  int a, b, d, bias;
  int a_k_major, b_k_major;
  ScalePlaces a_scales, b_scales;
  int mx;                    // scales are bytes of e8m0
  int scale, zero;           // types of other scales and of zero points; -1: without
  int d_scale = 0;           // 1: given; 2: follows from D
  std::int64_t d_along = 1;  // columns that share one
  float d_largest = 1;
  int zero_a = 0;  // 1: one a row; 2: one
  std::int64_t first_k = 0;
  int integers = 0;
};
Types types_of(const Problem& problem, const PartOfK& part = {});

/// `Allowance` of judge.cu.
struct DeviceAllowance {
  double per_sum, per_step, per_residual, unit, steepest, factor, per_gate;
  int bias, activation, residual, gate, interleaved;
};
DeviceAllowance device_allowance(const Gemm& gemm, const Scaling& scaling);

/// Of judge_expression.cu.
struct Extra {
  const void* data;
  std::int64_t row, column, batch, type;
  std::int64_t per_row = 1, per_column = 1;
  std::int64_t place(std::int64_t b, std::int64_t i, std::int64_t j) const {
    return b * batch + i / per_row * row + j / per_column * column;
  }
};

/// Of judge_expression.cu.
struct CheckedExpression {
  intervals::Precision precision;
  Extra extra[kExtraOperands] = {};
  Extra reduced[expression::kMostReduced] = {};
  Extra stored = {};
  std::int64_t operands, lines, result = 0, reduction = 0, puts = 0, rows_before = 0;
  intervals::ExpressionStep steps[intervals::kMostSteps] = {};

  /// Which kernel is called.
  const char* entry() const {
    if (reduction == 0) return "check_judge_expression";
    return stored.per_row > 1 || stored.per_column > 1 ? "check_put_blocks" : "check_reduction";
  }
};

/// D is compared (kValueOfD) or an output beside it. `reduced`: of the expression, in its program's
/// order; `rows_before`: that a D which groups share has before this product's.
CheckedExpression compared(const Gemm& gemm, const KilnGpuArgs& args,
                           std::span<const Extra> reduced, int output,
                           std::int64_t rows_before = 0);

/// Where there is an Interval for each line or block that is reduced, in memory of the device.
Extra place_of_lines(const Gemm& gemm, expression::Line line, void* memory);
std::int64_t bytes_of_lines(const Gemm& gemm, expression::Line line);
/// Those of one value of the program are worked out and put there. `reduced`: of what is reduced
/// before it in the program.
CheckedExpression put(const Gemm& gemm, const KilnGpuArgs& args, const expression::Value& value,
                      std::span<const Extra> reduced, const Extra& to,
                      std::int64_t rows_before = 0);

}  // namespace kiln::check_args
