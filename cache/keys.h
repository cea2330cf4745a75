// Every field of every key type, visited in one place: key text, typed columns and the tests all
// use these visitors, and for a problem the table of generator/problem/fields.h. A field added to a
// struct stops its visitor from compiling (the structured bindings no longer match), so that none
// can be forgotten. Knows no SQLite.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "cache/record.h"
#include "generator/problem/fields.h"
#include "generator/space/platform.h"
#include "kiln/range.hpp"

namespace kiln {

/// What a column holds.
using Value = std::variant<std::int64_t, double, std::string>;

template <>
struct EnumNames<Determinism> {
  static constexpr std::array<std::string_view, 3> names{"run_to_run", "any", "batch_invariant"};
};

template <>
struct EnumNames<TuningPolicy> {
  static constexpr std::array<std::string_view, 3> names{"cool", "sustained", "auto"};
};

template <>
struct EnumNames<Size> {
  static constexpr std::array<std::string_view, 3> names{"m", "n", "k"};
};
template <>
struct EnumNames<Round> {
  static constexpr std::array<std::string_view, 3> names{"screen", "second", "race"};
};
template <>
struct EnumNames<Failure::Kind> {
  static constexpr std::array<std::string_view, 7> names{
      "compile", "load", "crashed", "timed out", "wrong result", "out of bounds", "resources"};
};

template <typename T>
Value to_value(const T& field) {
  if constexpr (std::is_same_v<T, Value>) {
    return field;
  } else if constexpr (std::is_enum_v<T>) {
    return std::string(EnumNames<T>::names.at(static_cast<std::size_t>(field)));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(field);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<std::int64_t>(field);
  } else {
    return std::string(field);
  }
}

/// False when `value` is not one that `field` can hold: a wrong type, an unknown name, out of
/// range.
template <typename T>
bool from_value(const Value& value, T& field) {
  if constexpr (std::is_enum_v<T>) {
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) return false;
    const auto& names = EnumNames<T>::names;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] != *text) continue;
      field = static_cast<T>(i);
      return true;
    }
    return false;
  } else if constexpr (std::is_floating_point_v<T>) {
    const auto* number = std::get_if<double>(&value);
    if (number != nullptr) field = static_cast<T>(*number);
    return number != nullptr;
  } else if constexpr (std::is_integral_v<T>) {
    const auto* number = std::get_if<std::int64_t>(&value);
    if (number == nullptr || static_cast<std::int64_t>(static_cast<T>(*number)) != *number)
      return false;
    field = static_cast<T>(*number);
    return true;
  } else {
    const auto* text = std::get_if<std::string>(&value);
    if (text != nullptr) field = *text;
    return text != nullptr;
  }
}

inline Value to_value(const Vendor& vendor) { return std::string(vendor.name); }
inline bool from_value(const Value& value, Vendor& field) {
  const auto* text = std::get_if<std::string>(&value);
  const auto vendor = text == nullptr ? std::nullopt : vendor_named(*text);
  if (vendor) field = *vendor;
  return vendor.has_value();
}

/// Calls `f(name, field)` for every field of a DeviceCaps (const or not) but `core`, nested ones
/// included.
template <typename D, typename F>
void for_each_device_field(D& device, F&& f) {
  auto& [vendor, arch, model, cpu, gpu, compute_units, l1_bytes, l2_bytes, l3_bytes, ghz, core] =
      device;
  static_cast<void>(core);  // tells no devices apart
  f("vendor", vendor), f("arch", arch), f("model", model);
  auto& [avx2_fma, avx512, avx512_bf16, avx512_vnni, amx_bf16, amx_int8] = cpu;
  f("avx2_fma", avx2_fma), f("avx512", avx512), f("avx512_bf16", avx512_bf16);
  f("avx512_vnni", avx512_vnni), f("amx_bf16", amx_bf16), f("amx_int8", amx_int8);
  f("compute_units", compute_units);
  f("l1_bytes", l1_bytes), f("l2_bytes", l2_bytes), f("l3_bytes", l3_bytes), f("ghz", ghz);
  auto& [sm, arch_specific, wave, shared_block_bytes, shared_unit_bytes, registers_unit,
         threads_unit, threads_block, memory_bytes, memory_gbs, chiplets] = gpu;
  f("sm", sm), f("arch_specific", arch_specific), f("wave", wave);
  f("shared_block_bytes", shared_block_bytes), f("shared_unit_bytes", shared_unit_bytes);
  f("registers_unit", registers_unit), f("threads_unit", threads_unit);
  f("threads_block", threads_block), f("memory_bytes", memory_bytes), f("memory_gbs", memory_gbs);
  f("chiplets", chiplets);
}

/// The same for Validators.
template <typename V, typename F>
void for_each_validator_field(V& validators, F&& f) {
  auto& [template_hash, compiler, runtime] = validators;
  f("template_hash", template_hash), f("compiler", compiler), f("runtime", runtime);
}

/// The same for SearchExtent.
template <typename S, typename F>
void for_each_search_field(S& searched, F&& f) {
  auto& [seconds, budget_seconds, spent_seconds, measured, failed, enumerated, whole_space,
         interrupted] = searched;
  f("seconds", seconds), f("budget_seconds", budget_seconds), f("spent_seconds", spent_seconds);
  f("measured", measured), f("failed", failed), f("enumerated", enumerated);
  f("whole_space", whole_space), f("interrupted", interrupted);
}

/// Fields of a problem that databases of this version have stand in every key text. Those added
/// later are left out where they have their default, so that earlier keys, seals and proofs stay
/// what they are.
inline constexpr int kLastOfEveryKey = 8;

/// What the column of a field holds, an enumerator by its name.
Value column_value(const GemmField& field, std::int64_t value);
/// The way back; nothing where the field has no such value.
std::optional<std::int64_t> field_value(const GemmField& field, const Value& value);

/// The column of a field as SQL declares it, "numerics TEXT NOT NULL DEFAULT 'ieee'".
std::string column_text(const GemmField& field);
/// That it has its default in a result: "0 AS gather".
std::string default_column(const GemmField& field);

/// Key texts: one line, "field=value;…", every field that kLastOfEveryKey does not leave out.
std::string key_text(const Gemm& gemm);
std::string key_text(const DeviceCaps& device);
std::string key_text(const Validators& validators);
std::string key_text(const BestKey& key);

/// What two problems share when only their sizes, pitches and strides differ: dtypes, layouts,
/// epilogue, alignment, packing, scales. Nearest shapes are looked for within one class.
std::string class_text(const Gemm& gemm);
/// The key, and where its policy is that of cool races the same of races under load: their winners
/// serve other problems of the class alike.
std::vector<BestKey> keys_of_kernels(const BestKey& key);
/// The product alone, without the key's expression; nothing where it has none.
std::optional<BestKey> without_expression(const BestKey& key);

/// The same problem in its one spelling: lines that can be joined are (with_joined_lines()), a
/// pitch or stride that equals the tight one becomes 0, and so do strides of a single batch.
Gemm normalised(const Gemm& gemm);

}  // namespace kiln
