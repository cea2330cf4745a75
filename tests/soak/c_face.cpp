#include "soak/c_face.h"

#include <algorithm>
#include <iterator>

// A member of a struct of the C interface that is forgotten here does not compile.
#pragma GCC diagnostic error "-Wmissing-field-initializers"

namespace kiln::soak {
namespace {

kiln_matrix c_matrix(const Matrix& x) {
  return {.dtype = static_cast<kiln_dtype>(x.dtype),
          .order = static_cast<kiln_order>(x.order),
          .transposed = x.transposed ? 1 : 0,
          .ld = x.ld,
          .batch_stride = x.batch_stride};
}

}  // namespace

// Every field is set here and no init function called: what a caller in C may do as well.
kiln_gemm_desc c_desc(const Gemm& g) {
  const auto* const masked = std::get_if<MaskedGroups>(&g.groups);
  const auto* const rows = std::get_if<GroupsOfRows>(&g.groups);
  const bool gathers = rows != nullptr && rows->gather.has_value();
  const bool scatters = rows != nullptr && rows->scatter.has_value();
  return {
      .size = sizeof(kiln_gemm_desc),
      .m = g.m,
      .n = g.n,
      .k = g.k,
      .batch = g.batch,
      .a = c_matrix(g.a),
      .b = c_matrix(g.b),
      .c = c_matrix(g.c),
      .d = c_matrix(g.d),
      .accumulator = static_cast<kiln_dtype>(g.accumulator),
      .bias = static_cast<kiln_bias>(g.epilogue.bias),
      .activation = static_cast<kiln_activation>(g.epilogue.activation),
      .residual = g.epilogue.residual ? 1 : 0,
      .alignment = g.alignment,
      .b_packed = g.b_packed ? 1 : 0,
      .scale_a = static_cast<kiln_scale>(g.a.q.scale),
      .scale_b = static_cast<kiln_scale>(g.b.q.scale),
      .bias_as_d = g.epilogue.bias_as_d ? 1 : 0,
      .numerics = static_cast<kiln_numerics>(g.numerics),
      .gate = g.epilogue.gate ? static_cast<kiln_gate>(g.epilogue.gate->function) : KILN_GATE_NONE,
      .gate_order = g.epilogue.gate ? static_cast<kiln_gate_order>(g.epilogue.gate->order)
                                    : KILN_GATE_STACKED,
      .scale_type = static_cast<kiln_dtype>(g.b.q.type),
      .zero = static_cast<kiln_zero>(g.b.q.zero),
      .grouping = static_cast<kiln_grouping>(g.grouping()),
      .expected_rows = masked != nullptr ? masked->expected_rows : 0,
      .scale_d = static_cast<kiln_scale>(g.d.q.scale),
      .zero_a = g.a.q.zero == Zero::line     ? KILN_SCALE_LINE
                : g.a.q.zero == Zero::tensor ? KILN_SCALE_TENSOR
                                             : KILN_SCALE_NONE,
      .gather = gathers ? KILN_GATHER_ROWS : KILN_GATHER_NONE,
      .scatter = scatters ? static_cast<kiln_scatter>(rows->scatter->how) : KILN_SCATTER_NONE,
      .rows_of_a = gathers ? rows->gather->rows : 0,
      .rows_of_d = scatters ? rows->scatter->rows : 0,
      .amax_d = g.amax_d ? 1 : 0,
      .scale_order_a = static_cast<kiln_scale_order>(g.a.q.order),
      .scale_order_b = static_cast<kiln_scale_order>(g.b.q.order),
      .expression = static_cast<int>(g.epilogue.expression.id())};
}

kiln_operands c_operands(const Operands& x, const kiln_packed_b* packed) {
  kiln_operands operands{.size = sizeof(kiln_operands),
                         .a = x.a,
                         .b = x.b,
                         .packed_b = packed,
                         .c = x.c,
                         .d = x.d,
                         .bias = x.bias,
                         .residual = x.residual,
                         .alpha = x.alpha,
                         .beta = x.beta,
                         .threads = x.threads,
                         .stream = nullptr,
                         .workspace = nullptr,
                         .workspace_bytes = 0,
                         .scale_a = x.scale_a,
                         .scale_b = x.scale_b,
                         .zero_b = x.zero_b,
                         .groups = x.groups,
                         .scale_d = x.scale_d,
                         .zero_a = x.zero_a,
                         .column_sums_b = x.column_sums_b,
                         .index_a = x.index_a,
                         .index_d = x.index_d,
                         .amax_d = x.amax_d,
                         .row_weights = x.row_weights,
                         .list = nullptr,
                         .extra = {},
                         .outputs = {}};
  std::ranges::copy(x.extra, std::begin(operands.extra));
  std::ranges::copy(x.outputs, std::begin(operands.outputs));
  return operands;
}

Status status_of(kiln_status status) {
  if (status == KILN_OK) return {};
  return fail(static_cast<ErrorCode>(static_cast<int>(status) - 1), kiln_last_error());
}

}  // namespace kiln::soak
