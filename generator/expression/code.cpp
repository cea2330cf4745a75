#include "generator/expression/code.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "generator/expression/functions.h"
#include "generator/expression/writer.h"

namespace kiln::expression {
namespace {

/// The load that an operand's indices ask for.
std::string_view load_of(const ExtraOperand& operand, const Dialect& dialect) {
  if (is_matrix(operand)) return operand.index.back() == Index::n ? dialect.rows : dialect.columns;
  if (has_index(operand, Index::n)) return dialect.along_n;
  return has_index(operand, Index::m) ? dialect.along_m : dialect.one;
}

/// A number of fp64, which without a point or an exponent would be an integer.
std::string digits_of(double x) {
  std::string digits = fmt::format("{}", x);
  if (digits.find_first_of(".e") == digits.npos) digits += ".0";
  return digits;
}

/// As the templates read it.
struct CodeStyle {
  const Dialect& dialect;

  static std::string acc() { return "acc"; }
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
    const double size = std::fabs(x);
    if (dialect.product.empty() || !(size > 1e-30 && size < 1e30)) return std::nullopt;
    return Bound{fmt::format("Value(Real(1.0 / {}))", digits_of(x)), kBindsAtom};
  }
  std::string infix(const Function& f, std::string_view left, std::string_view right) const {
    if (f.course == Course::product && !dialect.product.empty())
      return fmt::format("{}({}, {})", dialect.product, left, right);
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
  static std::string statement(std::string_view name, std::string_view value) {
    return fmt::format("const Value {} = {};\n", name, value);
  }
};

/// Statements that load the operands.
std::string loads(const Program& program, const Dialect& dialect) {
  std::string out;
  for (std::size_t i = 0; i < program.operands.size(); ++i) {
    const std::string x = fmt::format("x{}", i), ld = fmt::format("ld{}", i);
    out +=
        fmt::format("{} = {};\n", fmt::format(fmt::runtime(dialect.definition), fmt::arg("x", x)),
                    fmt::format(fmt::runtime(load_of(program.operands[i], dialect)),
                                fmt::arg("x", x), fmt::arg("ld", ld)));
  }
  return out;
}

/// Statements that name values and make v.
std::string statements(const Program& program, const Dialect& dialect) {
  std::string out;
  if (program.uses(Op::acc)) out += "const Value acc = v;\n";
  Writer writer(program, CodeStyle{dialect});
  out += writer.named_values();
  return out + fmt::format("v = {};\n", writer.result());
}

}  // namespace

void add_values(TemplateValues& to, const Expression& expression) {
  for (int i = 0; i < kFunctionCount; ++i) to[fmt::format("uses_{}", kFunctions[i].name)] = "0";
  to["expression"] = expression.text();
  if (expression.empty()) return;
  for (const auto& value : expression.program()->values)
    if (value.op == Op::call) to[fmt::format("uses_{}", kFunctions[value.which].name)] = "1";
}

bool uses_exponential(const Expression& expression) {
  if (expression.empty()) return false;
  return std::ranges::any_of(expression.program()->values, [](const Value& value) {
    return value.op == Op::call && kFunctions[value.which].exponential;
  });
}

std::map<std::string, std::string, std::less<>> code_of(const Expression& expression,
                                                        const std::vector<DType>& types,
                                                        const Dialect& dialect) {
  if (expression.empty()) return {};
  const Program& program = *expression.program();
  std::string members, pointers, fields;
  for (std::size_t i = 0; i < program.operands.size(); ++i) {
    const ExtraOperand& operand = program.operands[i];
    const std::string_view type = dialect.type(types[i]);
    const std::string batch = has_index(operand, Index::batch)
                                  ? fmt::format(" + batch * args.extra_stride[{}]", i)
                                  : std::string();
    members += fmt::format("const {}* x{};\n", type, i);
    fields += fmt::format("Real x{};\n", i);
    pointers +=
        fmt::format("out.x{0} = static_cast<const {1}*>(args.extra[{0}]){2};\n", i, type, batch);
    if (!is_matrix(operand)) continue;
    members += fmt::format("i64 ld{};\n", i);
    pointers += fmt::format("out.ld{0} = args.extra_ld[{0}];\n", i);
  }
  // An included file has something in it.
  const auto or_none = [](std::string lines) {
    return lines.empty() ? std::string("// The expression has no operands.\n") : lines;
  };
  return {{"expression/members", or_none(members)},
          {"expression/pointers", or_none(pointers)},
          {"expression/fields", or_none(fields)},
          {"expression/loads", or_none(loads(program, dialect))},
          {"expression/values", statements(program, dialect)}};
}

}  // namespace kiln::expression
