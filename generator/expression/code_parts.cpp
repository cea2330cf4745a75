#include "generator/expression/code_parts.h"

#include <algorithm>

#include "generator/expression/halves.h"

namespace kiln::expression {
namespace {

/// The load that an operand's indices ask for.
std::string_view load_of(const ExtraOperand& operand, const Dialect& dialect) {
  const bool shared = operand.per_n != 1 && !dialect.shared_rows.empty();
  const bool along_row = !operand.index.empty() && operand.index.back() == Index::n;
  if (has_lines(operand) && shared) return along_row ? dialect.shared_rows : dialect.shared_columns;
  if (has_lines(operand)) return along_row ? dialect.rows : dialect.columns;
  if (along_row) return shared ? dialect.shared_along_n : dialect.along_n;
  return has_index(operand, Index::m)                   ? dialect.along_m
         : operand.host && !dialect.one_of_host.empty() ? dialect.one_of_host
                                                        : dialect.one;
}

}  // namespace

Argument argument_of(std::size_t i, const Dialect& dialect) {
  return i < dialect.arguments.size() ? dialect.arguments[i] : Argument::extra;
}

std::string divided(std::string_view index, std::int64_t shared) {
  return shared == 1 ? std::string(index) : fmt::format("({} / {})", index, shared);
}

std::string digits_of(double x) {
  std::string digits = fmt::format("{}", x);
  if (digits.find_first_of(".e") == digits.npos) digits += ".0";
  return digits;
}

std::string of_operand(std::string_view form, std::size_t i) {
  return fmt::format(fmt::runtime(form), fmt::arg("x", fmt::format("x{}", i)));
}

std::string_view type_of_operand(const ExtraTypes& types, std::size_t i, const Dialect& dialect) {
  if (argument_of(i, dialect) == Argument::bias && !dialect.bias.empty()) return dialect.bias;
  // Types of D are more than those of operands.
  return argument_of(i, dialect) == Argument::residual ? "TypeD" : dialect.type(types.operands[i]);
}

std::string ld_of(std::size_t i, const Dialect& dialect) {
  return argument_of(i, dialect) == Argument::residual ? "ldd" : fmt::format("ld{}", i);
}

std::string load(const Program& program, std::size_t i, const Dialect& dialect) {
  const ExtraOperand& x = program.operands[i];
  return fmt::format(
      "{} = {};\n", of_operand(dialect.definition, i),
      fmt::format(fmt::runtime(load_of(x, dialect)), fmt::arg("x", fmt::format("x{}", i)),
                  fmt::arg("ld", ld_of(i, dialect)), fmt::arg("row", divided("row", x.per_m)),
                  fmt::arg("column", divided("column", x.per_n)), fmt::arg("per", x.per_n)));
}

bool reads(const Program& program, std::size_t i) {
  return std::ranges::any_of(program.values, [&](const Value& value) {
    return value.op == Op::operand && value.which == i;
  });
}

std::string loads(const Program& program, const Dialect& dialect) {
  std::string out;
  for (std::size_t i = 0; i < program.operands.size(); ++i)
    if (reads(program, i)) out += load(program, i, dialect);
  return out;
}

std::string or_none(std::string lines) {
  return lines.empty() ? std::string("// None.\n") : std::move(lines);
}

std::string of_output(std::string_view form, std::size_t i, std::string_view type,
                      const std::string& value, std::int64_t shared) {
  return fmt::format(fmt::runtime(form), fmt::arg("x", fmt::format("y{}", i)),
                     fmt::arg("ld", fmt::format("ldy{}", i)), fmt::arg("type", type),
                     fmt::arg("value", value), fmt::arg("per", shared)) +
         "\n";
}

std::string store(const ExtraOutput& output, std::size_t i, std::string_view type,
                  const std::string& value, const Dialect& dialect) {
  const auto form = [&]() -> std::string_view {
    if (is_reduced(output)) return dialect.store_value;
    if (output.target.per_n != 1)
      return output.target.index.back() == Index::n ? dialect.store_shared_rows
                                                    : dialect.store_shared_columns;
    if (is_matrix(output.target))
      return output.target.index.back() == Index::n ? dialect.store_rows : dialect.store_columns;
    if (has_index(output.target, Index::m)) return dialect.store_along_m;
    return has_index(output.target, Index::n) ? dialect.store_along_n : dialect.store_one;
  };
  return of_output(form(), i, type, value, output.target.per_n);
}

std::string left_value(std::size_t i, const Dialect& dialect) {
  return fmt::format(fmt::runtime(dialect.left), fmt::arg("x", fmt::format("y{}", i)));
}

std::string products(const Program& program, const Dialect& dialect) {
  std::string out;
  for (const Product product : {Product::one, Product::first, Product::second})
    if (program.uses(product))
      out += fmt::format("const Value {} = {};\n", product_name(product),
                         product == Product::second ? dialect.second : "v");
  return out;
}

std::string statements(const Program& program, const std::vector<DType>& types,
                       const Dialect& dialect) {
  std::string out = products(program, dialect);
  Writer writer(program, CodeStyle{dialect});
  out += writer.named_values();
  if (program.stores_d) out += fmt::format("v = {};\n", writer.result());
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    if (program.results[i] == kNotStored) continue;
    if (dialect.leave.empty() && shared_kept(program, i)) continue;
    const std::string_view type = dialect.type(types[i]);
    out += !dialect.leave.empty() ? of_output(dialect.leave, i, type, writer.result(i))
           : keeps_narrow(program, i)
               ? of_output(dialect.store_narrow, i, type, writer.result(i))
               : store(program.outputs[i], i, type, writer.result(i), dialect);
  }
  return out;
}

void Members::add(std::string_view type, std::string_view name, std::string_view from,
                  const std::string& offset) {
  members += fmt::format("{}* {};\n", type, name);
  pointers += fmt::format("out.{} = static_cast<{}*>({}){};\n", name, type, from, offset);
}

void Members::add_ld(std::string_view name, std::string_view from) {
  members += fmt::format("i64 {};\n", name);
  pointers += fmt::format("out.{} = {};\n", name, from);
}

namespace {

/// From the first row of memory that has rows to the one that a kernel is called with: `ld` is the
/// step between those that are lines.
std::string to_first_row(const ExtraOperand& memory, bool lines, const std::string& ld,
                         const Dialect& dialect) {
  if (!dialect.moves_rows || !has_index(memory, Index::m)) return {};
  return fmt::format(" + {}{}", dialect.first_row, lines ? " * " + ld : std::string());
}
bool rows_are_lines(const ExtraOperand& memory) {
  return has_lines(memory) && memory.index.back() == Index::n;
}

}  // namespace

bool reads_m(const Program& program) {
  return std::ranges::any_of(program.values, [](const Value& value) {
    return value.op == Op::index && static_cast<Index>(value.which) == Index::m;
  });
}

void add_first_row(Members& to, bool reads, const Dialect& dialect) {
  if (!reads || dialect.first_row.empty()) return;
  to.members += "i64 first_row;\n";
  to.pointers += fmt::format("out.first_row = {};\n", dialect.first_row);
}

void add_operand(Members& to, const ExtraOperand& operand, std::size_t i, std::string_view type,
                 const Dialect& dialect) {
  // Pointers of fields are a group's already, where kernels are called for each.
  const Argument argument = argument_of(i, dialect);
  if (argument == Argument::bias || argument == Argument::residual)
    return to.add(fmt::format("const {}", type), fmt::format("x{}", i),
                  argument == Argument::bias ? "args.bias" : "args.residual",
                  argument == Argument::bias ? "" : " + batch * args.stride_d");
  if (operand.host && !dialect.value_in.empty()) {
    to.members += fmt::format("{} x{};\n", type, i);
    to.pointers += fmt::format("out.x{} = {};\n", i,
                               fmt::format(fmt::runtime(dialect.value_in), fmt::arg("type", type),
                                           fmt::arg("from", fmt::format("args.extra[{}]", i))));
    return;
  }
  std::string offset;
  if (has_index(operand, Index::batch)) offset = fmt::format(" + batch * args.extra_stride[{}]", i);
  offset +=
      to_first_row(operand, rows_are_lines(operand), fmt::format("args.extra_ld[{}]", i), dialect);
  to.add(fmt::format("const {}", type), fmt::format("x{}", i), fmt::format("args.extra[{}]", i),
         offset);
  if (has_lines(operand)) to.add_ld(fmt::format("ld{}", i), fmt::format("args.extra_ld[{}]", i));
}

void add_output(Members& to, const ExtraOutput& output, std::size_t i, std::string_view type,
                const Dialect& dialect) {
  // What is reduced lies in rows, of however few values.
  const bool lines = is_reduced(output) || rows_are_lines(output.target);
  to.add(type, fmt::format("y{}", i), fmt::format("args.outputs[{}]", i),
         fmt::format(" + batch * args.output_stride[{}]", i) +
             to_first_row(output.target, lines, fmt::format("args.output_ld[{}]", i), dialect));
  to.add_ld(fmt::format("ldy{}", i), fmt::format("args.output_ld[{}]", i));
}

}  // namespace kiln::expression
