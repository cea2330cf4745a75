// Problems with gates that are drawn expressions.
#pragma once

#include "cli/commands/random_expression.h"
#include "kiln/gemm.hpp"

namespace kiln::test {

/// The problem with such a gate in place of its epilogue. Not all have one: see validate().
inline Gemm gated_by_drawn(Gemm gemm, cli::Draw& draw) {
  const GateOrder order = draw.one_in(2) ? GateOrder::interleaved : GateOrder::stacked;
  gemm.epilogue = {};
  gemm.amax_d = gemm.b_packed = false;
  gemm.c.order = gemm.d.order = Order::row_major;
  // B's lines become twice as long where they run along n.
  for (Matrix* const matrix :
       {static_cast<Matrix*>(&gemm.b), &gemm.c, static_cast<Matrix*>(&gemm.d)})
    matrix->ld = matrix->batch_stride = 0;
  gemm.alignment = 1;
  return gemm.with_gate(Gate::expression, order)
      .with_expression(Expression::parse(cli::random_gate(draw)).value());
}

}  // namespace kiln::test
