// The operands of a call, listed once: whatever handles all of them loops over kOperands or calls
// for_each_operand. Every struct that holds their pointers (Operands, kiln_operands, KilnArgs,
// KilnGpuArgs) names its members alike, and bind_operands copies from one to another. Costs nothing
// at run time: the compiler unrolls every loop. Knows no problem.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

namespace kiln {

enum class Operand : std::uint8_t {
  a,
  b,
  c,
  d,
  bias,
  residual,
  scale_a,
  scale_b,
  zero_b,
  groups,
  scale_d,
  zero_a,
  column_sums_b,
  index_a,
  index_d,
  amax_d,
  row_weights,
  x0,  // what an expression reads
  x1,
  x2,
  x3,
  x4,
  x5,
  x6,
  x7,
  y0,  // what it stores beside D
  y1,
  y2,
  y3
};

/// What is the same for all problems.
struct OperandRow {
  Operand which;
  std::string_view name;  ///< of its pointer in Operands, KilnArgs and KilnGpuArgs
  Operand swapped;        ///< what it is in the problem that computes D transposed
  bool matrix = false;    ///< stored as a Matrix says, whose address Gemm::alignment divides
  bool term = false;      ///< added to the product: one value for each element of D
};

/// Of an expression: what it is the expression says (extra_of() in extent.h).
constexpr OperandRow extra_row(Operand which, std::string_view name) {
  return {.which = which, .name = name, .swapped = which, .term = true};
}

/// One row for each operand, in the order of the enum.
inline constexpr std::array kOperandRows{
    OperandRow{.which = Operand::a, .name = "a", .swapped = Operand::b, .matrix = true},
    OperandRow{.which = Operand::b, .name = "b", .swapped = Operand::a, .matrix = true},
    OperandRow{
        .which = Operand::c, .name = "c", .swapped = Operand::c, .matrix = true, .term = true},
    OperandRow{.which = Operand::d, .name = "d", .swapped = Operand::d, .matrix = true},
    OperandRow{.which = Operand::bias, .name = "bias", .swapped = Operand::bias, .term = true},
    OperandRow{.which = Operand::residual,
               .name = "residual",
               .swapped = Operand::residual,
               .matrix = true,
               .term = true},
    OperandRow{.which = Operand::scale_a, .name = "scale_a", .swapped = Operand::scale_b},
    OperandRow{.which = Operand::scale_b, .name = "scale_b", .swapped = Operand::scale_a},
    OperandRow{.which = Operand::zero_b, .name = "zero_b", .swapped = Operand::zero_b},
    OperandRow{.which = Operand::groups, .name = "groups", .swapped = Operand::groups},
    OperandRow{.which = Operand::scale_d, .name = "scale_d", .swapped = Operand::scale_d},
    OperandRow{.which = Operand::zero_a, .name = "zero_a", .swapped = Operand::zero_a},
    OperandRow{.which = Operand::column_sums_b,
               .name = "column_sums_b",
               .swapped = Operand::column_sums_b},
    OperandRow{.which = Operand::index_a, .name = "index_a", .swapped = Operand::index_a},
    OperandRow{.which = Operand::index_d, .name = "index_d", .swapped = Operand::index_d},
    OperandRow{.which = Operand::amax_d, .name = "amax_d", .swapped = Operand::amax_d},
    OperandRow{
        .which = Operand::row_weights, .name = "row_weights", .swapped = Operand::row_weights},
    extra_row(Operand::x0, "x0"),
    extra_row(Operand::x1, "x1"),
    extra_row(Operand::x2, "x2"),
    extra_row(Operand::x3, "x3"),
    extra_row(Operand::x4, "x4"),
    extra_row(Operand::x5, "x5"),
    extra_row(Operand::x6, "x6"),
    extra_row(Operand::x7, "x7"),
    OperandRow{.which = Operand::y0, .name = "y0", .swapped = Operand::y0},
    OperandRow{.which = Operand::y1, .name = "y1", .swapped = Operand::y1},
    OperandRow{.which = Operand::y2, .name = "y2", .swapped = Operand::y2},
    OperandRow{.which = Operand::y3, .name = "y3", .swapped = Operand::y3},
};
inline constexpr std::size_t kOperandCount = kOperandRows.size();

/// Whether it is one that an expression reads, or one that it stores.
constexpr bool is_extra(Operand which) { return which >= Operand::x0 && which < Operand::y0; }
constexpr bool is_extra_output(Operand which) { return which >= Operand::y0; }

constexpr std::size_t index_of(Operand which) { return static_cast<std::size_t>(which); }
constexpr const OperandRow& row_of(Operand which) { return kOperandRows[index_of(which)]; }
constexpr std::string_view name(Operand which) { return row_of(which).name; }
/// The place of one of an expression's among those that it reads, or stores.
constexpr std::size_t index_of_extra(Operand which) {
  return index_of(which) - index_of(is_extra(which) ? Operand::x0 : Operand::y0);
}

/// The one at that place.
constexpr Operand extra_operand(std::size_t place) {
  return static_cast<Operand>(index_of(Operand::x0) + place);
}
constexpr Operand extra_output(std::size_t place) {
  return static_cast<Operand>(index_of(Operand::y0) + place);
}

inline constexpr std::array<Operand, kOperandCount> kOperands = [] {
  std::array<Operand, kOperandCount> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Operand>(i);
  return all;
}();
static_assert([] {
  for (const Operand which : kOperands)
    if (row_of(which).which != which || row_of(row_of(which).swapped).swapped != which)
      return false;
  return true;
}());

/// The operands whose layouts are fields of the problem.
inline constexpr Operand kMatrices[] = {Operand::a, Operand::b, Operand::c, Operand::d};

/// The member of `pointers` for one operand. An operand without a line here does not compile.
template <Operand kWhich, typename Pointers>
constexpr auto& pointer(Pointers& pointers) {
  if constexpr (kWhich == Operand::a) {
    return pointers.a;
  } else if constexpr (kWhich == Operand::b) {
    return pointers.b;
  } else if constexpr (kWhich == Operand::c) {
    return pointers.c;
  } else if constexpr (kWhich == Operand::d) {
    return pointers.d;
  } else if constexpr (kWhich == Operand::bias) {
    return pointers.bias;
  } else if constexpr (kWhich == Operand::residual) {
    return pointers.residual;
  } else if constexpr (kWhich == Operand::scale_a) {
    return pointers.scale_a;
  } else if constexpr (kWhich == Operand::scale_b) {
    return pointers.scale_b;
  } else if constexpr (kWhich == Operand::zero_b) {
    return pointers.zero_b;
  } else if constexpr (kWhich == Operand::groups) {
    return pointers.groups;
  } else if constexpr (kWhich == Operand::scale_d) {
    return pointers.scale_d;
  } else if constexpr (kWhich == Operand::zero_a) {
    return pointers.zero_a;
  } else if constexpr (kWhich == Operand::column_sums_b) {
    return pointers.column_sums_b;
  } else if constexpr (kWhich == Operand::index_a) {
    return pointers.index_a;
  } else if constexpr (kWhich == Operand::index_d) {
    return pointers.index_d;
  } else if constexpr (kWhich == Operand::amax_d) {
    return pointers.amax_d;
  } else if constexpr (kWhich == Operand::row_weights) {
    return pointers.row_weights;
  } else if constexpr (is_extra(kWhich)) {
    return pointers.extra[index_of_extra(kWhich)];
  } else {
    static_assert(is_extra_output(kWhich));
    return pointers.outputs[index_of_extra(kWhich)];
  }
}

template <typename F, std::size_t... kIndex>
[[gnu::always_inline]] constexpr void for_each_operand(F&& f, std::index_sequence<kIndex...>) {
  (f(std::integral_constant<Operand, static_cast<Operand>(kIndex)>{}), ...);
}

/// Calls `f` once for each operand with a std::integral_constant, whose value is the Operand and a
/// constant expression.
template <typename F>
[[gnu::always_inline]] constexpr void for_each_operand(F&& f) {
  for_each_operand(std::forward<F>(f), std::make_index_sequence<kOperandCount>{});
}

/// The same member, for an operand that is known at run time only.
template <typename Pointers>
const void* pointer(const Pointers& pointers, Operand which) {
  const void* found = nullptr;
  for_each_operand([&](auto each) {
    if (which == each) found = pointer<each>(pointers);
  });
  return found;
}

/// Copies pointers, alpha and beta of a call from one struct to another. `swapped`: one of the two
/// is of a canonical problem that computes D transposed, where A and B change places, and so do
/// their scales.
template <typename To, typename From>
[[gnu::always_inline]] inline void bind_operands(To& to, const From& from, bool swapped) {
  for_each_operand([&](auto each) __attribute__((always_inline)) {
    constexpr Operand kOther = row_of(each).swapped;
    if constexpr (kOther == each)
      pointer<each>(to) = pointer<each>(from);
    else
      pointer<each>(to) = swapped ? pointer<kOther>(from) : pointer<each>(from);
  });
  to.alpha = from.alpha;
  to.beta = from.beta;
}

}  // namespace kiln
