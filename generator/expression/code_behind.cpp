#include <utility>

#include "generator/expression/code_parts.h"
#include "generator/expression/halves.h"

namespace kiln::expression {
namespace {

/// The type of what `behind` reads of the product's half.
std::string_view type_of_read(const ExtraOperand& operand, const Dialect& dialect) {
  return operand.dtype ? dialect.type(*operand.dtype) : dialect.value;
}

/// What `behind` reads of the product's half, as its operand i: of output `slot`, or of its D.
void add_read(Members& to, const ExtraOperand& operand, std::size_t i, std::size_t slot, bool in_d,
              const Dialect& dialect) {
  const bool kept = is_matrix(operand);
  const std::string_view memory = kept ? "outputs" : "reduced";
  const std::string_view stride = kept ? "output_stride" : "reduced_stride";
  const std::string type = fmt::format("const {}", type_of_read(operand, dialect));
  const std::string x = fmt::format("x{}", i), ld = fmt::format("ld{}", i);
  if (in_d) {
    to.add(type, x, "args.d", " + batch * args.stride_d");
    to.add_ld(ld, "args.ldd");
    return;
  }
  to.add(type, x, fmt::format("args.{}[{}]", memory, slot),
         fmt::format(" + batch * args.{}[{}]", stride, slot));
  if (kept) to.add_ld(ld, fmt::format("args.output_ld[{}]", slot));
}

/// Whether several neighbours of a row lie side by side.
bool side_by_side(const ExtraOperand& memory, const Dialect& dialect) {
  return !dialect.some_of_rows.empty() && !memory.index.empty() &&
         memory.index.back() == Index::n && memory.per_n == 1;
}

}  // namespace

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

Files code_behind(const Halves& halves, bool in_d, const ExtraTypes& types,
                  const Dialect& dialect) {
  const Program& program = halves.behind;
  Members out;
  add_first_row(out, reads_m(program) || reads_m(halves.blocks), dialect);
  std::string fields, stored, read, some, some_loads, some_stored, line_fields, line_loads;
  const std::size_t own = halves.first_block() - halves.lines - halves.kept;
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
      some += fmt::format(
          "Neighbours<{}> {};\n",
          i < own ? dialect.type(types.operands[i]) : type_of_read(operand, dialect), x);
      some_loads += fmt::format(fmt::runtime(has_lines(operand) ? dialect.some_of_rows
                                                                : dialect.some_along_n),
                                fmt::arg("x", x), fmt::arg("ld", fmt::format("ld{}", i)),
                                fmt::arg("row", divided("row", operand.per_m))) +
                    "\n";
      read += fmt::format("{} = {};\n", of_operand(dialect.definition, i),
                          of_operand(dialect.of_some, i));
    } else if (!has_index(operand, Index::n) && !dialect.of_line.empty()) {
      line_fields += fmt::format("Real x{};\n", i);
      line_loads += load(program, i, dialect);
      read += fmt::format("{} = {};\n", of_operand(dialect.definition, i),
                          of_operand(dialect.of_line, i));
    } else if (behind || !dialect.leave.empty()) {
      // One function of a GPU loads for blocks, too.
      read += load(program, i, dialect);
    }
    if (i < own)
      add_operand(out, program.operands[i], i, dialect.type(types.operands[i]), dialect);
    else
      add_read(out, program.operands[i], i, halves.output_of(i - own),
               in_d && halves.output_of(i - own) == halves.first_kept(), dialect);
  }
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    if (program.results[i] == kNotStored) continue;
    const std::string_view type = dialect.type(types.outputs[i]);
    add_output(out, program.outputs[i], i, type, dialect);
    fields += fmt::format("Real y{};\n", i);
    if (dialect.leave.empty()) continue;
    const ExtraOutput& output = program.outputs[i];
    if (has_lines(output.target) && side_by_side(output.target, dialect))
      some_stored += of_output(dialect.store_some, i, type, {});
    else
      stored += store(output, i, type, left_value(i, dialect), dialect);
  }
  // The caller's D.
  std::string d =
      "out.d = static_cast<TypeD*>(args.d) + batch * args.stride_d;\nout.ldd = args.ldd;\n";
  if (in_d)
    d = fmt::format(
        "out.d = static_cast<TypeC*>(args.outputs[{0}]) + batch * args.output_stride[{0}];\n"
        "out.ldd = args.output_ld[{0}];\n",
        halves.first_kept());
  return {{"expression/behind_d", std::move(d)},
          {"expression/behind_line_fields", or_none(std::move(line_fields))},
          {"expression/behind_line_loads", or_none(std::move(line_loads))},
          {"expression/behind_some", or_none(std::move(some))},
          {"expression/behind_some_loads", or_none(std::move(some_loads))},
          {"expression/behind_some_stored", or_none(std::move(some_stored))},
          {"expression/behind_members", or_none(std::move(out.members))},
          {"expression/behind_pointers", or_none(std::move(out.pointers))},
          {"expression/behind_fields", or_none(std::move(fields))},
          {"expression/behind_loads", or_none(std::move(read))},
          {"expression/behind_values", or_none(statements(program, types.outputs, dialect))},
          {"expression/behind_stored", or_none(std::move(stored))}};
}

}  // namespace kiln::expression
