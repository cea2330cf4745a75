// Every field of a problem, a row each. Texts, keys, columns and their migrations, the C structs,
// plan keys, the values of templates, random problems and tests walk this table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "generator/problem/enum_names.h"
#include "kiln/gemm.hpp"
#include "kiln/kiln.h"

namespace kiln {

/// What a row says of a field beside where it is.
struct GemmFieldText {
  std::string_view name;  ///< its column, and its word in keys, in the C struct and in errors
  /// Of the database that has it first. A key has all fields of the first eight versions, of later
  /// ones those that do not have their default.
  int since;
  std::string_view key = {};   ///< in a problem's text; empty: gemm_text.cpp has a key for several
  std::string_view help = {};  ///< of that key: the words that it takes, "none|rows"
  std::string_view path = {};  ///< in errors, where it is not `name`
  /// What a problem must have for the field to have any value but its default.
  std::string_view needs = {};
  /// By which configs of families are refused that do not name the field in `offers` (taken.h);
  /// empty: every family takes it, or refuses some of its values by a feature.
  std::string_view rule = {};
};

/// One field, whose values are whole numbers: sizes, enumerators, flags.
struct GemmField : GemmFieldText {
  std::int64_t (*get)(const Gemm&);  ///< the default where the problem cannot say it
  bool (*set)(Gemm&, std::int64_t);  ///< false: the problem cannot say it, for it lacks `needs`
  std::int64_t (*get_c)(const kiln_gemm_desc&);
  void (*set_c)(kiln_gemm_desc&, std::int64_t);
  std::span<const std::string_view> names;  ///< of an enum's values; else empty
  std::span<const std::string_view> words;  ///< the same, of a problem's text
  std::string_view what;                    ///< a value that the enum has not is not such one
  /// Of values that are numbers of texts in this process: the text of one, and the number of one.
  std::string_view (*text_of)(std::int64_t) = nullptr;
  Result<std::int64_t> (*number_of)(std::string_view) = nullptr;
  std::size_t bytes;  ///< that hold every value
  bool flag;          ///< 0 or 1

  constexpr std::string_view called() const { return path.empty() ? name : path; }
};

/// The member that a chain of pointers to members leads to.
template <auto... kMembers>
struct At {
  static constexpr auto& of(auto& x) { return (x.*....*kMembers); }
};

/// A member of kiln_gemm_desc. Enumerators are read as numbers: a C caller may have set one that
/// does not exist, which is undefined as an enum.
template <typename InC>
constexpr void bind_c(GemmField& field) {
  field.get_c = [](const kiln_gemm_desc& desc) -> std::int64_t {
    const auto& member = InC::of(desc);
    if constexpr (sizeof member == sizeof(std::int64_t)) {
      return static_cast<std::int64_t>(member);
    } else {
      static_assert(sizeof member == sizeof(int));
      int value = 0;
      std::memcpy(&value, &member, sizeof value);
      return value;
    }
  };
  field.set_c = [](kiln_gemm_desc& desc, std::int64_t value) {
    auto& member = InC::of(desc);
    member = static_cast<std::remove_cvref_t<decltype(member)>>(value);
  };
}

/// The names of E, and room for its values.
template <typename E>
constexpr void bind_names(GemmField& field) {
  field.names = EnumNames<E>::names;
  field.words = words_of<E>();
  field.what = EnumNames<E>::kWhat;
  field.bytes = sizeof(E);
}

/// A member of Gemm and one of kiln_gemm_desc.
template <typename InGemm, typename InC>
constexpr GemmField field(const GemmFieldText& text) {
  using T = std::remove_cvref_t<decltype(InGemm::of(std::declval<Gemm&>()))>;
  GemmField row{};
  static_cast<GemmFieldText&>(row) = text;
  row.get = [](const Gemm& gemm) { return static_cast<std::int64_t>(InGemm::of(gemm)); };
  row.set = [](Gemm& gemm, std::int64_t value) {
    InGemm::of(gemm) = static_cast<T>(value);
    return true;
  };
  row.bytes = sizeof(T);
  row.flag = std::is_same_v<T, bool>;
  if constexpr (std::is_enum_v<T>) bind_names<T>(row);
  bind_c<InC>(row);
  return row;
}

/// What no single member of Gemm holds: `Access` has get() and set(), `E` is what it is a value of.
template <typename Access, typename E, typename InC>
constexpr GemmField field_by(const GemmFieldText& text) {
  GemmField row{};
  static_cast<GemmFieldText&>(row) = text;
  row.get = &Access::get;
  row.set = &Access::set;
  row.bytes = sizeof(E);
  if constexpr (std::is_enum_v<E>) bind_names<E>(row);
  bind_c<InC>(row);
  return row;
}

/// The groups of a problem, if they are of this kind; else null. Unlike std::get_if, of constants.
template <typename Kind, typename G>
constexpr auto* groups_as(G& gemm) {
  return std::holds_alternative<Kind>(gemm.groups) ? &std::get<Kind>(gemm.groups) : nullptr;
}

/// The value of an enum whose 0 stands for a part that is absent. A part that is there and has 0
/// has a value that does not exist, and is refused as such.
template <typename E>
constexpr std::int64_t value_of_part(E value) {
  return value == E{} ? std::ssize(EnumNames<E>::names) : static_cast<std::int64_t>(value);
}

struct GateFunction {
  static constexpr std::int64_t get(const Gemm& g) {
    return g.epilogue.gate ? value_of_part(g.epilogue.gate->function) : 0;
  }
  static constexpr bool set(Gemm& g, std::int64_t value) {
    if (value == 0)
      g.epilogue.gate.reset();
    else
      g.epilogue.gate = Gated{static_cast<Gate>(value)};
    return true;
  }
};

struct OrderOfGate {
  static constexpr std::int64_t get(const Gemm& g) {
    return g.epilogue.gate ? static_cast<std::int64_t>(g.epilogue.gate->order) : 0;
  }
  static constexpr bool set(Gemm& g, std::int64_t value) {
    if (!g.epilogue.gate) return value == 0;
    g.epilogue.gate->order = static_cast<GateOrder>(value);
    return true;
  }
};

/// Zero points of A, as the kind of scales that lie as they do; those of weights are not such a
/// kind.
struct ZeroOfA {
  static constexpr std::int64_t get(const Gemm& g) {
    if (g.a.q.zero == Zero::line) return static_cast<std::int64_t>(Scale::line);
    if (g.a.q.zero == Zero::tensor) return static_cast<std::int64_t>(Scale::tensor);
    return g.a.q.zero == Zero::none ? 0 : std::ssize(EnumNames<Scale>::names);
  }
  static constexpr bool set(Gemm& g, std::int64_t value) {
    const auto lies = static_cast<Scale>(value);
    g.a.q.zero = lies == Scale::line     ? Zero::line
                 : lies == Scale::tensor ? Zero::tensor
                                         : Zero::none;
    return lies == Scale::none || g.a.q.zero != Zero::none;
  }
};

struct KindOfGroups {
  static constexpr std::int64_t get(const Gemm& g) {
    return static_cast<std::int64_t>(g.groups.index());
  }
  static constexpr bool set(Gemm& g, std::int64_t value) {
    switch (static_cast<Grouping>(value)) {
      case Grouping::none:
        g.groups = Groups{};
        break;
      case Grouping::rows:
        g.groups = GroupsOfRows{};
        break;
      case Grouping::masked:
        g.groups = MaskedGroups{};
        break;
      case Grouping::k:
        g.groups = GroupsOfK{};
        break;
      case Grouping::list:
        g.groups = ProductList{};
        break;
    }
    return true;
  }
};

struct ExpectedRows {
  static constexpr std::int64_t get(const Gemm& g) {
    const auto* const masked = groups_as<MaskedGroups>(g);
    return masked != nullptr ? masked->expected_rows : 0;
  }
  static constexpr bool set(Gemm& g, std::int64_t value) {
    auto* const masked = groups_as<MaskedGroups>(g);
    if (masked != nullptr) masked->expected_rows = value;
    return masked != nullptr || value == 0;
  }
};

/// Gathered or Scattered, whether it is there.
template <auto kPart>
struct PartOfRows {
  static constexpr const auto* of(const Gemm& g) {
    const auto* const rows = groups_as<GroupsOfRows>(g);
    return rows != nullptr && (rows->*kPart) ? &*(rows->*kPart) : nullptr;
  }
  static constexpr auto* of(Gemm& g) {
    auto* const rows = groups_as<GroupsOfRows>(g);
    return rows != nullptr && (rows->*kPart) ? &*(rows->*kPart) : nullptr;
  }
};
using GatheredPart = PartOfRows<&GroupsOfRows::gather>;
using ScatteredPart = PartOfRows<&GroupsOfRows::scatter>;

struct WhetherGathered {
  static constexpr std::int64_t get(const Gemm& g) { return GatheredPart::of(g) != nullptr; }
  static constexpr bool set(Gemm& g, std::int64_t value) {
    auto* const rows = groups_as<GroupsOfRows>(g);
    if (rows == nullptr) return value == 0;
    rows->gather = value == 0 ? std::nullopt : std::optional(Gathered{});
    return true;
  }
};

struct HowScattered {
  static constexpr std::int64_t get(const Gemm& g) {
    const auto* const part = ScatteredPart::of(g);
    return part != nullptr ? value_of_part(part->how) : 0;
  }
  static constexpr bool set(Gemm& g, std::int64_t value) {
    auto* const rows = groups_as<GroupsOfRows>(g);
    if (rows == nullptr) return value == 0;
    rows->scatter =
        value == 0 ? std::nullopt : std::optional(Scattered{static_cast<Scatter>(value)});
    return true;
  }
};

/// How many rows there are to be indexed.
template <typename Part>
struct RowsOf {
  static constexpr std::int64_t get(const Gemm& g) {
    const auto* const part = Part::of(g);
    return part != nullptr ? part->rows : 0;
  }
  static constexpr bool set(Gemm& g, std::int64_t value) {
    auto* const part = Part::of(g);
    if (part != nullptr) part->rows = value;
    return part != nullptr || value == 0;
  }
};

struct NumberOfExpression {
  static constexpr std::int64_t get(const Gemm& g) {
    return g.epilogue.expression.empty() ? 0 : g.epilogue.expression.id();
  }
  static constexpr bool set(Gemm& g, std::int64_t value) {
    g.epilogue.expression = {};
    if (value == 0) return true;
    const std::optional<Expression> found = Expression::of_id(value);
    if (found) g.epilogue.expression = *found;
    return found.has_value();
  }
};

/// The row with texts in place of numbers.
constexpr GemmField with_texts(GemmField row, std::string_view what) {
  row.what = what;
  row.text_of = [](std::int64_t value) {
    const std::optional<Expression> found = Expression::of_id(value);
    return found ? found->text() : std::string_view("?");
  };
  row.number_of = [](std::string_view text) -> Result<std::int64_t> {
    if (text.empty()) return 0;
    return Expression::parse(text).map([](const Expression& x) { return std::int64_t{x.id()}; });
  };
  return row;
}

/// Values of the field `gather`, which C has an enum for.
enum class GatherKind : std::uint8_t { none, rows };
template <>
struct EnumNames<GatherKind> {
  static constexpr std::string_view kWhat = "kind of gather";
  static constexpr std::array<std::string_view, 2> names{"none", "rows"};
};

/// The row with the first `count` values alone.
constexpr GemmField first_values(GemmField row, std::size_t count) {
  row.names = row.names.first(count);
  row.words = row.words.first(count);
  return row;
}

/// The table. Columns and keys have its order, so a new field is a new last row. A field that
/// another one needs stands before it.
inline constexpr auto kGemmFields = [] {
  using G = Gemm;
  using C = kiln_gemm_desc;
  using M = Matrix;
  using K = kiln_matrix;
  using Q = Quantisation;
  using E = Epilogue;
  using S = ScaledMatrix;
  return std::array{
      field<At<&G::m>, At<&C::m>>({"m", 1}),
      field<At<&G::n>, At<&C::n>>({"n", 1}),
      field<At<&G::k>, At<&C::k>>({"k", 1}),
      field<At<&G::batch>, At<&C::batch>>({"batch", 1, "batch"}),
      field<At<&G::a, &M::dtype>, At<&C::a, &K::dtype>>({"a_dtype", 1, {}, {}, "a.dtype"}),
      field<At<&G::a, &M::order>, At<&C::a, &K::order>>({"a_order", 1, {}, {}, "a.order"}),
      field<At<&G::a, &M::transposed>, At<&C::a, &K::transposed>>({"a_transposed", 1}),
      field<At<&G::a, &M::ld>, At<&C::a, &K::ld>>({"a_ld", 1, "lda"}),
      field<At<&G::a, &M::batch_stride>, At<&C::a, &K::batch_stride>>({"a_stride", 1, "stride_a"}),
      field<At<&G::b, &M::dtype>, At<&C::b, &K::dtype>>({"b_dtype", 1, {}, {}, "b.dtype"}),
      field<At<&G::b, &M::order>, At<&C::b, &K::order>>({"b_order", 1, {}, {}, "b.order"}),
      field<At<&G::b, &M::transposed>, At<&C::b, &K::transposed>>({"b_transposed", 1}),
      field<At<&G::b, &M::ld>, At<&C::b, &K::ld>>({"b_ld", 1, "ldb"}),
      field<At<&G::b, &M::batch_stride>, At<&C::b, &K::batch_stride>>({"b_stride", 1, "stride_b"}),
      field<At<&G::c, &M::dtype>, At<&C::c, &K::dtype>>({"c_dtype", 1, {}, {}, "c.dtype"}),
      field<At<&G::c, &M::order>, At<&C::c, &K::order>>({"c_order", 1, {}, {}, "c.order"}),
      field<At<&G::c, &M::transposed>, At<&C::c, &K::transposed>>({"c_transposed", 1}),
      field<At<&G::c, &M::ld>, At<&C::c, &K::ld>>({"c_ld", 1, "ldc"}),
      field<At<&G::c, &M::batch_stride>, At<&C::c, &K::batch_stride>>({"c_stride", 1, "stride_c"}),
      field<At<&G::d, &M::dtype>, At<&C::d, &K::dtype>>({"d_dtype", 1, {}, {}, "d.dtype"}),
      field<At<&G::d, &M::order>, At<&C::d, &K::order>>({"d_order", 1, {}, {}, "d.order"}),
      field<At<&G::d, &M::transposed>, At<&C::d, &K::transposed>>({"d_transposed", 1}),
      field<At<&G::d, &M::ld>, At<&C::d, &K::ld>>({"d_ld", 1, "ldd"}),
      field<At<&G::d, &M::batch_stride>, At<&C::d, &K::batch_stride>>({"d_stride", 1, "stride_d"}),
      field<At<&G::accumulator>, At<&C::accumulator>>({"accumulator", 1, "acc"}),
      field<At<&G::epilogue, &E::bias>, At<&C::bias>>({"bias", 1, {}, {}, "epilogue.bias"}),
      field<At<&G::epilogue, &E::activation>, At<&C::activation>>(
          {"activation", 1, {}, {}, "epilogue.activation"}),
      field<At<&G::epilogue, &E::residual>, At<&C::residual>>(
          {"residual", 1, {}, {}, "epilogue.residual"}),
      field<At<&G::alignment>, At<&C::alignment>>({"alignment", 1, "align"}),
      field<At<&G::b_packed>, At<&C::b_packed>>({"b_packed", 1, "packed_b", "1"}),
      field<At<&G::a, &S::q, &Q::scale>, At<&C::scale_a>>({"scale_a", 3}),
      field<At<&G::b, &S::q, &Q::scale>, At<&C::scale_b>>({"scale_b", 3}),
      field<At<&G::epilogue, &E::bias_as_d>, At<&C::bias_as_d>>(
          {"bias_as_d", 8, {}, {}, "epilogue.bias_as_d"}),
      field<At<&G::numerics>, At<&C::numerics>>({"numerics", 9, "numerics", "ieee|fast|tensor"}),
      field_by<GateFunction, Gate, At<&C::gate>>({.name = "gate",
                                                  .since = 10,
                                                  .path = "epilogue.gate",
                                                  .rule = "the family computes gated products"}),
      field_by<OrderOfGate, GateOrder, At<&C::gate_order>>(
          {"gate_order", 10, {}, {}, "epilogue.gate_order", "a gate"}),
      field<At<&G::b, &S::q, &Q::type>, At<&C::scale_type>>({"scale_type", 10, "scale_type"}),
      first_values(
          field<At<&G::b, &S::q, &Q::zero>, At<&C::zero>>({"zero", 10, "zero", "none|int|float"}),
          3),
      field_by<KindOfGroups, Grouping, At<&C::grouping>>(
          {"grouping", 11, "grouped", "rows|masked|k|list"}),
      field_by<ExpectedRows, std::int64_t, At<&C::expected_rows>>(
          {"expected_rows", 12, "expected_rows", {}, {}, "masked groups"}),
      field<At<&G::d, &S::q, &Q::scale>, At<&C::scale_d>>(
          {"scale_d", 14, "scale_d", "none|tensor|line|1x128"}),
      field_by<ZeroOfA, Scale, At<&C::zero_a>>({"zero_a", 15, "zero_a", "none|line|tensor"}),
      field_by<WhetherGathered, GatherKind, At<&C::gather>>(
          {"gather", 15, "gather", "none|rows", {}, "groups of rows"}),
      field_by<HowScattered, Scatter, At<&C::scatter>>(
          {"scatter", 15, "scatter", "none|rows|add|weighted", {}, "groups of rows"}),
      field_by<RowsOf<GatheredPart>, std::int64_t, At<&C::rows_of_a>>(
          {"rows_of_a", 15, "rows_of_a", {}, {}, "a list of rows"}),
      field_by<RowsOf<ScatteredPart>, std::int64_t, At<&C::rows_of_d>>(
          {"rows_of_d", 15, "rows_of_d", {}, {}, "a list of rows"}),
      field<At<&G::amax_d>, At<&C::amax_d>>(
          {.name = "amax_d",
           .since = 16,
           .key = "amax",
           .help = "1",
           .rule = "the family finds the largest magnitude of D"}),
      field<At<&G::a, &S::q, &Q::order>, At<&C::scale_order_a>>({"scale_order_a", 18}),
      field<At<&G::b, &S::q, &Q::order>, At<&C::scale_order_b>>({"scale_order_b", 18}),
      with_texts(field_by<NumberOfExpression, std::uint32_t, At<&C::expression>>(
                     {.name = "expression",
                      .since = 19,
                      .path = "epilogue.expression",
                      .rule = "the family computes expressions"}),
                 "expression"),
  };
}();
inline constexpr std::size_t kGemmFieldCount = kGemmFields.size();

/// A member that these structs get does not compile here: it needs a row above.
constexpr void all_have_rows(const Gemm& gemm, const kiln_gemm_desc& desc) {
  [[maybe_unused]] const auto& [m, n, k, batch, a, b, c, d, accumulator, epilogue, groups,
                                alignment, b_packed, numerics, amax_d] = gemm;
  [[maybe_unused]] const auto& [bias, activation, residual, bias_as_d, gate, expression] = epilogue;
  [[maybe_unused]] const auto& [function, order_of_gate] = *gate;
  [[maybe_unused]] const auto& [dtype, order, transposed, ld, batch_stride] = c;
  [[maybe_unused]] const auto& [scale, order_of_scales, type, zero] = a.q;
  [[maybe_unused]] const auto& [gather, scatter] = std::get<GroupsOfRows>(groups);
  [[maybe_unused]] const auto& [rows] = *gather;
  [[maybe_unused]] const auto& [how, rows_of_d] = *scatter;
  [[maybe_unused]] const auto& [expected_rows] = std::get<MaskedGroups>(groups);
  static_assert(std::is_empty_v<GroupsOfK> && std::is_empty_v<ProductList>);
  [[maybe_unused]] const auto& [c_size, c_m, c_n, c_k, c_batch, c_a, c_b, c_c, c_d, c_accumulator,
                                c_bias, c_activation, c_residual, c_alignment, c_b_packed,
                                c_scale_a, c_scale_b, c_bias_as_d, c_numerics, c_gate, c_gate_order,
                                c_scale_type, c_zero, c_grouping, c_expected_rows, c_scale_d,
                                c_zero_a, c_gather, c_scatter, c_rows_of_a, c_rows_of_d, c_amax_d,
                                c_scale_order_a, c_scale_order_b, c_expression] = desc;
}

/// Whether kernels that take any epilogue are told the field at a call. Gates and expressions are
/// constants of all code that has them.
constexpr bool told_at_calls(const GemmField& field) {
  return field.path.starts_with("epilogue.") && !field.path.starts_with("epilogue.gate") &&
         field.path != "epilogue.expression";
}

/// What a quantisation can say that no problem has: check_enumerators() refuses it.
struct Unsaid {
  std::string_view path;
  std::int64_t (*get)(const Gemm&);
};
inline constexpr std::array kUnsaid{
    Unsaid{"a.q.type", [](const Gemm& g) { return static_cast<std::int64_t>(g.a.q.type); }},
    Unsaid{"d.q.order", [](const Gemm& g) { return static_cast<std::int64_t>(g.d.q.order); }},
    Unsaid{"d.q.type", [](const Gemm& g) { return static_cast<std::int64_t>(g.d.q.type); }},
    Unsaid{"d.q.zero", [](const Gemm& g) { return static_cast<std::int64_t>(g.d.q.zero); }},
};

/// Bytes of all fields, without padding.
inline constexpr std::size_t kGemmFieldBytes = [] {
  std::size_t all = 0;
  for (const GemmField& each : kGemmFields) all += each.bytes;
  return all;
}();

/// The place of a field in the table. A name that is none does not compile.
consteval std::size_t field_index(std::string_view name) {
  std::size_t index = 0;
  while (kGemmFields.at(index).name != name) ++index;
  return index;
}

/// Calls `f(field)` for every field with a std::integral_constant, the index of its row, so that
/// the compiler sees through the row's functions.
template <typename F>
[[gnu::always_inline]] constexpr void for_each_gemm_field(F&& f) {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) __attribute__((always_inline)) {
    (f(std::integral_constant<std::size_t, kIndex>{}), ...);
  }
  (std::make_index_sequence<kGemmFieldCount>{});
}

/// A problem as numbers, one for each field, in the order of the table: what texts, rows and
/// structs are read into. They may say what no problem can.
using FieldValues = std::array<std::int64_t, kGemmFieldCount>;
FieldValues values_of(const Gemm& gemm);
/// The values of a fresh Gemm.
const FieldValues& default_values();
/// The problem that has these values, which need not be valid. Errors: bad_input (an enumerator
/// that does not exist, a value that lacks what it needs), naming the field.
Result<Gemm> gemm_of(const FieldValues& values);
/// `value` as errors say it: an enumerator's word, "true" or "false", or a number.
std::string value_text(const GemmField& field, std::int64_t value);

/// The words of a line between any of these separators.
std::vector<std::string_view> split_words(std::string_view line, std::string_view separators);
/// "ieee|fast|tensor" as "ieee, fast or tensor".
std::string choices(std::string_view words);

/// Whether D = op(A) * op(B) is all that a call computes, up to alpha and beta * C: what other
/// libraries compute. A field that is not named there must have its default, a new one as well. A
/// packed B counts as plain: a library may read B as it was. So do all numerics: what keeps all of
/// the accumulator's type serves each.
bool is_plain_product(const Gemm& gemm);

}  // namespace kiln
