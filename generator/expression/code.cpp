#include "generator/expression/code.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "generator/expression/functions.h"
#include "generator/expression/halves.h"
#include "generator/expression/writer.h"

namespace kiln::expression {
namespace {

/// What templates call the reductions.
constexpr std::array<std::string_view, 7> kReducers{"",          "Sum",  "Largest", "Smallest",
                                                    "LogSumExp", "Even", "Odd"};

/// The load that an operand's indices ask for.
std::string_view load_of(const ExtraOperand& operand, const Dialect& dialect) {
  const bool shared = operand.per_n != 1 && !dialect.shared_rows.empty();
  const bool along_row = !operand.index.empty() && operand.index.back() == Index::n;
  if (has_lines(operand) && shared) return along_row ? dialect.shared_rows : dialect.shared_columns;
  if (has_lines(operand)) return along_row ? dialect.rows : dialect.columns;
  if (along_row) return shared ? dialect.shared_along_n : dialect.along_n;
  return has_index(operand, Index::m) ? dialect.along_m : dialect.one;
}

/// An index of memory of which neighbours share an element.
std::string divided(std::string_view index, std::int64_t shared) {
  return shared == 1 ? std::string(index) : fmt::format("({} / {})", index, shared);
}

/// A number of fp64, which without a point or an exponent would be an integer.
std::string digits_of(double x) {
  std::string digits = fmt::format("{}", x);
  if (digits.find_first_of(".e") == digits.npos) digits += ".0";
  return digits;
}

/// As the templates read it.
struct CodeStyle {
  static constexpr bool kFuses = true;
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
  static Bound fused(std::string_view x, std::string_view y, std::string_view z) {
    return {fmt::format("fused({}, {}, {})", x, y, z), kBindsAtom};
  }
  std::string infix(const Function& f, std::string_view left, std::string_view right) const {
    if (!f.code.empty()) return fmt::format("{}({}, {})", f.code, left, right);
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

/// Of operand i, in a form of the dialect.
std::string of_operand(std::string_view form, std::size_t i) {
  return fmt::format(fmt::runtime(form), fmt::arg("x", fmt::format("x{}", i)));
}

/// The statement that loads operand i.
std::string load(const Program& program, std::size_t i, const Dialect& dialect) {
  const ExtraOperand& x = program.operands[i];
  return fmt::format(
      "{} = {};\n", of_operand(dialect.definition, i),
      fmt::format(fmt::runtime(load_of(x, dialect)), fmt::arg("x", fmt::format("x{}", i)),
                  fmt::arg("ld", fmt::format("ld{}", i)), fmt::arg("row", divided("row", x.per_m)),
                  fmt::arg("column", divided("column", x.per_n)), fmt::arg("per", x.per_n)));
}

/// Whether a value is operand i: a half has those of the other one too.
bool reads(const Program& program, std::size_t i) {
  return std::ranges::any_of(program.values, [&](const Value& value) {
    return value.op == Op::operand && value.which == i;
  });
}

/// Statements that load the operands.
std::string loads(const Program& program, const Dialect& dialect) {
  std::string out;
  for (std::size_t i = 0; i < program.operands.size(); ++i)
    if (reads(program, i)) out += load(program, i, dialect);
  return out;
}

/// An included file has something in it.
std::string or_none(std::string lines) {
  return lines.empty() ? std::string("// None.\n") : std::move(lines);
}

/// Of output i, in a form of the dialect.
std::string of_output(std::string_view form, std::size_t i, std::string_view type,
                      const std::string& value, std::int64_t shared = 1) {
  return fmt::format(fmt::runtime(form), fmt::arg("x", fmt::format("y{}", i)),
                     fmt::arg("ld", fmt::format("ldy{}", i)), fmt::arg("type", type),
                     fmt::arg("value", value), fmt::arg("per", shared)) +
         "\n";
}

/// Stores an output's value.
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

/// An output's value that was left for later.
std::string left_value(std::size_t i, const Dialect& dialect) {
  return fmt::format(fmt::runtime(dialect.left), fmt::arg("x", fmt::format("y{}", i)));
}

/// Statements that name values, make v and store what else is stored.
std::string statements(const Program& program, const std::vector<DType>& types,
                       const Dialect& dialect) {
  std::string out;
  if (program.uses(Op::acc)) out += "const Value acc = v;\n";
  Writer writer(program, CodeStyle{dialect});
  out += writer.named_values();
  if (program.stores_d) out += fmt::format("v = {};\n", writer.result());
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    if (program.results[i] == kNotStored) continue;
    if (dialect.leave.empty() && shares_kept(program, i)) continue;
    const std::string_view type = dialect.type(types[i]);
    out += dialect.leave.empty() ? store(program.outputs[i], i, type, writer.result(i), dialect)
                                 : of_output(dialect.leave, i, type, writer.result(i));
  }
  return out;
}

}  // namespace

void add_values(TemplateValues& to, const Expression& expression) {
  for (int i = 0; i < kFunctionCount; ++i) to[fmt::format("uses_{}", kFunctions[i].name)] = "0";
  to["expression"] = expression.text();
  const auto flag = [](bool is) { return is ? "1" : "0"; };
  const bool empty = expression.empty();
  const Halves* const halves = empty ? nullptr : expression.program()->half_of;
  const auto stores = [&](auto what) {
    for (std::size_t i = 0; i < expression.outputs().size(); ++i)
      if (expression.program()->results[i] != kNotStored && what(expression.outputs()[i]))
        return true;
    return false;
  };
  to["stores_d"] = flag(expression.stores_d());
  to["outputs"] = flag(!expression.outputs().empty());
  to["stores_matrices"] = flag(stores([](const auto& x) { return !is_reduced(x); }));
  to["reduces_all"] = flag(stores(reduces_all));
  to["reduces"] = flag(stores(is_reduced));
  const auto of_columns = [](const ExtraOutput& x) {
    return is_reduced(x) && has_index(x.target, Index::n);
  };
  to["reduces_columns"] = flag(stores(of_columns));
  to["reduces_rows"] =
      flag(stores([&](const ExtraOutput& x) { return is_reduced(x) && !of_columns(x); }));
  const auto of_exponentials = [](const ExtraOutput& x) {
    return x.reduction == Reduction::logsumexp;
  };
  const bool blocks = halves != nullptr && !halves->blocks.outputs.empty();
  to["reduces_exponentials"] =
      flag(stores(of_exponentials) ||
           (blocks && std::ranges::any_of(halves->blocks.outputs, of_exponentials)));
  to["behind"] = flag(halves != nullptr);
  to["behind_blocks"] = flag(blocks);
  to["reduces_first"] = flag(stores(is_reduced) && !reduces_rows_behind(expression));
  const auto shares = [](const ExtraOperand& x) { return x.per_n != 1; };
  const auto target = [](const ExtraOutput& x) { return x.target; };
  to["reads_pairs"] = flag(!empty && expression.program()->reads_reduced());
  to["shares"] = flag(std::ranges::any_of(expression.operands(), shares) ||
                      std::ranges::any_of(expression.outputs(), shares, target));
  to["behind_d"] = flag(halves != nullptr && halves->behind.stores_d);
  const bool elements = halves != nullptr && halves->stores_elements;
  to["behind_rows"] = flag(elements || (halves != nullptr && halves->stores_rows));
  to["behind_columns"] = flag(elements || (halves != nullptr && halves->stores_columns));
  if (empty) return;
  const auto add = [&](const Program& program) {
    for (const auto& value : program.values)
      if (value.op == Op::call) to[fmt::format("uses_{}", kFunctions[value.which].name)] = "1";
  };
  add(*expression.program());
  if (halves != nullptr) add(halves->behind), add(halves->blocks);
}

bool uses_exponential(const Expression& expression) {
  if (expression.empty()) return false;
  const auto uses = [](const Program& program) {
    return std::ranges::any_of(program.values, [](const Value& value) {
      return value.op == Op::call && kFunctions[value.which].exponential;
    });
  };
  const Halves* const halves = expression.program()->half_of;
  const auto reduces = [](std::span<const ExtraOutput> some) {
    return std::ranges::any_of(
        some, [](const ExtraOutput& output) { return output.reduction == Reduction::logsumexp; });
  };
  if (reduces(expression.outputs()) || uses(*expression.program())) return true;
  return halves != nullptr &&
         (reduces(halves->blocks.outputs) || uses(halves->blocks) || uses(halves->behind));
}

double work_of(const Expression& expression) {
  if (expression.empty()) return 0;
  const Program& program = *expression.program();
  double work = 0;
  for (const Value& v : program.values) {
    if (v.op != Op::call) continue;
    const bool by_number =
        kFunctions[v.which].course == Course::quotient && program.values[v.of[1]].op == Op::number;
    work += by_number ? 1 : kFunctions[v.which].work;
  }
  // Operands: counted in a turn of cuda_wgmma's loop, code for sm_90a. What is stored: estimates.
  constexpr double kMatrix = 5, kAlongN = 4, kAlongM = 2, kStored = 6, kReduced = 5;
  for (std::size_t i = 0; i < program.operands.size(); ++i) {
    const ExtraOperand& x = program.operands[i];
    if (reads(program, i))
      work += is_matrix(x) ? kMatrix : has_index(x, Index::n) ? kAlongN : kAlongM;
  }
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    if (program.results[i] != kNotStored)
      work += is_reduced(program.outputs[i]) ? kReduced : kStored;
  return work;
}

namespace {

using Files = std::map<std::string, std::string, std::less<>>;

/// Members of a struct `out`, and the statements that fill them.
struct Members {
  std::string members, pointers;
  void add(std::string_view type, std::string_view name, std::string_view from,
           const std::string& offset) {
    members += fmt::format("{}* {};\n", type, name);
    pointers += fmt::format("out.{} = static_cast<{}*>({}){};\n", name, type, from, offset);
  }
  void add_ld(std::string_view name, std::string_view from) {
    members += fmt::format("i64 {};\n", name);
    pointers += fmt::format("out.{} = {};\n", name, from);
  }
};

/// Operand i, as the caller has it.
void add_operand(Members& to, const ExtraOperand& operand, std::size_t i, std::string_view type) {
  to.add(fmt::format("const {}", type), fmt::format("x{}", i), fmt::format("args.extra[{}]", i),
         has_index(operand, Index::batch) ? fmt::format(" + batch * args.extra_stride[{}]", i)
                                          : std::string());
  if (has_lines(operand)) to.add_ld(fmt::format("ld{}", i), fmt::format("args.extra_ld[{}]", i));
}

/// Output i, of elements of this type.
void add_output(Members& to, std::size_t i, std::string_view type) {
  to.add(type, fmt::format("y{}", i), fmt::format("args.outputs[{}]", i),
         fmt::format(" + batch * args.output_stride[{}]", i));
  to.add_ld(fmt::format("ldy{}", i), fmt::format("args.output_ld[{}]", i));
}

/// What `behind` reads of the product's half, as its operand i: of output `slot`.
void add_read(Members& to, const ExtraOperand& operand, std::size_t i, std::size_t slot,
              const Dialect& dialect) {
  const bool kept = is_matrix(operand);
  const std::string_view memory = kept ? "outputs" : "reduced";
  const std::string_view stride = kept ? "output_stride" : "reduced_stride";
  to.add(fmt::format("const {}", dialect.value), fmt::format("x{}", i),
         fmt::format("args.{}[{}]", memory, slot),
         fmt::format(" + batch * args.{}[{}]", stride, slot));
  if (kept) to.add_ld(fmt::format("ld{}", i), fmt::format("args.output_ld[{}]", slot));
}

/// Of a kernel's half: fetches of what is read and written of rows of matrices.
std::string fetches(const Program& program, const Dialect& dialect) {
  std::string out;
  const auto fetch = [&](char letter, std::string_view ld, std::size_t i, int write) {
    out += fmt::format(fmt::runtime(dialect.fetch), fmt::arg("x", fmt::format("{}{}", letter, i)),
                       fmt::arg("ld", fmt::format("{}{}", ld, i)), fmt::arg("write", write)) +
           "\n";
  };
  const auto in_rows = [](const ExtraOperand& x) {
    return is_matrix(x) && x.index.back() == Index::n;
  };
  for (std::size_t i = 0; i < program.operands.size(); ++i)
    if (reads(program, i) && in_rows(program.operands[i])) fetch('x', "ld", i, 0);
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    if (program.results[i] != kNotStored && !shares_kept(program, i) &&
        (is_reduced(program.outputs[i]) || in_rows(program.outputs[i].target)))
      fetch('y', "ldy", i, 1);
  return out;
}

/// Of an expression whose kernels fetch what it reads of neighbours: what one of them shows to the
/// other, and how both take it, in one lane or in two.
Files code_of_pairs(const Program& whole, const Dialect& dialect) {
  const Program program = shown_to_neighbours(whole);
  std::string fields, values, in_lane, of_lanes;
  if (program.uses(Op::acc)) values += "const Value acc = v;\n";
  Writer writer(program, CodeStyle{dialect});
  values += writer.named_values();
  for (std::size_t number = 0; number < program.outputs.size(); ++number) {
    const bool even = program.outputs[number].reduction == Reduction::even;
    fields += fmt::format("Real r{};\n", number);
    values += fmt::format("x.r{} = {};\n", number, writer.result(number));
    in_lane += even ? fmt::format("y.r{0} = x.r{0};\n", number)
                    : fmt::format("x.r{0} = second ? y.r{0} : x.r{0};\n", number);
    of_lanes += fmt::format("x.r{0} = of_lane(x.r{0}, apart, {1});\n", number,
                            even ? "odd" : "!odd && second");
  }
  return {{"expression/pair_fields", std::move(fields)},
          {"expression/pair_values", std::move(values)},
          {"expression/pair_in_lane", std::move(in_lane)},
          {"expression/pair_of_lanes", std::move(of_lanes)}};
}

/// What the step behind the reductions does with blocks of a line: their values, which it keeps,
/// and how these are reduced.
Files code_of_blocks(const Halves& halves, const Dialect& dialect) {
  const Program& program = halves.blocks;
  std::string fields, values, reduced;
  Writer writer(program, CodeStyle{dialect});
  values += writer.named_values();
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const auto x = fmt::arg("x", fmt::format("x{}", halves.first_block() + i));
    const ExtraOutput& block = program.outputs[i];
    fields += fmt::format(fmt::runtime(dialect.block_field), x) + "\n";
    values +=
        fmt::format(fmt::runtime(dialect.keep_block), x, fmt::arg("value", writer.result(i))) +
        "\n";
    reduced += fmt::format(fmt::runtime(dialect.reduce_block), x,
                           fmt::arg("how", kReducers.at(static_cast<std::size_t>(block.reduction))),
                           fmt::arg("per", block.target.per_n)) +
               "\n";
  }
  return {{"expression/block_fields", or_none(std::move(fields))},
          {"expression/block_loads", or_none(loads(program, dialect))},
          {"expression/block_values", or_none(std::move(values))},
          {"expression/blocks_reduced", or_none(std::move(reduced))}};
}

/// Whether several neighbours of a row lie side by side.
bool side_by_side(const ExtraOperand& memory, const Dialect& dialect) {
  return !dialect.some_of_rows.empty() && !memory.index.empty() &&
         memory.index.back() == Index::n && memory.per_n == 1;
}

/// The step behind the reductions.
Files code_behind(const Halves& halves, const ExtraTypes& types, const Dialect& dialect) {
  const Program& program = halves.behind;
  Members out;
  std::string fields, stored, read, some, some_loads, some_stored;
  const std::size_t own = halves.first_block() - halves.lines - (halves.keeps ? 1 : 0);
  for (std::size_t i = 0; i < program.operands.size(); ++i) {
    const bool behind = reads(program, i);
    if (!behind && !reads(halves.blocks, i)) continue;
    if (i >= halves.first_block()) {
      if (!dialect.block.empty()) {
        read += fmt::format("{} = {};\n", of_operand(dialect.definition, i),
                            of_operand(dialect.block, i));
      }
      continue;
    }
    fields += fmt::format("Real x{};\n", i);
    const ExtraOperand& operand = program.operands[i];
    const std::string x = fmt::format("x{}", i);
    if (side_by_side(operand, dialect)) {
      some += fmt::format("Real {}[kTogetherBehind];\n", x);
      some_loads += fmt::format(fmt::runtime(has_lines(operand) ? dialect.some_of_rows
                                                                : dialect.some_along_n),
                                fmt::arg("x", x), fmt::arg("ld", fmt::format("ld{}", i)),
                                fmt::arg("row", divided("row", operand.per_m))) +
                    "\n";
      read += fmt::format("{} = {};\n", of_operand(dialect.definition, i),
                          of_operand(dialect.of_some, i));
    } else if (behind || !dialect.leave.empty()) {
      // One function of a GPU loads for blocks, too.
      read += load(program, i, dialect);
    }
    if (i < own)
      add_operand(out, program.operands[i], i, dialect.type(types.operands[i]));
    else
      add_read(out, program.operands[i], i, halves.output_of(i - own), dialect);
  }
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    if (program.results[i] == kNotStored) continue;
    const std::string_view type = dialect.type(types.outputs[i]);
    add_output(out, i, type);
    fields += fmt::format("Real y{};\n", i);
    if (dialect.leave.empty()) continue;
    const ExtraOutput& output = program.outputs[i];
    if (has_lines(output.target) && side_by_side(output.target, dialect))
      some_stored += of_output(dialect.store_some, i, type, {});
    else
      stored += store(output, i, type, left_value(i, dialect), dialect);
  }
  return {{"expression/behind_some", or_none(std::move(some))},
          {"expression/behind_some_loads", or_none(std::move(some_loads))},
          {"expression/behind_some_stored", or_none(std::move(some_stored))},
          {"expression/behind_members", or_none(std::move(out.members))},
          {"expression/behind_pointers", or_none(std::move(out.pointers))},
          {"expression/behind_fields", or_none(std::move(fields))},
          {"expression/behind_loads", or_none(std::move(read))},
          {"expression/behind_values", or_none(statements(program, types.outputs, dialect))},
          {"expression/behind_stored", or_none(std::move(stored))}};
}

}  // namespace

std::map<std::string, std::string, std::less<>> code_of(const Expression& expression,
                                                        const ExtraTypes& types,
                                                        const Dialect& dialect) {
  if (expression.empty()) return {};
  const Program& program = *expression.program();
  Members out;
  std::string fields;
  for (std::size_t i = 0; i < program.operands.size(); ++i) {
    if (!reads(program, i)) continue;
    add_operand(out, program.operands[i], i, dialect.type(types.operands[i]));
    fields += fmt::format("Real x{};\n", i);
  }
  std::string reductions, of_rows, of_columns, at_row, rest, rest_of_rows, stored, kept, together;
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    if (program.results[i] == kNotStored) continue;
    const ExtraOutput& output = program.outputs[i];
    const std::string_view type = dialect.type(types.outputs[i]);
    add_output(out, i, is_reduced(output) ? dialect.value : type);
    fields += fmt::format("Real y{};\n", i);
    if (!dialect.leave.empty()) {
      std::string& later = is_reduced(output) ? kept : stored;
      if (!shares_kept(program, i))
        later += store(output, i, type, left_value(i, dialect), dialect);
    }
    if (!is_reduced(output)) continue;
    const auto reduce = [&](std::string_view what) {
      return fmt::format("reduce_{1}<{2}, {3}>(args, {0});\n", i, what,
                         kReducers.at(static_cast<std::size_t>(output.reduction)), type);
    };
    const auto where_it_is = [&](const std::string& statement) {
      return fmt::format("if (output == {}) {}", i, statement);
    };
    const bool all = reduces_all(output);
    together += fmt::format(
        "keep_together<{1}, {2}>(out.y{0}, out.ldy{0}, out, left, right, i,\n"
        "                        [&](int e) {{ return extras[e].y{0}; }});\n",
        i, kReducers.at(static_cast<std::size_t>(output.reduction)),
        all || has_index(output.target, Index::m));
    const bool columns = has_index(output.target, Index::n);
    const std::string reduces = reduce(columns ? "columns" : all ? "all" : "rows");
    reductions += where_it_is(reduces);
    (columns ? of_columns : of_rows) += reduces;
    if (!columns && !all)
      at_row += fmt::format("reduce_row<{1}, {2}>(args, {0}, batch, row);\n", i,
                            kReducers.at(static_cast<std::size_t>(output.reduction)), type);
    if (all) rest += where_it_is(reduce("rest")), rest_of_rows += reduce("rest");
  }
  Files files{{"expression/members", or_none(std::move(out.members))},
              {"expression/pointers", or_none(std::move(out.pointers))},
              {"expression/fields", or_none(fields)},
              {"expression/loads", or_none(loads(program, dialect))},
              {"expression/values", or_none(statements(program, types.outputs, dialect))},
              {"expression/reductions", std::move(reductions)},
              {"expression/reductions_of_rows", std::move(of_rows)},
              {"expression/behind_reductions", or_none(std::move(at_row))},
              {"expression/reductions_of_columns", std::move(of_columns)},
              {"expression/rest", std::move(rest)},
              {"expression/rest_of_rows", std::move(rest_of_rows)},
              {"expression/stored", std::move(stored)},
              {"expression/kept", or_none(std::move(kept))},
              {"expression/together", std::move(together)}};
  if (!dialect.fetch.empty())
    files.emplace("expression/fetches", or_none(fetches(program, dialect)));
  if (program.reads_reduced()) files.merge(code_of_pairs(program, dialect));
  if (program.half_of != nullptr) {
    files.merge(code_behind(*program.half_of, types, dialect));
    files.merge(code_of_blocks(*program.half_of, dialect));
  }
  return files;
}

std::map<std::string, std::string, std::less<>> pairs_of(const Expression& expression,
                                                         const ExtraTypes& types, Index along,
                                                         const Dialect& dialect) {
  if (expression.empty()) return {};
  const Program& program = *expression.program();
  const bool row = along == Index::n;
  const auto paired = [&](const ExtraOperand& x) {
    return !x.index.empty() && x.index.back() == along && (row ? x.per_n : x.per_m) == 1;
  };
  const auto place_of = [&](const ExtraOperand& x) {
    const bool last_is_n = x.index.back() == Index::n;
    if (has_lines(x)) return last_is_n ? dialect.place_of_row : dialect.place_of_column;
    return last_is_n ? dialect.place_along_n : dialect.place_along_m;
  };
  std::string words, inside, at_edge, split, vectors, stored_alone, stored_pairs, fit;
  const auto in_words = [&](const std::string& x, const std::string& ld) {
    fit += fmt::format(" &&\n       {}", fmt::format(fmt::runtime(dialect.in_words),
                                                     fmt::arg("x", x), fmt::arg("ld", ld)));
  };
  for (std::size_t i = 0; i < program.operands.size(); ++i) {
    if (!reads(program, i)) continue;
    const ExtraOperand& operand = program.operands[i];
    if (operand.index.empty() || operand.index.back() == Index::batch) {
      vectors += load(program, i, dialect);
      continue;
    }
    const std::string_view type = dialect.type(types.operands[i]);
    const auto place = [&](std::string_view row_name, std::string_view column_name) {
      return fmt::format(fmt::runtime(place_of(operand)), fmt::arg("x", fmt::format("x{}", i)),
                         fmt::arg("ld", fmt::format("ld{}", i)),
                         fmt::arg("row", divided(row_name, operand.per_m)),
                         fmt::arg("column", divided(column_name, operand.per_n)));
    };
    const std::string one = place("row", "column");
    const std::string other = place("(row + kDown)", "(column + kRight)");
    if (!has_lines(operand) && operand.index.back() != along) {
      // Of the line that both are in: of several in one line the compiler makes one load.
      words += fmt::format("typename InMemory<{0}>::One x{1};\n", type, i);
      inside += fmt::format("w.x{} = bits_at({});\n", i, one);
      at_edge += fmt::format("w.x{} = bits_if({}, first);\n", i, one);
      split += fmt::format("x.x{0} = y.x{0} = real_of_bits(w.x{0}, {1}{{}});\n", i, type);
      continue;
    }
    if (paired(operand)) {
      words += fmt::format("typename InMemory<{}>::Two x{};\n", type, i);
      inside +=
          fmt::format("w.x{} = {}({});\n", i, has_lines(operand) ? "word_at" : "word_of_line", one);
      at_edge +=
          fmt::format("w.x{} = word_of(bits_if({}, first),\n               bits_if({}, second));\n",
                      i, one, other);
      split += fmt::format("split_word(w.x{0}, {1}{{}}, x.x{0}, y.x{0});\n", i, type);
      in_words(fmt::format("out.x{}", i),
               has_lines(operand) ? fmt::format("out.ld{}", i) : std::string("0"));
    } else {
      words += fmt::format("typename InMemory<{0}>::One x{1}, next{1};\n", type, i);
      const std::int64_t shared = row ? operand.per_n : operand.per_m;
      const std::string loads = fmt::format(
          "w.x{0} = bits_if({1}, first);\nw.next{0} = {2};\n", i, one,
          shared % 2 == 0 ? fmt::format("w.x{}", i) : fmt::format("bits_if({}, second)", other));
      inside += loads;
      at_edge += loads;
      split += fmt::format(
          "x.x{0} = real_of_bits(w.x{0}, {1}{{}});\ny.x{0} = real_of_bits(w.next{0}, {1}{{}});\n",
          i, type);
    }
  }
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const ExtraOutput& output = program.outputs[i];
    const std::string_view type = dialect.type(types.outputs[i]);
    if (is_reduced(output) || program.results[i] == kNotStored) continue;
    if (!paired(output.target)) {
      stored_alone += store(output, i, type, left_value(i, dialect), dialect);
      continue;
    }
    stored_pairs += of_output(row ? dialect.store_pair_of_row : dialect.store_pair_of_column, i,
                              type, left_value(i, dialect));
    in_words(fmt::format("out.y{}", i), fmt::format("out.ldy{}", i));
  }
  std::map<std::string, std::string, std::less<>> files{
      {"expression/words", std::move(words)},
      {"expression/words_inside", std::move(inside)},
      {"expression/words_at_edge", std::move(at_edge)},
      {"expression/split", std::move(split)},
      {"expression/vectors", std::move(vectors)},
      {"expression/stored_alone", std::move(stored_alone)},
      {"expression/stored_pairs", std::move(stored_pairs)},
      {"expression/pairs_fit",
       fmt::format("return out.{} % 2 == 0{};\n", row ? "columns" : "rows", fit)}};
  for (auto& [name, lines] : files) lines = or_none(std::move(lines));
  return files;
}

}  // namespace kiln::expression
