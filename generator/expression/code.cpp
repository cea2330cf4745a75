#include "generator/expression/code.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "generator/expression/functions.h"
#include "generator/expression/writer.h"

namespace kiln::expression {
namespace {

/// What templates call the reductions.
constexpr std::array<std::string_view, 5> kReducers{"", "Sum", "Largest", "Smallest", "LogSumExp"};

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

/// Stores an output's value.
std::string store(const ExtraOutput& output, std::size_t i, std::string_view type,
                  const std::string& value, const Dialect& dialect) {
  const std::string_view form = is_reduced(output)                       ? dialect.store_value
                                : output.target.index.back() == Index::n ? dialect.store_rows
                                                                         : dialect.store_columns;
  return fmt::format(fmt::runtime(form), fmt::arg("x", fmt::format("y{}", i)),
                     fmt::arg("ld", fmt::format("ldy{}", i)), fmt::arg("type", type),
                     fmt::arg("value", value)) +
         "\n";
}

/// Statements that name values, make v and store what else is stored.
std::string statements(const Program& program, const std::vector<DType>& types,
                       const Dialect& dialect) {
  std::string out;
  if (program.uses(Op::acc)) out += "const Value acc = v;\n";
  Writer writer(program, CodeStyle{dialect});
  out += writer.named_values();
  out += fmt::format("v = {};\n", writer.result());
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    out += store(program.outputs[i], i, dialect.type(types[i]), writer.result(i), dialect);
  return out;
}

}  // namespace

void add_values(TemplateValues& to, const Expression& expression) {
  for (int i = 0; i < kFunctionCount; ++i) to[fmt::format("uses_{}", kFunctions[i].name)] = "0";
  to["expression"] = expression.text();
  const auto flag = [](bool is) { return is ? "1" : "0"; };
  to["outputs"] = flag(!expression.outputs().empty());
  to["stores_matrices"] =
      flag(std::ranges::any_of(expression.outputs(), [](const auto& x) { return !is_reduced(x); }));
  to["reduces_all"] = flag(std::ranges::any_of(expression.outputs(), reduces_all));
  to["reduces"] = flag(reduces(expression));
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
                                                        const ExtraTypes& types,
                                                        const Dialect& dialect) {
  if (expression.empty()) return {};
  const Program& program = *expression.program();
  std::string members, pointers, fields;
  for (std::size_t i = 0; i < program.operands.size(); ++i) {
    const ExtraOperand& operand = program.operands[i];
    const std::string_view type = dialect.type(types.operands[i]);
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
  std::string reductions, rest, kept, together;
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const ExtraOutput& output = program.outputs[i];
    const std::string_view type = dialect.type(types.outputs[i]);
    const std::string_view stored = is_reduced(output) ? dialect.value : type;
    members += fmt::format("{}* y{};\ni64 ldy{};\n", stored, i, i);
    pointers += fmt::format(
        "out.y{0} = static_cast<{1}*>(args.outputs[{0}]) + batch * args.output_stride[{0}];\n"
        "out.ldy{0} = args.output_ld[{0}];\n",
        i, stored);
    if (!is_reduced(output)) continue;
    const auto reduce = [&](std::string_view what) {
      return fmt::format("if (output == {0}) reduce_{1}<{2}, {3}>(args, {0});\n", i, what,
                         kReducers.at(static_cast<std::size_t>(output.reduction)), type);
    };
    const bool all = reduces_all(output);
    fields += fmt::format("Real y{};\n", i);
    kept += fmt::format("out.y{0}[row * out.ldy{0} + column] = x.y{0};\n", i);
    together += fmt::format(
        "keep_together<{1}, {2}>(out.y{0}, out.ldy{0}, out, left, right, i,\n"
        "                        [&](int e) {{ return extras[e].y{0}; }});\n",
        i, kReducers.at(static_cast<std::size_t>(output.reduction)),
        all || has_index(output.target, Index::m));
    reductions += reduce(has_index(output.target, Index::m)   ? "rows"
                         : has_index(output.target, Index::n) ? "columns"
                                                              : "all");
    if (all) rest += reduce("rest");
  }
  // An included file has something in it.
  const auto or_none = [](std::string lines) {
    return lines.empty() ? std::string("// The expression has no operands.\n") : lines;
  };
  return {{"expression/members", or_none(members)},
          {"expression/pointers", or_none(pointers)},
          {"expression/fields", or_none(fields)},
          {"expression/loads", or_none(loads(program, dialect))},
          {"expression/values", statements(program, types.outputs, dialect)},
          {"expression/reductions", std::move(reductions)},
          {"expression/rest", std::move(rest)},
          {"expression/kept", std::move(kept)},
          {"expression/together", std::move(together)}};
}

}  // namespace kiln::expression
