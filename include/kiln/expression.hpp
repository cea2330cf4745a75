/// @file
/// What follows a product, as a value: an expression of the product's elements and of further
/// operands, which says what is stored. Knows operands by their indices; knows no sizes, no kernel.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/dtype.hpp"
#include "kiln/error.hpp"
#include "kiln/export.h"

namespace kiln {

namespace expression {
struct Program;
}  // namespace expression

/// What one index of an expression's operand counts.
enum class Index : std::uint8_t {
  batch,  ///< products of a batch, or groups
  m,      ///< rows of D
  n       ///< columns of D
};

/// Most operands that an expression may name beside `acc` and `d`.
inline constexpr std::size_t kExtraOperands = 8;
/// Most of what an expression may store beside `d`.
inline constexpr std::size_t kExpressionOutputs = 4;

/// Memory that an expression reads, as `b[n]` or `r[m,n]:bf16:ld=4100` say.
struct ExtraOperand {
  std::string name;          ///< as the text has it
  std::vector<Index> index;  ///< slowest first: elements along the last one are adjacent; none: one
  /// Nothing: D's where it has both m and n and D has such a type, else fp32 (fp64 where D is
  /// fp64).
  std::optional<DType> dtype;
  std::int64_t ld = 0;  ///< elements between lines, where it has both m and n; 0: tight
  /// Neighbouring rows and columns of D that share an element: 2 of n in `c[m,n/2]`.
  std::int64_t per_m = 1, per_n = 1;
  /// `c[]:host`, of an operand without indices: a call reads it from the host's memory, as it reads
  /// alpha, and hands the value on; a captured graph keeps it. On CPUs all memory is the host's.
  bool host = false;
  /// Member by member, in order.
  bool operator==(const ExtraOperand&) const = default;
};

/// How values of many elements of D become one.
enum class Reduction : std::uint8_t {
  none,       ///< they do not: one for each element
  sum,        ///< 0 of no element
  max,        ///< NaN where one is; -infinity of no element
  min,        ///< NaN where one is; infinity of no element
  logsumexp,  ///< the logarithm of the sum of e^x; -infinity of no element
  even,       ///< of two neighbours the one whose index is even
  odd         ///< of two neighbours the one whose index is odd; the other where D ends before it
};

/// Memory that an expression stores to beside D: `y[m,n]:fp16` has an element for each of D,
/// `q[m]`, `s[n]` and `a[]` one for a row, for a column and for all, `s[m,n/128]` one for each 128
/// neighbours of a row.
struct ExtraOutput {
  ExtraOperand target;  ///< as the text has it; no type: as for operands
  /// Over the indices of m and n that the target lacks, and over those that share its elements;
  /// none: the value is stored as it is, of each element, or of each line where it is made of what
  /// is reduced.
  Reduction reduction = Reduction::none;
  /// Member by member, in order.
  bool operator==(const ExtraOutput&) const = default;
};

/// The functions of expressions by their names, which operands and values cannot have.
KILN_API std::vector<std::string_view> expression_functions();

/// A small program over one element of D, `d=gelu(acc+b[n])+r[m,n]`: statements with `;` between
/// them, each a name and an expression; the value of `d` is stored in D. `acc` is the element
/// of alpha * op(A) * op(B) + beta * C. Of a gate, whose op(B) has twice the columns of D, `acc0`
/// and `acc1` are the elements of alpha times both products, `d=silu(acc0)*acc1`: such an
/// expression is the gate's function (Gate::expression). Values are fp32, or fp64 where D is fp64.
///
/// An operand is a name with its indices, of `batch`, `m` and `n`, in the order of memory: `r[n,m]`
/// is column-major; of `c[m,n/2]` two neighbours of a row share an element. `:bf16` behind it gives
/// its type, `:ld=4100` its leading dimension, `:host` that one value lies in the host's memory. A
/// name without brackets is a value of an earlier statement; `m` and `n` are the element's indices.
/// A statement whose name has indices stores to further memory (ExtraOutput): one element for each
/// of D, or, where m, n or both are missing, what is made of sum(x), max(x), min(x) and
/// logsumexp(x) over them, `s[m]=max(abs(acc))/448`. Later statements read it, `d=acc/s[m]`, and
/// any statement may reduce, with the index of which there is one value each:
/// `d=exp(acc-logsumexp[m](acc))`; what is reduced may not be made of such values. Blocks of a
/// row's neighbours are reduced likewise, 2, 4, … or 128 of them, `s[m,n/128]=max(abs(acc))/448`;
/// these may be made of what whole rows, columns or all elements are reduced to. even(x) and odd(x)
/// are the values of both columns of a pair, pair(x,y) is x in even columns and y in odd ones:
/// where(n%2==0,x,y). Numbers are decimal. Operators are + - * / % (the remainder of whole numbers
/// from 0 to 2^24) and, in the first argument of where(), the comparisons < <= > >= == !=.
/// Functions are the rows of
/// expression::kFunctions: where(c,x,y) min max abs exp log tanh erf sqrt rsqrt sigmoid silu gelu
/// gelu_erf relu clamp(x,lo,hi) round (ties to even) random(seed,x,y): from 0 to 1, the same for
/// the same whole numbers up to 2^24 on every device, and some such number for others. Those of
/// expression::definitions() are written in the language: square sign expm1 log1p softplus
/// logsigmoid mish quick_gelu hardsigmoid hardswish relu6 leaky_relu(x,a) elu(x,a) selu softsign
/// softcap(x,c); text() has what they are made of. Casts, bf16(x) fp16(x) fp32(x) fp8_e4m3(x)
/// s8(x), round to the nearest value of the type, ties to even, by way of fp32, as a D of it is
/// stored: fp8_e4m3 and s8 saturate, and a NaN is 0 in s8 alone.
///
/// Beside groups `batch` counts the groups. Groups of rows share one D: what has the index m has a
/// row for each row of the product and no index batch, `m` is the product's row, and with rows by
/// index only D goes where they say. Masked groups and groups of k are as a batch. Rows of no group
/// are not written; what is added to rows of D is what the expression makes of each row. How many
/// rows a group of rows or a masked one has is not known before: outputs have the index m there,
/// and nothing is reduced along m.
///
/// A value: copies are cheap, and equal expressions compare equal whatever their operands and
/// values are called.
class KILN_API Expression {
 public:
  /// Nothing follows the product.
  constexpr Expression() = default;
  /// Errors: bad_input, naming the column of the text, or of text() where that is too long to be
  /// read again; unsupported (more than 32,768 expressions in
  /// one process, which keeps them).
  static Result<Expression> parse(std::string_view text);
  /// Whether nothing follows the product.
  constexpr bool empty() const { return program_ == nullptr; }
  /// The text that all equal expressions have: operands are x0, x1, … in the order in which they
  /// are met, values that are used twice t0, t1, …
  std::string_view text() const;
  /// In the order of Operands::extra, with the names that were parsed.
  std::span<const ExtraOperand> operands() const;
  /// What it stores beside D, in the order of Operands::outputs.
  std::span<const ExtraOutput> outputs() const;
  /// Whether it names acc0 or acc1, the products of a gate.
  bool of_gate() const;
  /// Whether D is stored: it may be absent where something else is. Operands::d is then not looked
  /// at.
  bool stores_d() const;

  /// The same with operands of other types, layouts and names: as many, each with the same indices
  /// in whatever order. Errors: bad_input (another number of operands, other indices, a type or ld
  /// that operands cannot have), unsupported (too many expressions in one process).
  Result<Expression> with_operands(std::span<const ExtraOperand> operands) const;
  /// The same with targets of other types, layouts and names, likewise.
  Result<Expression> with_outputs(std::span<const ExtraOperand> targets) const;

  friend bool operator==(const Expression& x, const Expression& y) { return x.id() == y.id(); }
  friend std::strong_ordering operator<=>(const Expression& x, const Expression& y) {
    return x == y ? std::strong_ordering::equal : x.text() <=> y.text();
  }

  /// @name For kiln's own code
  /// @{

  /// Of this process: equal for equal expressions, 0 for none.
  std::uint32_t id() const;
  /// The expression that has the number, if one has.
  static std::optional<Expression> of_id(std::int64_t id);
  const expression::Program* program() const { return program_; }
  explicit constexpr Expression(const expression::Program* program) : program_(program) {}
  /// @}

 private:
  const expression::Program* program_ = nullptr;  // of a table that is never destroyed
};

}  // namespace kiln
