#include "generator/expression/code.h"

#include <fmt/format.h>

#include <algorithm>

#include "generator/expression/code_parts.h"
#include "generator/expression/functions.h"
#include "generator/expression/halves.h"

namespace kiln::expression {

namespace {

/// Of a call: which GPUs then do by a factor (CodeStyle::reciprocal).
bool divides_by_number(const Program& program, const Value& call) {
  return kFunctions[call.which].course == Course::quotient &&
         has_reciprocal(program.values[call.of[1]]);
}

}  // namespace

void add_values(TemplateValues& to, const Expression& expression) {
  for (int i = 0; i < kFunctionCount; ++i) to[fmt::format("uses_{}", kFunctions[i].name)] = "0";
  const auto flag = [](bool is) { return is ? "1" : "0"; };
  const bool empty = expression.empty();
  to["expressed"] = flag(!empty);
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
  to["kept_in_d"] = flag(keeps_in_d(expression));
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
  to["reads_m"] = "0";
  to["reads_host"] = flag(std::ranges::any_of(expression.operands(), &ExtraOperand::host));
  if (empty) return;
  const auto add = [&](const Program& program) {
    for (const auto& value : program.values)
      if (value.op == Op::call && !divides_by_number(program, value))
        to[fmt::format("uses_{}", kFunctions[value.which].name)] = "1";
  };
  add(*expression.program());
  if (halves != nullptr) add(halves->behind), add(halves->blocks);
  const bool m = reads_m(*expression.program()) ||
                 (halves != nullptr && (reads_m(halves->behind) || reads_m(halves->blocks)));
  to["reads_m"] = flag(m);
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
    work += divides_by_number(program, v) ? 1 : kFunctions[v.which].work;
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

/// Of a kernel's half: fetches of what is read and written of rows of matrices.
std::string fetches(const Program& program, const Dialect& dialect) {
  std::string out;
  const auto fetch = [&](char letter, const std::string& ld, std::size_t i, int write) {
    out += fmt::format(fmt::runtime(dialect.fetch), fmt::arg("x", fmt::format("{}{}", letter, i)),
                       fmt::arg("ld", ld), fmt::arg("write", write)) +
           "\n";
  };
  const auto in_rows = [](const ExtraOperand& x) {
    return is_matrix(x) && x.index.back() == Index::n;
  };
  for (std::size_t i = 0; i < program.operands.size(); ++i)
    if (reads(program, i) && in_rows(program.operands[i])) fetch('x', ld_of(i, dialect), i, 0);
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    if (program.results[i] != kNotStored && !shared_kept(program, i) &&
        (is_reduced(program.outputs[i]) || in_rows(program.outputs[i].target)))
      fetch('y', fmt::format("ldy{}", i), i, 1);
  return out;
}

}  // namespace

std::map<std::string, std::string, std::less<>> code_of(const Expression& expression,
                                                        const ExtraTypes& types,
                                                        const Dialect& dialect) {
  if (expression.empty()) return {};
  const Program& program = *expression.program();
  Members out;
  add_first_row(out, reads_m(program), dialect);
  std::string fields;
  for (std::size_t i = 0; i < program.operands.size(); ++i) {
    if (!reads(program, i)) continue;
    add_operand(out, program.operands[i], i, type_of_operand(types, i, dialect), dialect);
    fields += fmt::format("Real x{};\n", i);
  }
  std::string reductions, of_rows, of_columns, at_row, rest, rest_of_rows, stored, kept, together;
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    if (program.results[i] == kNotStored) continue;
    const ExtraOutput& output = program.outputs[i];
    const std::string_view type = dialect.type(types.outputs[i]);
    add_output(out, output, i, is_reduced(output) ? dialect.value : type, dialect);
    fields += fmt::format("Real y{};\n", i);
    if (!dialect.leave.empty()) {
      std::string& later = is_reduced(output) ? kept : stored;
      if (!shared_kept(program, i))
        later += store(output, i, type, left_value(i, dialect), dialect);
    }
    if (!is_reduced(output)) continue;
    const auto reduce = [&](std::string_view what) {
      return fmt::format("reduce_{1}<{2}, {3}>(args, {0});\n", i, what,
                         kReducers.at(static_cast<std::size_t>(output.reduction)), type);
    };
    const auto reduce_batch = [&](std::string_view what) {
      return fmt::format("reduce_{1}<{2}, {3}>(args, batch, {0});\n", i, what,
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
    const std::string_view what = columns ? "columns" : all ? "all" : "rows";
    const std::string reduces = reduce(what);
    reductions += where_it_is(reduce_batch(what));
    (columns ? of_columns : of_rows) += reduces;
    if (!columns && !all)
      at_row += fmt::format("reduce_row<{1}, {2}>(args, {0}, batch, row);\n", i,
                            kReducers.at(static_cast<std::size_t>(output.reduction)), type);
    if (all) rest += where_it_is(reduce_batch("rest")), rest_of_rows += reduce("rest");
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
    Dialect behind = dialect;
    if (dialect.moves_rows) {
      behind.m = dialect.m_behind;
      behind.first_row = {}, behind.moves_rows = false;
    }
    files.merge(code_behind(*program.half_of, keeps_in_d(expression), types, behind));
    files.merge(code_of_blocks(*program.half_of, behind));
  }
  return files;
}

}  // namespace kiln::expression
