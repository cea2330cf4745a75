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
  call      // a function or an operator
};

struct Value {
  Op op = Op::acc;
  std::uint8_t which = 0;            // the operand, the function (a row of kFunctions) or the Index
  double number = 0;                 //
  std::array<std::uint8_t, 3> of{};  // the function's arguments: earlier values
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
inline bool is_matrix(const ExtraOperand& operand) {
  return has_index(operand, Index::m) && has_index(operand, Index::n);
}
/// Whether operands may have elements of the type: what kernels of all families load.
constexpr bool is_operand_type(DType type) {
  return type == fp32 || type == fp64 || type == fp16 || type == bf16;
}

/// Whether its values are those of one row, of one column, or of all elements.
inline bool is_reduced(const ExtraOutput& output) { return output.reduction != Reduction::none; }
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

/// Whether some of what an expression stores is reduced.
inline bool reduces(const Expression& expression) {
  return std::ranges::any_of(expression.outputs(), is_reduced);
}

struct Program {
  std::vector<ExtraOperand> operands;  // in the order in which `values` meets them
  std::vector<Value> values;
  std::uint8_t d = 0;  // the value that D gets, where there is a D
  bool stores_d = true;
  std::vector<ExtraOutput> outputs;
  std::vector<std::uint8_t> results;  // the value of each output
  std::string text;                   // canonical
  std::uint32_t id = 0;

  bool uses(Op op) const;
  /// How many of the values, of D and of the outputs are made of each value.
  std::vector<int> uses() const;
};

/// Errors: bad_input, naming the column of the text.
Result<Program> parsed(std::string_view text);
/// Of a program without one.
std::string canonical_text(const Program& program);
/// Of D's transpose: the indices m and n are exchanged.
Expression transposed(const Expression& expression);

}  // namespace kiln::expression
