#include "soak/c_face.h"

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
  return {.size = sizeof(kiln_gemm_desc),
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
          .scale_a = static_cast<kiln_scale>(g.scale_a),
          .scale_b = static_cast<kiln_scale>(g.scale_b),
          .bias_as_d = g.epilogue.bias_as_d ? 1 : 0,
          .numerics = static_cast<kiln_numerics>(g.numerics),
          .gate = static_cast<kiln_gate>(g.epilogue.gate),
          .gate_order = static_cast<kiln_gate_order>(g.epilogue.gate_order),
          .scale_type = static_cast<kiln_dtype>(g.scale_type),
          .zero = static_cast<kiln_zero>(g.zero),
          .grouping = static_cast<kiln_grouping>(g.grouping),
          .expected_rows = g.expected_rows,
          .scale_d = static_cast<kiln_scale>(g.scale_d),
          .zero_a = static_cast<kiln_scale>(g.zero_a),
          .gather = static_cast<kiln_gather>(g.gather),
          .scatter = static_cast<kiln_scatter>(g.scatter),
          .rows_of_a = g.rows_of_a,
          .rows_of_d = g.rows_of_d,
          .amax_d = g.amax_d ? 1 : 0,
          .scale_order_a = static_cast<kiln_scale_order>(g.scale_order_a),
          .scale_order_b = static_cast<kiln_scale_order>(g.scale_order_b)};
}

kiln_operands c_operands(const Operands& x, const kiln_packed_b* packed) {
  return {.size = sizeof(kiln_operands),
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
          .list = nullptr};
}

Status status_of(kiln_status status) {
  if (status == KILN_OK) return {};
  return fail(static_cast<ErrorCode>(static_cast<int>(status) - 1), kiln_last_error());
}

}  // namespace kiln::soak
