// The supported element types, one row a pair of operands: read by the builders, the rules and the
// text form. Knows no layouts and no kernels.
#pragma once

#include <iterator>
#include <span>
#include <string_view>

#include "kiln/dtype.hpp"

namespace kiln {

struct TypeRow {
  std::string_view word;  // how a shape line names the pair
  DType a, b;
  DType accumulator;
  std::string_view outputs;  // space-separated; the first is the usual one

  constexpr DType usual_output() const { return *dtype_from(outputs.substr(0, outputs.find(' '))); }
  constexpr bool allows_output(DType t) const {
    for (std::string_view rest = outputs; !rest.empty();) {
      const std::size_t end = rest.find(' ');
      if (rest.substr(0, end) == name(t)) return true;
      rest = end == rest.npos ? std::string_view{} : rest.substr(end + 1);
    }
    return false;
  }
};

inline constexpr std::string_view kIntegerOutputs = "s32 fp32 s8 u8 bf16 fp16";

inline constexpr std::string_view kFp8Outputs = "bf16 fp16 fp32";

/// Those of a D with scales, of whatever operands.
inline constexpr std::string_view kQuantisedOutputs = "fp8_e4m3 s8";
constexpr bool holds_quantised(DType t) { return t == fp8_e4m3 || t == s8; }

/// Without scales e5m2·e5m2 is missing because no GPU library offers it either: there would be no
/// peer and no user. u8·u8 is missing on purpose: no x86 dot-product instruction takes two
/// unsigned operands.
inline constexpr TypeRow kAllTypeRows[] = {
    {"fp32", fp32, fp32, fp32, "fp32 bf16 fp16"},
    {"fp64", fp64, fp64, fp64, "fp64"},
    {"fp16", fp16, fp16, fp32, "fp16 bf16 fp32"},
    {"bf16", bf16, bf16, fp32, "bf16 fp16 fp32"},
    {"int8", s8, s8, s32, kIntegerOutputs},
    {"u8s8", u8, s8, s32, kIntegerOutputs},
    {"s8u8", s8, u8, s32, kIntegerOutputs},
    {"tf32", tf32, tf32, fp32, "fp32 bf16 fp16"},
    {"fp8", fp8_e4m3, fp8_e4m3, fp32, kFp8Outputs},
    {"e4m3e5m2", fp8_e4m3, fp8_e5m2, fp32, kFp8Outputs},
    {"e5m2e4m3", fp8_e5m2, fp8_e4m3, fp32, kFp8Outputs},
    {"fp8fnuz", fp8_e4m3fnuz, fp8_e4m3fnuz, fp32, kFp8Outputs},
    {"e4m3e5m2fnuz", fp8_e4m3fnuz, fp8_e5m2fnuz, fp32, kFp8Outputs},
    {"e5m2e4m3fnuz", fp8_e5m2fnuz, fp8_e4m3fnuz, fp32, kFp8Outputs},
    // From here on for operands with mx_32 scales alone; the OCP pairs above may have them too.
    {"e5m2", fp8_e5m2, fp8_e5m2, fp32, kFp8Outputs},
    {"fp6", fp6_e2m3, fp6_e2m3, fp32, kFp8Outputs},
    {"e3m2", fp6_e3m2, fp6_e3m2, fp32, kFp8Outputs},
    {"fp4", fp4_e2m1, fp4_e2m1, fp32, kFp8Outputs},
    {"e4m3e2m3", fp8_e4m3, fp6_e2m3, fp32, kFp8Outputs},
    {"e4m3e3m2", fp8_e4m3, fp6_e3m2, fp32, kFp8Outputs},
    {"e4m3e2m1", fp8_e4m3, fp4_e2m1, fp32, kFp8Outputs},
    {"e5m2e2m3", fp8_e5m2, fp6_e2m3, fp32, kFp8Outputs},
    {"e5m2e3m2", fp8_e5m2, fp6_e3m2, fp32, kFp8Outputs},
    {"e5m2e2m1", fp8_e5m2, fp4_e2m1, fp32, kFp8Outputs},
    {"e2m3e4m3", fp6_e2m3, fp8_e4m3, fp32, kFp8Outputs},
    {"e2m3e5m2", fp6_e2m3, fp8_e5m2, fp32, kFp8Outputs},
    {"e2m3e3m2", fp6_e2m3, fp6_e3m2, fp32, kFp8Outputs},
    {"e2m3e2m1", fp6_e2m3, fp4_e2m1, fp32, kFp8Outputs},
    {"e3m2e4m3", fp6_e3m2, fp8_e4m3, fp32, kFp8Outputs},
    {"e3m2e5m2", fp6_e3m2, fp8_e5m2, fp32, kFp8Outputs},
    {"e3m2e2m3", fp6_e3m2, fp6_e2m3, fp32, kFp8Outputs},
    {"e3m2e2m1", fp6_e3m2, fp4_e2m1, fp32, kFp8Outputs},
    {"e2m1e4m3", fp4_e2m1, fp8_e4m3, fp32, kFp8Outputs},
    {"e2m1e5m2", fp4_e2m1, fp8_e5m2, fp32, kFp8Outputs},
    {"e2m1e2m3", fp4_e2m1, fp6_e2m3, fp32, kFp8Outputs},
    {"e2m1e3m2", fp4_e2m1, fp6_e3m2, fp32, kFp8Outputs},
    // Weights: codes with scales, which are multiplied as numbers.
    {"bf16_int4", bf16, s4, fp32, "bf16 fp16 fp32"},
    {"bf16_uint4", bf16, u4, fp32, "bf16 fp16 fp32"},
    {"bf16_int8", bf16, s8, fp32, "bf16 fp16 fp32"},
    {"fp16_int4", fp16, s4, fp32, "fp16 bf16 fp32"},
    {"fp16_uint4", fp16, u4, fp32, "fp16 bf16 fp32"},
    {"fp16_int8", fp16, s8, fp32, "fp16 bf16 fp32"},
    {"bf16_fp8", bf16, fp8_e4m3, fp32, "bf16 fp16 fp32"},
    {"fp16_fp8", fp16, fp8_e4m3, fp32, "fp16 bf16 fp32"},
    {"bf16_fp4", bf16, fp4_e2m1, fp32, "bf16 fp16 fp32"},
    {"fp16_fp4", fp16, fp4_e2m1, fp32, "fp16 bf16 fp32"},
};

/// What else people call a type: C, BLAS, LLVM, NumPy and PyTorch do. Read, never written.
struct TypeAlias {
  std::string_view word;
  DType type;
};
inline constexpr TypeAlias kTypeAliases[] = {
    {"f32", fp32},      {"float", fp32},   {"float32", fp32}, {"single", fp32}, {"f64", fp64},
    {"double", fp64},   {"float64", fp64}, {"f16", fp16},     {"half", fp16},   {"float16", fp16},
    {"bfloat16", bf16}, {"i8", s8},        {"int8", s8},      {"uint8", u8},    {"int32", s32},
    {"i32", s32},       {"int4", s4},      {"uint4", u4}};

/// The type that a word in lower case names, or nothing.
constexpr std::optional<DType> dtype_called(std::string_view word) {
  for (const TypeAlias& row : kTypeAliases)
    if (row.word == word) return row.type;
  return dtype_from(word);
}

/// The pairs that need no scales, those that need mx_32 of both operands, and weights.
inline constexpr std::span<const TypeRow> kTypeRows{kAllTypeRows, 14};
inline constexpr std::span<const TypeRow> kMxTypeRows{kAllTypeRows + 14, 22};
inline constexpr std::span<const TypeRow> kWeightTypeRows{kAllTypeRows + 36, 10};
static_assert(std::size(kAllTypeRows) ==
              kTypeRows.size() + kMxTypeRows.size() + kWeightTypeRows.size());

/// The first rows are those that CPU kernels compute; the others need a GPU's matrix units.
inline constexpr std::span<const TypeRow> kCpuTypeRows{kAllTypeRows, 7};

/// The row of an operand pair, or null.
constexpr const TypeRow* type_row(DType a, DType b) {
  for (const TypeRow& row : kAllTypeRows)
    if (row.a == a && row.b == b) return &row;
  return nullptr;
}

/// Whether the pair is there for operands with mx_32 scales alone.
constexpr bool needs_mx(const TypeRow& row) {
  return &row >= kMxTypeRows.data() && &row < kWeightTypeRows.data();
}

/// What the codes of weights stand for.
struct CodeFormat {
  DType type;
  std::string_view kind;  // how they are decoded: the value `codes` of templates
  double first, last;     // the least number and the largest

  constexpr bool has_sign() const { return first < 0; }
  /// Whether a group may have a zero point: numbers are whole.
  constexpr bool has_zero_points() const { return kind == "integer"; }
};
inline constexpr CodeFormat kCodeFormats[] = {{s4, "integer", -8, 7},
                                              {u4, "integer", 0, 15},
                                              {s8, "integer", -128, 127},
                                              {fp8_e4m3, "e4m3", -448, 448},
                                              {fp4_e2m1, "e2m1", -6, 6}};

/// The format of a type that weights may have, or null.
constexpr const CodeFormat* code_format(DType type) {
  for (const CodeFormat& format : kCodeFormats)
    if (format.type == type) return &format;
  return nullptr;
}

/// Whether B holds weights: codes with scales, beside an A of 16 bits.
constexpr bool are_weights(DType a, DType b) {
  return (a == bf16 || a == fp16) && code_format(b) != nullptr;
}

/// True of the formats that microscaled blocks hold.
constexpr bool is_mx_element(DType t) {
  return t == fp8_e4m3 || t == fp8_e5m2 || t == fp6_e2m3 || t == fp6_e3m2 || t == fp4_e2m1;
}

/// The row that a single type stands for: its own pair, or u8·s8 for u8; null when there is none.
constexpr const TypeRow* default_types(DType t) {
  return t == u8 ? type_row(u8, s8) : type_row(t, t);
}

}  // namespace kiln
