// What the files of an expression's code have in common: its values as the templates read them,
// loads, stores, and the members of a struct that hold its memory.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "generator/expression/code.h"
#include "generator/expression/functions.h"
#include "generator/expression/program.h"
#include "generator/expression/writer.h"

namespace kiln::expression {

using Files = std::map<std::string, std::string, std::less<>>;

/// What templates call the reductions.
inline constexpr std::array<std::string_view, 7> kReducers{
    "", "Sum", "Largest", "Smallest", "LogSumExp", "Even", "Odd"};

/// An index of memory of which neighbours share an element.
std::string divided(std::string_view index, std::int64_t shared);

/// A number of fp64, which without a point or an exponent would be an integer.
std::string digits_of(double x);

/// Whether a factor can stand for a division by it: it is a number, and no denormal.
inline bool has_reciprocal(const Value& divisor) {
  const double size = std::fabs(divisor.number);
  return divisor.op == Op::number && size > 1e-30 && size < 1e30;
}

/// As the templates read it.
struct CodeStyle {
  static constexpr bool kFuses = true;
  const Dialect& dialect;

  static std::string acc(Product product) { return std::string(product_name(product)); }
  std::string operand(std::size_t which) const {
    return fmt::format(fmt::runtime(dialect.operand), fmt::arg("x", fmt::format("x{}", which)));
  }
  std::string index(Index which) const {
    return std::string(which == Index::m ? dialect.m : dialect.n);
  }
  static Bound number(double x) {
    return {fmt::format("Value(Real({}))", digits_of(x)), kBindsAtom};
  }
  /// Exact divisions have branches on GPUs. A factor is off by as little, where it is no denormal.
  std::optional<Bound> reciprocal(double x) const {
    if (dialect.product.empty() || !has_reciprocal({.op = Op::number, .number = x}))
      return std::nullopt;
    return Bound{fmt::format("Value(Real(1.0 / {}))", digits_of(x)), kBindsAtom};
  }
  static Bound fused(std::string_view x, std::string_view y, std::string_view z) {
    return {fmt::format("fused({}, {}, {})", x, y, z), kBindsAtom};
  }
  std::string infix(const Function& f, std::string_view left, std::string_view right) const {
    if (!f.code.empty()) return fmt::format("{}({}, {})", f.code, left, right);
    if (f.course == Course::product && !dialect.product.empty())
      return fmt::format("{}({}, {})", dialect.product, left, right);
    if (f.course == Course::quotient && !dialect.quotient.empty())
      return fmt::format("{}({}, {})", dialect.quotient, left, right);
    return fmt::format("{} {} {}", left, f.infix, right);
  }
  static std::string call(const Function& f, const std::vector<Bound>& arguments) {
    if (f.name == kWhere)
      return fmt::format("({} ? {} : {})", arguments[0].text, arguments[1].text, arguments[2].text);
    std::string out = fmt::format("{}(", f.code);
    for (std::size_t i = 0; i < arguments.size(); ++i)
      out += fmt::format("{}{}", i > 0 ? ", " : "", arguments[i].text);
    return out + ')';
  }
  /// Of pairs: what has been fetched of the neighbour. Halves have none.
  static std::string reduced(Line, std::size_t number, std::string_view) {
    return fmt::format("x.r{}", number);
  }
  /// Compilers know the last bits of a column.
  std::optional<Bound> index_remainder(Index index, double x) const {
    const auto size = static_cast<std::int64_t>(x);
    if (dialect.last_bits_of_n.empty() || index != Index::n || !(x >= 1 && x <= 1 << 20) ||
        static_cast<double>(size) != x || (size & (size - 1)) != 0)
      return std::nullopt;
    return Bound{fmt::format(fmt::runtime(dialect.last_bits_of_n), fmt::arg("mask", size - 1)),
                 kBindsAtom};
  }
  static std::string statement(std::string_view name, std::string_view value) {
    return fmt::format("const Value {} = {};\n", name, value);
  }
};

/// Which argument of a call operand i is.
Argument argument_of(std::size_t i, const Dialect& dialect);

/// Of operand i, in a form of the dialect.
std::string of_operand(std::string_view form, std::size_t i);

/// What templates call the type of its elements.
std::string_view type_of_operand(const ExtraTypes& types, std::size_t i, const Dialect& dialect);

/// The name of its leading dimension.
std::string ld_of(std::size_t i, const Dialect& dialect);

/// The statement that loads operand i.
std::string load(const Program& program, std::size_t i, const Dialect& dialect);

/// Statements that load the operands.
std::string loads(const Program& program, const Dialect& dialect);

/// An included file has something in it.
std::string or_none(std::string lines);

/// Of output i, in a form of the dialect.
std::string of_output(std::string_view form, std::size_t i, std::string_view type,
                      const std::string& value, std::int64_t shared = 1);

/// Stores an output's value.
std::string store(const ExtraOutput& output, std::size_t i, std::string_view type,
                  const std::string& value, const Dialect& dialect);

/// An output's value that was left for later.
std::string left_value(std::size_t i, const Dialect& dialect);

/// Statements that name the elements of products.
std::string products(const Program& program, const Dialect& dialect);

/// Statements that name values, make v and store what else is stored.
std::string statements(const Program& program, const std::vector<DType>& types,
                       const Dialect& dialect);

/// Members of a struct `out`, and the statements that fill them.
struct Members {
  std::string members, pointers;
  void add(std::string_view type, std::string_view name, std::string_view from,
           const std::string& offset);
  void add_ld(std::string_view name, std::string_view from);
};

/// Whether values are made of the index m.
bool reads_m(const Program& program);

/// The row that makes the index m of the row that a kernel has.
void add_first_row(Members& to, bool reads, const Dialect& dialect);

/// Operand i, as the caller has it: an argument of its own, or that of a field.
void add_operand(Members& to, const ExtraOperand& operand, std::size_t i, std::string_view type,
                 const Dialect& dialect);

/// Output i, of elements of this type.
void add_output(Members& to, const ExtraOutput& output, std::size_t i, std::string_view type,
                const Dialect& dialect);

/// Of an expression whose kernels fetch what it reads of neighbours: what one of them shows to the
/// other, and how both take it, in one lane or in two.
Files code_of_pairs(const Program& whole, const Dialect& dialect);

/// What the step behind the reductions does with blocks of a line: their values, which it keeps,
/// and how these are reduced.
Files code_of_blocks(const Halves& halves, const Dialect& dialect);

/// The step behind the reductions; `in_d`: the kernel's D is what it reads of each element.
Files code_behind(const Halves& halves, bool in_d, const ExtraTypes& types, const Dialect& dialect);

}  // namespace kiln::expression
