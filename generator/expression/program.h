// An expression as it is computed: values in an order in which each comes behind what it is made
// of, none twice. Programs lie in a table of the process, one for each canonical text.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kiln/expression.hpp"

namespace kiln::expression {

enum class Op : std::uint8_t {
  acc,      // alpha * op(A) * op(B) + beta * C
  operand,  // an element of memory
  number,   //
  index,    // m or n, as a number
  call,     // a function or an operator
  reduced   // one value of a row's elements, of a column's, or of all
};

struct Value {
  Op op = Op::acc;
  std::uint8_t which = 0;  // the operand, the function (a row of kFunctions), the Index or the Line
  double number = 0;       //
  std::array<std::uint8_t, 3> of{};  // arguments, or what is reduced: earlier values
  bool operator==(const Value&) const = default;
};

/// How a value is reduced, and along what: what Value::which says of Op::reduced.
struct Line {
  Reduction how = Reduction::sum;
  bool m = false, n = false;  // whether there is one for each row, for each column
  bool operator==(const Line&) const = default;
  constexpr std::uint8_t code() const {
    return static_cast<std::uint8_t>(static_cast<int>(how) * 4 + (m ? 1 : 0) + (n ? 2 : 0));
  }
  static constexpr Line of(std::uint8_t code) {
    return {static_cast<Reduction>(code / 4), (code & 1) != 0, (code & 2) != 0};
  }
};

constexpr std::string_view index_name(Index index) {
  constexpr std::array<std::string_view, 3> kNames{"batch", "m", "n"};
  return kNames.at(static_cast<std::size_t>(index));
}

/// Whether one of the indices is this one.
inline bool has_index(const ExtraOperand& operand, Index index) {
  return std::ranges::find(operand.index, index) != operand.index.end();
}
inline bool is_matrix(const ExtraOperand& operand) {
  return has_index(operand, Index::m) && has_index(operand, Index::n);
}
/// Whether operands may have elements of the type: what kernels of all families load.
constexpr bool is_operand_type(DType type) {
  return type == fp32 || type == fp64 || type == fp16 || type == bf16;
}

/// Whether its values are those of one row, of one column, or of all elements.
inline bool is_reduced(const ExtraOutput& output) { return output.reduction != Reduction::none; }
/// Whether it has a value of a row, of a column or of all elements, reduced or made of such.
inline bool is_line(const ExtraOutput& output) { return !is_matrix(output.target); }
/// The reduction that an output is.
inline Line line_of(const ExtraOutput& output) {
  return {output.reduction, has_index(output.target, Index::m), has_index(output.target, Index::n)};
}
/// Whether it is one value of all elements of a batch.
inline bool reduces_all(const ExtraOutput& output) {
  return is_reduced(output) && !has_index(output.target, Index::m) &&
         !has_index(output.target, Index::n);
}
/// What a text calls a reduction; nothing for none.
constexpr std::string_view reduction_name(Reduction reduction) {
  constexpr std::array<std::string_view, 5> kNames{"", "sum", "max", "min", "logsumexp"};
  return kNames.at(static_cast<std::size_t>(reduction));
}

/// The elements' types, of all that it reads and of all that it stores.
struct ExtraTypes {
  std::vector<DType> operands, outputs;
};

inline constexpr std::size_t kMostValues = 96;
inline constexpr std::size_t kLongestText = 1024;

struct Halves;
/// Of Program::results: what a half does not store.
inline constexpr std::uint8_t kNotStored = 255;

struct Program {
  std::vector<ExtraOperand> operands;  // in the order in which `values` meets them
  std::vector<Value> values;
  std::uint8_t d = 0;  // the value that D gets, where there is a D
  bool stores_d = true;
  std::vector<ExtraOutput> outputs;
  std::vector<std::uint8_t> results;  // the value of each output
  std::string text;                   // canonical
  std::uint32_t id = 0;
  const Halves* halves = nullptr;   // of one that reads what it reduces
  const Halves* half_of = nullptr;  // of what kernels compute of such a one: its halves

  bool uses(Op op) const;
  /// Whether something that is stored is made of what is reduced: halves.h.
  bool reads_reduced() const { return uses(Op::reduced); }
  /// How many of the values, of D and of the outputs are made of each value.
  std::vector<int> uses() const;
};

/// How many earlier values it is made of.
int arity_of(const Value& value);

/// What a value is one of: an element, a row, a column, or all of D; and whether it is made of what
/// is reduced.
struct Spread {
  bool m = false, n = false, reduced = false;
};
std::vector<Spread> spreads_of(const Program& program);

/// Whether some values are reduced.
inline bool reduces(const Expression& expression) {
  return std::ranges::any_of(expression.outputs(), is_reduced) ||
         (!expression.empty() && expression.program()->halves != nullptr);
}
/// Both halves of one that reads what it reduces, else null.
inline const Halves* halves_in(const Expression& expression) {
  return expression.empty() ? nullptr : expression.program()->halves;
}
/// What kernels compute: all of it, or the half before the reductions.
Expression of_product(const Expression& expression);

/// Errors: bad_input, naming the column of the text.
Result<Program> parsed(std::string_view text);
/// Of a program without one.
std::string canonical_text(const Program& program);
/// Of D's transpose: the indices m and n are exchanged.
Expression transposed(const Expression& expression);

}  // namespace kiln::expression
