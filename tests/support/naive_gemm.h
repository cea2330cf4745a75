// A GEMM as short as it can be, in the accumulator's own type, with places to plant faults in.
// Shares nothing with the reference in tuner/ but the element conversions.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>

#include "kiln/engine.hpp"
#include "kiln/numeric.hpp"

namespace kiln::test {

/// Where kernels go wrong; each default does the right thing.
struct Faults {
  std::int64_t skip_last_k = 0;
  bool activation_before_bias = false;
  bool residual_before_activation = false;
  bool always_reads_c = false;
  bool wraps_instead_of_saturating = false;
  bool truncates_output = false;
  double alpha_factor = 1.0;
  /// Sees each stored value with its batch, row and column; what it returns is stored.
  std::function<double(std::int64_t, std::int64_t, std::int64_t, double)> at_store;
};

inline std::int64_t offset(const Matrix& matrix, std::int64_t ld, std::int64_t row,
                           std::int64_t column) {
  if (matrix.transposed) std::swap(row, column);
  return matrix.order == Order::row_major ? row * ld + column : column * ld + row;
}

template <typename Real>
Real naive_activation(Activation f, Real x) {
  switch (f) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::gelu_tanh:
      return Real(0.5) * x *
             (1 + std::tanh(Real(0.79788456080286536) * (x + Real(0.044715) * x * x * x)));
    case Activation::gelu_erf:
      return Real(0.5) * x * (1 + std::erf(x * Real(0.70710678118654752)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
  }
  return x;
}

template <typename Real>
Real naive_gate(Gate f, Real x) {
  switch (f) {
    case Gate::relu:
      return naive_activation(Activation::relu, x);
    case Gate::gelu_tanh:
      return naive_activation(Activation::gelu_tanh, x);
    case Gate::gelu_erf:
      return naive_activation(Activation::gelu_erf, x);
    case Gate::silu:
      return naive_activation(Activation::silu, x);
    case Gate::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Gate::expression:
      break;  // computes none
  }
  return x;
}

/// Acc sums products; Real is what the epilogue works in.
template <typename Acc, typename Real>
void naive_gemm_as(const Gemm& g, const Operands& in, const Faults& faults) {
  const DType of_bias = g.d.dtype == DType::fp64 ? DType::fp64 : DType::fp32;
  const DType bias_dtype = g.epilogue.bias_as_d ? g.d.dtype : of_bias;
  for (std::int64_t batch = 0; batch < g.batch; ++batch)
    for (std::int64_t i = 0; i < g.m; ++i)
      for (std::int64_t j = 0; j < g.n; ++j) {
        const std::int64_t at_d = batch * g.stride_d() + offset(g.d, g.ldd(), i, j);
        const std::int64_t at_c = batch * g.stride_c() + offset(g.c, g.ldc(), i, j);
        Real residual = 0;
        if (g.epilogue.residual) residual = load_element(g.d.dtype, in.residual, at_d);
        // Of one column of op(B), bias included.
        const auto column = [&](std::int64_t x) {
          Acc sum = 0;
          for (std::int64_t p = 0; p < g.k - faults.skip_last_k; ++p)
            sum += static_cast<Acc>(load_element(
                       g.a.dtype, in.a, batch * g.stride_a() + offset(g.a, g.lda(), i, p))) *
                   static_cast<Acc>(load_element(
                       g.b.dtype, in.b, batch * g.stride_b() + offset(g.b, g.ldb(), p, x)));
          Real bias = 0, v = Real(sum);
          if (g.epilogue.bias != Bias::none)
            bias = load_element(bias_dtype, in.bias, g.epilogue.bias == Bias::per_row ? i : x);
          if (in.alpha != 1.0 || faults.alpha_factor != 1.0)
            v *= Real(in.alpha * faults.alpha_factor);
          if (in.beta != 0.0 || (faults.always_reads_c && in.c))
            v += Real(in.beta) * Real(load_element(g.c.dtype, in.c, at_c));
          if (faults.residual_before_activation) v += residual;
          if (faults.activation_before_bias) v = naive_activation(g.epilogue.activation, v);
          return v + bias;
        };
        const bool stacked = !g.epilogue.gate || g.epilogue.gate->order == GateOrder::stacked;
        Real v = column(stacked ? j : 2 * j);
        if (g.epilogue.gate.has_value())
          v = naive_gate(g.epilogue.gate->function, v) * column(stacked ? g.n + j : 2 * j + 1);
        if (!faults.activation_before_bias && g.epilogue.activation != Activation::none)
          v = naive_activation(g.epilogue.activation, v);
        if (!faults.residual_before_activation && g.epilogue.residual) v += residual;
        double stored = v;
        if (faults.at_store) stored = faults.at_store(batch, i, j, stored);
        if (faults.wraps_instead_of_saturating)
          stored = static_cast<std::int8_t>(static_cast<std::int64_t>(std::nearbyint(stored)));
        if (faults.truncates_output)
          stored = bf16_to_float(std::bit_cast<std::uint32_t>(float(stored)) >> 16);
        store_element(g.d.dtype, in.d, at_d, stored);
      }
}

inline void naive_gemm(const Gemm& g, const Operands& in, const Faults& faults = {}) {
  if (g.accumulator == DType::fp64) return naive_gemm_as<double, double>(g, in, faults);
  if (g.accumulator == DType::fp32) return naive_gemm_as<float, float>(g, in, faults);
  // fp32 would not hold every integer sum that is only stored.
  const bool floats = in.alpha != 1.0 || in.beta != 0.0 || g.epilogue.bias != Bias::none ||
                      g.epilogue.residual || g.epilogue.activation != Activation::none ||
                      g.epilogue.gate.has_value();
  // Integers that whole factors make of integers are exact in double.
  const bool whole = g.d.dtype == DType::s32 && g.epilogue.bias == Bias::none &&
                     g.epilogue.activation <= Activation::relu &&
                     in.alpha == std::trunc(in.alpha) && in.beta == std::trunc(in.beta);
  return floats && !whole ? naive_gemm_as<std::int32_t, float>(g, in, faults)
                          : naive_gemm_as<std::int32_t, double>(g, in, faults);
}

}  // namespace kiln::test
