// An expression as the lines of a template that compute it. Knows the names that templates/*/common
// give to loads and functions; knows no family.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "generator/expression/program.h"
#include "generator/space/template_values.h"

namespace kiln::expression {

/// What a vendor's templates call the parts of an element.
struct Dialect {
  std::string_view (*type)(DType);  // of an operand's elements
  /// The name of an operand's value {x}, and its definition: "x.{x}".
  std::string_view operand, definition;
  /// The load of an operand: {x} is its name, {ld} its leading dimension's.
  std::string_view one, along_m, along_n, rows, columns;
  std::string_view m, n;  // the indices as values
  /// A function that multiplies, where a product with an operator could be fused with an addition
  /// in one kernel and not in another.
  std::string_view product = {};
};

/// Which functions the templates must define: `uses_<name>` for each row of kFunctions, and
/// `expression`, the canonical text.
void add_values(TemplateValues& to, const Expression& expression);

/// Whether one of the functions is made of e^x.
bool uses_exponential(const Expression& expression);

/// The files that templates include where an expression is, with `expression/` before their names:
/// `members` of Output, `pointers` that fill them, `fields` for the values of operands, `loads` of
/// them, and `values`, which make v from v. `types`: of the operands. Nothing where there is no
/// expression.
std::map<std::string, std::string, std::less<>> code_of(const Expression& expression,
                                                        const std::vector<DType>& types,
                                                        const Dialect& dialect);

}  // namespace kiln::expression
