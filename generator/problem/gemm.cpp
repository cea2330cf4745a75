// Builders and derived values of the problem; its rules are in gemm_validate.cpp, its text form in
// gemm_text.cpp.
#include "kiln/gemm.hpp"

#include "generator/problem/enum_names.h"
#include "generator/problem/extent.h"
#include "generator/problem/fields.h"
#include "generator/problem/gemm_types.h"

namespace kiln {
namespace {

Gemm of_order(Order order, std::int64_t m, std::int64_t n, std::int64_t k, DType t) {
  Gemm gemm;
  gemm.m = m;
  gemm.n = n;
  gemm.k = k;
  const TypeRow* row = default_types(t);
  gemm.a.dtype = row ? row->a : t;
  gemm.b.dtype = row ? row->b : t;
  gemm.c.dtype = gemm.d.dtype = row ? row->usual_output() : t;
  gemm.accumulator = row ? row->accumulator : t;
  gemm.a.order = gemm.b.order = gemm.c.order = gemm.d.order = order;
  return gemm;
}

}  // namespace

Gemm Gemm::row_major(std::int64_t m, std::int64_t n, std::int64_t k, DType t) {
  return of_order(Order::row_major, m, n, k, t);
}

Gemm Gemm::column_major(std::int64_t m, std::int64_t n, std::int64_t k, DType t) {
  return of_order(Order::column_major, m, n, k, t);
}

Gemm Gemm::transpose_a() const {
  Gemm copy = *this;
  copy.a.transposed = !a.transposed;
  return copy;
}

Gemm Gemm::transpose_b() const {
  Gemm copy = *this;
  copy.b.transposed = !b.transposed;
  return copy;
}

Gemm Gemm::output(DType t) const {
  Gemm copy = *this;
  copy.c.dtype = copy.d.dtype = t;
  return copy;
}

Gemm Gemm::batched(std::int64_t count) const {
  Gemm copy = *this;
  copy.batch = count;
  copy.a.batch_stride = copy.b.batch_stride = copy.c.batch_stride = copy.d.batch_stride = 0;
  return copy;
}

Gemm Gemm::grouped(std::int64_t count, Grouping how) const {
  Gemm copy = batched(count);
  if (grouping() != how) KindOfGroups::set(copy, static_cast<std::int64_t>(how));
  return copy;
}

namespace {

GroupsOfRows& rows_of(Gemm& gemm) {
  auto* const rows = std::get_if<GroupsOfRows>(&gemm.groups);
  return rows != nullptr ? *rows : gemm.groups.emplace<GroupsOfRows>();
}

}  // namespace

Gemm Gemm::gathered(std::int64_t rows) const {
  Gemm copy = *this;
  rows_of(copy).gather = Gathered{rows};
  return copy;
}

Gemm Gemm::scattered(std::int64_t rows, Scatter how) const {
  Gemm copy = *this;
  rows_of(copy).scatter = Scattered{how, rows};
  return copy;
}

Gemm Gemm::with_expression(Expression e) const {
  Gemm copy = *this;
  copy.epilogue.expression = e;
  std::optional<Gated>& gate = copy.epilogue.gate;
  if (e.of_gate() && !gate) gate = Gated{Gate::expression};
  if (!e.of_gate() && gate && gate->function == Gate::expression) gate.reset();
  return copy;
}

std::int64_t Gemm::lda() const { return leading_dimension(*this, Operand::a); }
std::int64_t Gemm::ldb() const { return leading_dimension(*this, Operand::b); }
std::int64_t Gemm::ldc() const { return leading_dimension(*this, Operand::c); }
std::int64_t Gemm::ldd() const { return leading_dimension(*this, Operand::d); }
std::int64_t Gemm::stride_a() const { return batch_stride(*this, Operand::a); }
std::int64_t Gemm::stride_b() const { return batch_stride(*this, Operand::b); }
std::int64_t Gemm::stride_c() const { return batch_stride(*this, Operand::c); }
std::int64_t Gemm::stride_d() const { return batch_stride(*this, Operand::d); }

std::string_view name(Activation f) { return word_of(f); }
std::string_view name(Gate f) { return word_of(f); }
std::string_view name(Bias b) { return word_of(b); }
std::string_view name(Grouping g) { return word_of(g); }
std::string_view name(Scatter s) { return word_of(s); }
std::string_view name(Scale s) { return word_of(s); }
std::string_view name(ScaleOrder o) { return word_of(o); }
std::string_view name(Zero z) { return word_of(z); }
std::string_view name(Numerics n) { return word_of(n); }

}  // namespace kiln
