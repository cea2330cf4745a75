#include <utility>

#include "generator/expression/code_parts.h"
#include "generator/expression/halves.h"

namespace kiln::expression {
namespace {

/// The files about matrices that come through a ring in shared memory.
struct Brought {
  std::string under, part, lines, fit, bytes, members, maps, pointers;

  void add(const ExtraOperand& operand, std::size_t i, std::string_view type, bool paired,
           bool batched) {
    const std::string shape =
        fmt::format("Brought<{}, {}>", type, operand.index.back() == Index::n);
    const auto load = [&](std::string_view to, std::string_view right) {
      part +=
          fmt::format("load_shared(w.{}{}, place_in<{}>(part, left, {}));\n", to, i, shape, right);
    };
    load("x", "right");
    if (!paired) load("next", "right + 1");
    part += fmt::format("part += {}::kBytes;\n", shape);
    lines += fmt::format(
        "to = bring_lines<{}, {}>(to, barrier, maps.x{}, left, right, first_row, {});\n", type,
        operand.index.back() == Index::n, i, batched ? "batch" : "0");
    fit += fmt::format("{}in_units(out.x{})", fit.empty() ? "return " : " && ", i);
    bytes += fmt::format("{}{}::kBytes", bytes.empty() ? "" : " + ", shape);
    members += fmt::format("const KilnTensorMap* x{};\n", i);
    maps += fmt::format(", const __grid_constant__ KilnTensorMap map_x{}\n", i);
    pointers += fmt::format("{}&map_x{}", pointers.empty() ? "" : ", ", i);
  }
  void move_to(Files& files) {
    files["expression/words_under"] = or_none(std::move(under));
    files["expression/words_of_part"] = or_none(std::move(part));
    files["expression/brought_lines"] = or_none(std::move(lines));
    files["expression/brought_members"] = or_none(std::move(members));
    files["expression/brought_maps"] = or_none(std::move(maps));
    files["expression/brought_pointers"] =
        fmt::format("const BroughtMaps brought{{{}}};\n", pointers);
    files["expression/brought_fit"] = fit + ";\n";
    files["expression/brought_sizes"] = fmt::format("constexpr int kBroughtBytes = {};\n", bytes);
  }
};

}  // namespace

Files code_of_pairs(const Program& whole, const Dialect& dialect) {
  const Program program = shown_to_neighbours(whole);
  std::string fields, in_lane, of_lanes, values = products(program, dialect);
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

std::map<std::string, std::string, std::less<>> pairs_of(const Expression& expression,
                                                         const ExtraTypes& types, Index along,
                                                         bool brings, const Dialect& dialect) {
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
  Brought brought;
  for (std::size_t i = 0; i < program.operands.size(); ++i) {
    if (!reads(program, i)) continue;
    const ExtraOperand& operand = program.operands[i];
    if (operand.index.empty() || operand.index.back() == Index::batch) {
      vectors += load(program, i, dialect);
      continue;
    }
    const std::string_view type = type_of_operand(types, i, dialect);
    const auto place = [&](std::string_view row_name, std::string_view column_name) {
      return fmt::format(fmt::runtime(place_of(operand)), fmt::arg("x", fmt::format("x{}", i)),
                         fmt::arg("ld", ld_of(i, dialect)),
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
    const bool comes = brings && is_matrix(operand);
    if (comes)
      brought.add(
          operand, i, type, paired(operand),
          has_index(operand, Index::batch) || argument_of(i, dialect) == Argument::residual);
    std::string& alone = comes ? brought.under : at_edge;
    if (paired(operand)) {
      words += fmt::format("typename InMemory<{}>::Two x{};\n", type, i);
      alone +=
          fmt::format("w.x{} = word_of(bits_if({}, first),\n               bits_if({}, second));\n",
                      i, one, other);
      split += fmt::format("split_word(w.x{0}, {1}{{}}, x.x{0}, y.x{0});\n", i, type);
      if (comes) continue;
      inside +=
          fmt::format("w.x{} = {}({});\n", i, has_lines(operand) ? "word_at" : "word_of_line", one);
      in_words(fmt::format("out.x{}", i),
               has_lines(operand) ? fmt::format("out.{}", ld_of(i, dialect)) : std::string("0"));
    } else {
      words += fmt::format("typename InMemory<{0}>::One x{1}, next{1};\n", type, i);
      const std::int64_t shared = row ? operand.per_n : operand.per_m;
      const std::string loads = fmt::format(
          "w.x{0} = bits_if({1}, first);\nw.next{0} = {2};\n", i, one,
          shared % 2 == 0 ? fmt::format("w.x{}", i) : fmt::format("bits_if({}, second)", other));
      if (!comes) inside += loads;
      alone += loads;
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
  if (brings) brought.move_to(files);
  for (auto& [name, lines] : files) lines = or_none(std::move(lines));
  return files;
}

}  // namespace kiln::expression
