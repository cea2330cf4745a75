// Names of the values of the problem's enums: those of columns, keys and templates, and the words
// of a problem's text. Knows no fields.
#pragma once

#include <array>
#include <string_view>

#include "kiln/gemm.hpp"

namespace kiln {

/// Of an enum: `names` in order from 0, as columns, keys and templates have them, `words` where the
/// text of a problem has others, and `kWhat`, what errors call a value that does not exist.
template <typename E>
struct EnumNames;

template <>
struct EnumNames<DType> {
  static constexpr std::string_view kWhat = "type";
  static constexpr std::array<std::string_view, 17> names{
      "fp32",     "fp64",     "fp16", "bf16",         "s8",           "u8",       "s32",
      "fp8_e4m3", "fp8_e5m2", "tf32", "fp8_e4m3fnuz", "fp8_e5m2fnuz", "fp6_e2m3", "fp6_e3m2",
      "fp4_e2m1", "s4",       "u4"};
};
template <>
struct EnumNames<Order> {
  static constexpr std::string_view kWhat = "order";
  static constexpr std::array<std::string_view, 2> names{"row", "column"};
};
template <>
struct EnumNames<Activation> {
  static constexpr std::string_view kWhat = "activation";
  static constexpr std::array<std::string_view, 5> names{"none", "relu", "gelu_tanh", "gelu_erf",
                                                         "silu"};
  static constexpr std::array<std::string_view, 5> words{"none", "relu", "gelu", "gelu_erf",
                                                         "silu"};
};
template <>
struct EnumNames<Gate> {
  static constexpr std::string_view kWhat = "gate";
  static constexpr std::array<std::string_view, 7> names{"none", "relu",    "gelu_tanh", "gelu_erf",
                                                         "silu", "sigmoid", "expression"};
  static constexpr std::array<std::string_view, 7> words{"none", "relu",    "gelu",      "gelu_erf",
                                                         "silu", "sigmoid", "expression"};
};
template <>
struct EnumNames<GateOrder> {
  static constexpr std::string_view kWhat = "order of columns";
  static constexpr std::array<std::string_view, 2> names{"stacked", "interleaved"};
};
template <>
struct EnumNames<Bias> {
  static constexpr std::string_view kWhat = "bias";
  static constexpr std::array<std::string_view, 3> names{"none", "per_row", "per_column"};
  static constexpr std::array<std::string_view, 3> words{"none", "bias_row", "bias_col"};
};
template <>
struct EnumNames<Scale> {
  static constexpr std::string_view kWhat = "kind of scales";
  static constexpr std::array<std::string_view, 8> names{
      "none", "line", "line_128", "square_128", "mx_32", "tensor", "line_32", "line_64"};
  static constexpr std::array<std::string_view, 8> words{"none", "line",   "1x128", "128x128",
                                                         "mx32", "tensor", "1x32",  "1x64"};
};
template <>
struct EnumNames<ScaleOrder> {
  static constexpr std::string_view kWhat = "order of scales";
  static constexpr std::array<std::string_view, 3> names{"lines", "blocks", "blocks_4"};
};
template <>
struct EnumNames<Zero> {
  static constexpr std::string_view kWhat = "kind of zero points";
  static constexpr std::array<std::string_view, 5> names{"none", "integer", "floating", "line",
                                                         "tensor"};
  static constexpr std::array<std::string_view, 5> words{"none", "int", "float", "line", "tensor"};
};
template <>
struct EnumNames<Numerics> {
  static constexpr std::string_view kWhat = "kind of numerics";
  static constexpr std::array<std::string_view, 3> names{"ieee", "fast", "tensor"};
};
template <>
struct EnumNames<Grouping> {
  static constexpr std::string_view kWhat = "kind of groups";
  static constexpr std::array<std::string_view, 5> names{"none", "rows", "masked", "k", "list"};
};
template <>
struct EnumNames<Scatter> {
  static constexpr std::string_view kWhat = "kind of scatter";
  static constexpr std::array<std::string_view, 4> names{"none", "rows", "add", "weighted"};
};

/// The words of a problem's text.
template <typename E>
constexpr const auto& words_of() {
  if constexpr (requires { EnumNames<E>::words; })
    return EnumNames<E>::words;
  else
    return EnumNames<E>::names;
}

/// That of one value; of one that does not exist "?".
template <typename E>
constexpr std::string_view word_of(E value) {
  const auto index = static_cast<std::size_t>(value);
  return index < words_of<E>().size() ? words_of<E>()[index] : "?";
}

}  // namespace kiln
