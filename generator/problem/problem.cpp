#include "generator/problem/problem.h"

#include <algorithm>
#include <utility>

#include "generator/expression/halves.h"
#include "generator/expression/program.h"
#include "generator/problem/extent.h"
#include "generator/problem/spelling.h"

namespace kiln {
namespace {

/// A column-major matrix is the row-major matrix of its transpose: same memory, other words.
Matrix row_major(Matrix m, bool transposed, std::int64_t ld, std::int64_t stride) {
  m.order = Order::row_major;
  m.transposed = transposed;
  m.ld = ld;
  m.batch_stride = stride;
  return m;
}

Bias exchanged(Bias b) {
  if (b == Bias::per_row) return Bias::per_column;
  if (b == Bias::per_column) return Bias::per_row;
  return b;
}

/// One batch has no stride; the tight one keeps problems that differ in nothing else equal.
std::int64_t stride_of(const Gemm& gemm, Operand which) {
  if (gemm.batch > 1) return batch_stride(gemm, which);
  Gemm tight = gemm.batched(1);
  return batch_stride(tight, which);
}

}  // namespace

Result<Problem> Problem::of(const Gemm& given) {
  if (Status valid = validate(given); !valid) return tl::unexpected(std::move(valid).error());
  const Gemm gemm = with_joined_lines(given);
  Problem out;
  out.given = given;
  out.swapped = gemm.d.order == Order::column_major;
  out.a_k_major = (gemm.a.order == Order::row_major) != gemm.a.transposed;
  out.b_k_major = (gemm.b.order == Order::row_major) == gemm.b.transposed;

  out.gemm = gemm;
  Gemm& g = out.gemm;
  if (out.swapped) {
    std::swap(out.a_k_major, out.b_k_major);
    std::swap(g.m, g.n);
    g.epilogue.bias = exchanged(g.epilogue.bias);
    g.epilogue.expression = expression::transposed(g.epilogue.expression);
    std::swap(g.a.q, g.b.q);
  }
  const Operand first = out.swapped ? Operand::b : Operand::a;
  const Operand second = out.swapped ? Operand::a : Operand::b;
  static_cast<Matrix&>(g.a) = row_major(matrix(gemm, first), !out.a_k_major,
                                        leading_dimension(gemm, first), stride_of(gemm, first));
  static_cast<Matrix&>(g.b) = row_major(matrix(gemm, second), out.b_k_major,
                                        leading_dimension(gemm, second), stride_of(gemm, second));
  g.c = row_major(gemm.c, false, gemm.ldc(), stride_of(gemm, Operand::c));
  static_cast<Matrix&>(g.d) = row_major(gemm.d, false, gemm.ldd(), stride_of(gemm, Operand::d));
  out.needs = features_of(g);
  return out;
}

Problem of_kernels(const Problem& problem, bool in_d) {
  Problem copy = problem;
  Gemm& g = copy.gemm;
  const Expression whole = g.epilogue.expression;
  g.epilogue.expression = in_d ? expression::of_product_in_d(whole) : expression::of_product(whole);
  if (!expression::keeps_in_d(g.epilogue.expression)) return copy;
  g.d.dtype = type_of_kept(g, *g.epilogue.expression.program()->half_of, 0);
  g.d.ld = std::max<std::int64_t>(1, g.n);
  g.d.batch_stride = g.m * g.d.ld;
  return copy;
}

}  // namespace kiln
