// Every field of a Gemm, listed once: keys, columns, plan keys, the C structs, templates' values
// and tests walk this list. A field added to Gemm, Matrix or Epilogue stops this file from
// compiling.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <utility>

#include "kiln/gemm.hpp"

namespace kiln {

/// Names of an enum's values, in enum order.
template <typename E>
struct EnumNames;
template <>
struct EnumNames<DType> {
  static constexpr std::array<std::string_view, 17> names{
      "fp32",     "fp64",     "fp16", "bf16",         "s8",           "u8",       "s32",
      "fp8_e4m3", "fp8_e5m2", "tf32", "fp8_e4m3fnuz", "fp8_e5m2fnuz", "fp6_e2m3", "fp6_e3m2",
      "fp4_e2m1", "s4",       "u4"};
};
template <>
struct EnumNames<Order> {
  static constexpr std::array<std::string_view, 2> names{"row", "column"};
};
template <>
struct EnumNames<Activation> {
  static constexpr std::array<std::string_view, 5> names{"none", "relu", "gelu_tanh", "gelu_erf",
                                                         "silu"};
};
template <>
struct EnumNames<Gate> {
  static constexpr std::array<std::string_view, 6> names{"none",     "relu", "gelu_tanh",
                                                         "gelu_erf", "silu", "sigmoid"};
};
template <>
struct EnumNames<GateOrder> {
  static constexpr std::array<std::string_view, 2> names{"stacked", "interleaved"};
};
template <>
struct EnumNames<Bias> {
  static constexpr std::array<std::string_view, 3> names{"none", "per_row", "per_column"};
};
template <>
struct EnumNames<Scale> {
  static constexpr std::array<std::string_view, 8> names{
      "none", "line", "line_128", "square_128", "mx_32", "tensor", "line_32", "line_64"};
};
template <>
struct EnumNames<ScaleOrder> {
  static constexpr std::array<std::string_view, 3> names{"lines", "blocks", "blocks_4"};
};
template <>
struct EnumNames<Zero> {
  static constexpr std::array<std::string_view, 3> names{"none", "integer", "floating"};
};
template <>
struct EnumNames<Numerics> {
  static constexpr std::array<std::string_view, 3> names{"ieee", "fast", "tensor"};
};
template <>
struct EnumNames<Grouping> {
  static constexpr std::array<std::string_view, 5> names{"none", "rows", "masked", "k", "list"};
};
template <>
struct EnumNames<Gather> {
  static constexpr std::array<std::string_view, 2> names{"none", "rows"};
};
template <>
struct EnumNames<Scatter> {
  static constexpr std::array<std::string_view, 4> names{"none", "rows", "add", "weighted"};
};
/// Calls `f(name, field)` for every field of an Epilogue.
template <typename E, typename F>
constexpr void for_each_epilogue_field(E& epilogue, F&& f) {
  auto& [bias, activation, residual, bias_as_d, gate, gate_order] = epilogue;
  f(std::string_view("bias"), bias), f(std::string_view("activation"), activation);
  f(std::string_view("residual"), residual), f(std::string_view("bias_as_d"), bias_as_d);
  f(std::string_view("gate"), gate), f(std::string_view("gate_order"), gate_order);
}

/// References to every field of a Gemm (const or not), nested ones included.
template <typename G>
constexpr auto gemm_fields(G& gemm) {
  auto& [m, n, k, batch, a, b, c, d, accumulator, epilogue, alignment, b_packed, scale_a, scale_b,
         numerics, scale_type, zero, grouping, expected_rows, scale_d, zero_a, gather, scatter,
         rows_of_a, rows_of_d, amax_d, scale_order_a, scale_order_b] = gemm;
  auto& [bias, activation, residual, bias_as_d, gate, gate_order] = epilogue;
  const auto matrix = [](auto& x) {
    auto& [dtype, order, transposed, ld, batch_stride] = x;
    return std::tie(dtype, order, transposed, ld, batch_stride);
  };
  return std::tuple_cat(
      std::tie(m, n, k, batch), matrix(a), matrix(b), matrix(c), matrix(d),
      std::tie(accumulator, bias, activation, residual, alignment, b_packed, scale_a, scale_b,
               bias_as_d, numerics, gate, gate_order, scale_type, zero, grouping, expected_rows,
               scale_d, zero_a, gather, scatter, rows_of_a, rows_of_d, amax_d, scale_order_a,
               scale_order_b));
}
inline constexpr std::size_t kGemmFieldCount =
    std::tuple_size_v<decltype(gemm_fields(std::declval<Gemm&>()))>;

template <typename... Field>
constexpr std::size_t bytes_of_fields(const std::tuple<Field&...>*) {
  return (sizeof(Field) + ...);
}
/// Bytes of all fields, without padding.
inline constexpr std::size_t kGemmFieldBytes =
    bytes_of_fields(static_cast<decltype(gemm_fields(std::declval<Gemm&>()))*>(nullptr));

/// Their names, in the same order: columns of the database, words of keys.
inline constexpr std::array kGemmFieldNames = std::to_array<std::string_view>({"m",
                                                                               "n",
                                                                               "k",
                                                                               "batch",
                                                                               "a_dtype",
                                                                               "a_order",
                                                                               "a_transposed",
                                                                               "a_ld",
                                                                               "a_stride",
                                                                               "b_dtype",
                                                                               "b_order",
                                                                               "b_transposed",
                                                                               "b_ld",
                                                                               "b_stride",
                                                                               "c_dtype",
                                                                               "c_order",
                                                                               "c_transposed",
                                                                               "c_ld",
                                                                               "c_stride",
                                                                               "d_dtype",
                                                                               "d_order",
                                                                               "d_transposed",
                                                                               "d_ld",
                                                                               "d_stride",
                                                                               "accumulator",
                                                                               "bias",
                                                                               "activation",
                                                                               "residual",
                                                                               "alignment",
                                                                               "b_packed",
                                                                               "scale_a",
                                                                               "scale_b",
                                                                               "bias_as_d",
                                                                               "numerics",
                                                                               "gate",
                                                                               "gate_order",
                                                                               "scale_type",
                                                                               "zero",
                                                                               "grouping",
                                                                               "expected_rows",
                                                                               "scale_d",
                                                                               "zero_a",
                                                                               "gather",
                                                                               "scatter",
                                                                               "rows_of_a",
                                                                               "rows_of_d",
                                                                               "amax_d",
                                                                               "scale_order_a",
                                                                               "scale_order_b"});
static_assert(kGemmFieldNames.size() == kGemmFieldCount);

/// Calls `f(name, field)` for every field of a Gemm.
template <typename G, typename F>
constexpr void for_each_gemm_field(G& gemm, F&& f) {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>, const auto& fields) {
    (f(kGemmFieldNames[kIndex], std::get<kIndex>(fields)), ...);
  }
  (std::make_index_sequence<kGemmFieldCount>{}, gemm_fields(gemm));
}

/// Whether D = op(A) * op(B) is all that a call computes, up to alpha and beta * C: what other
/// libraries compute. A field that is not named here must have its default, a new one as well. A
/// packed B counts as plain: a library may read B as it was. So do all numerics: what keeps all of
/// the accumulator's type serves each.
inline bool is_plain_product(const Gemm& gemm) {
  Gemm plain;
  plain.m = gemm.m, plain.n = gemm.n, plain.k = gemm.k, plain.batch = gemm.batch;
  plain.a = gemm.a, plain.b = gemm.b, plain.c = gemm.c, plain.d = gemm.d;
  plain.accumulator = gemm.accumulator;
  plain.alignment = gemm.alignment;
  plain.b_packed = gemm.b_packed;
  plain.numerics = gemm.numerics;
  return gemm == plain;
}

}  // namespace kiln
