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
  acc,      // alpha * op(A) * op(B) + beta * C, or one of a gate's two products
  operand,  // an element of memory
  number,   //
  index,    // m or n, as a number
  call,     // a function or an operator
  reduced   // one value of a row's elements, of a column's, or of all
};

/// Which product an Op::acc is of.
enum class Product : std::uint8_t {
  one,    // the only one
  first,  // of a gate's two, those of the columns of op(B) that stand first
  second
};
constexpr std::string_view product_name(Product product) {
  constexpr std::array<std::string_view, 3> kNames{"acc", "acc0", "acc1"};
  return kNames.at(static_cast<std::size_t>(product));
}

/// How a value is reduced, and along what.
struct Line {
  Reduction how = Reduction::none;
  /// Neighbouring rows and columns of D that share a value, which lies in one line or block of
  /// both: 1: there is one for each of them; 0: one for all.
  std::int64_t m = 0, n = 0;
  bool operator==(const Line&) const = default;
  constexpr bool is_block() const { return m > 1 || n > 1; }
  /// Which of the values that lie along an index is that of the element.
  static constexpr std::int64_t place(std::int64_t shared, std::int64_t element) {
    return shared == 0 ? 0 : element / shared;
  }
  /// How many of them there are of so many elements.
  static constexpr std::int64_t count(std::int64_t shared, std::int64_t elements) {
    return shared == 0 ? 1 : (elements + shared - 1) / shared;
  }
};
/// Most neighbours that share what is reduced, where not all of a line do.
inline constexpr std::int64_t kLargestBlock = 128;

struct Value {
  Op op = Op::acc;
  std::uint8_t which = 0;  // the operand, the function (a row of kFunctions), Index or Product
  double number = 0;       //
  std::array<std::uint8_t, 3> of{};  // arguments, or what is reduced: earlier values
  Line line{};                       // of what is reduced
  bool operator==(const Value&) const = default;
};

constexpr std::string_view index_name(Index index) {
  constexpr std::array<std::string_view, 3> kNames{"batch", "m", "n"};
  return kNames.at(static_cast<std::size_t>(index));
}

/// Whether one of the indices is this one.
inline bool has_index(const ExtraOperand& operand, Index index) {
  return std::ranges::find(operand.index, index) != operand.index.end();
}
/// Whether it has lines of memory.
inline bool has_lines(const ExtraOperand& operand) {
  return has_index(operand, Index::m) && has_index(operand, Index::n);
}
/// Whether it has an element for each of D.
inline bool is_matrix(const ExtraOperand& operand) {
  return has_lines(operand) && operand.per_m == 1 && operand.per_n == 1;
}
/// Whether operands may have elements of the type: what kernels of all families load.
constexpr bool is_operand_type(DType type) {
  return type == fp32 || type == fp64 || type == fp16 || type == bf16;
}

/// Whether its values are those of one row, of one column, or of all elements.
inline bool is_reduced(const ExtraOutput& output) { return output.reduction != Reduction::none; }
/// Whether it has a value of a row, of a column, of a block or of all elements, reduced or made of
/// such.
inline bool is_line(const ExtraOutput& output) { return !is_matrix(output.target); }
/// What shares an element of it.
inline Line line_of(const ExtraOperand& memory, Reduction how = Reduction::none) {
  return {how, has_index(memory, Index::m) ? memory.per_m : 0,
          has_index(memory, Index::n) ? memory.per_n : 0};
}
/// The reduction that an output is.
inline Line line_of(const ExtraOutput& output) { return line_of(output.target, output.reduction); }
/// Whether it is one value of all elements of a batch.
inline bool reduces_all(const ExtraOutput& output) {
  return is_reduced(output) && !has_index(output.target, Index::m) &&
         !has_index(output.target, Index::n);
}
/// What a text calls a reduction; nothing for none.
constexpr std::string_view reduction_name(Reduction reduction) {
  constexpr std::array<std::string_view, 7> kNames{"",          "sum",  "max", "min",
                                                   "logsumexp", "even", "odd"};
  return kNames.at(static_cast<std::size_t>(reduction));
}

/// Which argument of a call an operand is: one of an expression's own, or that of a problem's
/// field.
enum class Argument : std::uint8_t { extra, bias, residual };

/// The elements' types, of all that it reads and of all that it stores.
struct ExtraTypes {
  std::vector<DType> operands, outputs;
};

inline constexpr std::size_t kMostValues = 96;
/// Most of them that are reduced and read.
inline constexpr std::size_t kMostReduced = 12;
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
  bool uses(Product product) const;
  /// Whether something that is stored is made of what is reduced: halves.h.
  bool reads_reduced() const { return uses(Op::reduced); }
  /// How many of the values, of D and of the outputs are made of each value.
  std::vector<int> uses() const;
};

/// Memory that has a value for each of these, row-major, without a name.
ExtraOperand memory_of(Line line);

/// How many earlier values it is made of.
int arity_of(const Value& value);

/// What a value is one of: along each index it changes from one element to the next (1), from one
/// block of elements to the next, or not at all (0); and whether it is made of what lines are
/// reduced to, and of what blocks are.
struct Spread {
  std::int64_t m = 0, n = 0;
  bool reduced = false, of_blocks = false;
  /// Whether elements that share a value of this line have the same.
  bool is_one_of(Line line) const {
    const auto fits = [](std::int64_t changes, std::int64_t shared) {
      return changes == 0 || (shared != 0 && changes % shared == 0);
    };
    return fits(m, line.m) && fits(n, line.n);
  }
};
std::vector<Spread> spreads_of(const Program& program);

/// Whether steps follow the product: some values are reduced.
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
/// The same for kernels whose D may be the value of each element that the half behind reads.
Expression of_product_in_d(const Expression& expression);
/// Whether kernels leave values of which steps reduce rows, columns or all.
inline bool reduces_lines(const Expression& expression) {
  const Expression product = of_product(expression);
  return std::ranges::any_of(product.outputs(), is_reduced);
}

/// Errors: bad_input, naming the column of the text.
Result<Program> parsed(std::string_view text);
/// Of a program without one.
std::string canonical_text(const Program& program);
/// Of D's transpose: the indices m and n are exchanged.
Expression transposed(const Expression& expression);

}  // namespace kiln::expression
