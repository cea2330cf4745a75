// Builders and derived values of the problem; its rules are in gemm_validate.cpp, its text form in
// gemm_text.cpp.
#include "kiln/gemm.hpp"

#include "generator/problem/extent.h"
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

std::int64_t Gemm::lda() const { return leading_dimension(*this, Operand::a); }
std::int64_t Gemm::ldb() const { return leading_dimension(*this, Operand::b); }
std::int64_t Gemm::ldc() const { return leading_dimension(*this, Operand::c); }
std::int64_t Gemm::ldd() const { return leading_dimension(*this, Operand::d); }
std::int64_t Gemm::stride_a() const { return batch_stride(*this, Operand::a); }
std::int64_t Gemm::stride_b() const { return batch_stride(*this, Operand::b); }
std::int64_t Gemm::stride_c() const { return batch_stride(*this, Operand::c); }
std::int64_t Gemm::stride_d() const { return batch_stride(*this, Operand::d); }

std::string_view name(Activation f) {
  switch (f) {
    case Activation::none:
      return "none";
    case Activation::relu:
      return "relu";
    case Activation::gelu_tanh:
      return "gelu";
    case Activation::gelu_erf:
      return "gelu_erf";
    case Activation::silu:
      return "silu";
  }
  return "?";
}

std::string_view name(Gate f) {
  switch (f) {
    case Gate::none:
      return "none";
    case Gate::relu:
      return "relu";
    case Gate::gelu_tanh:
      return "gelu";
    case Gate::gelu_erf:
      return "gelu_erf";
    case Gate::silu:
      return "silu";
    case Gate::sigmoid:
      return "sigmoid";
  }
  return "?";
}

std::string_view name(Bias b) {
  switch (b) {
    case Bias::none:
      return "none";
    case Bias::per_row:
      return "bias_row";
    case Bias::per_column:
      return "bias_col";
  }
  return "?";
}

std::string_view name(Grouping g) {
  switch (g) {
    case Grouping::none:
      return "none";
    case Grouping::rows:
      return "rows";
    case Grouping::masked:
      return "masked";
    case Grouping::k:
      return "k";
    case Grouping::list:
      return "list";
  }
  return "?";
}

std::string_view name(Gather g) { return g == Gather::none ? "none" : "rows"; }

std::string_view name(Scatter s) {
  switch (s) {
    case Scatter::none:
      return "none";
    case Scatter::rows:
      return "rows";
    case Scatter::add:
      return "add";
    case Scatter::weighted:
      return "weighted";
  }
  return "?";
}

std::string_view name(Scale s) {
  switch (s) {
    case Scale::none:
      return "none";
    case Scale::line:
      return "line";
    case Scale::line_128:
      return "1x128";
    case Scale::square_128:
      return "128x128";
    case Scale::mx_32:
      return "mx32";
    case Scale::tensor:
      return "tensor";
    case Scale::line_32:
      return "1x32";
    case Scale::line_64:
      return "1x64";
  }
  return "?";
}

std::string_view name(ScaleOrder o) {
  switch (o) {
    case ScaleOrder::lines:
      return "lines";
    case ScaleOrder::blocks:
      return "blocks";
    case ScaleOrder::blocks_4:
      return "blocks_4";
  }
  return "?";
}

std::string_view name(Zero z) {
  switch (z) {
    case Zero::none:
      return "none";
    case Zero::integer:
      return "int";
    case Zero::floating:
      return "float";
  }
  return "?";
}

std::string_view name(Numerics n) {
  switch (n) {
    case Numerics::ieee:
      return "ieee";
    case Numerics::fast:
      return "fast";
    case Numerics::tensor:
      return "tensor";
  }
  return "?";
}

}  // namespace kiln
