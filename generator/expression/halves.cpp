#include "generator/expression/halves.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "generator/expression/functions.h"

namespace kiln::expression {
namespace {

/// The type of 16 bits that a value is a cast to.
std::optional<DType> narrow_type(const Value& value) {
  if (value.op != Op::call) return std::nullopt;
  if (value.which == function_bf16) return DType::bf16;
  if (value.which == function_fp16) return DType::fp16;
  return std::nullopt;
}

/// Which values go into which half.
struct Division {
  std::vector<Spread> spreads;
  std::vector<bool> of_product;      // made of acc by functions alone
  std::vector<std::uint8_t> lines;   // Op::reduced, of whole lines
  std::vector<std::uint8_t> blocks;  // and of blocks
  std::vector<std::uint8_t> kept;    // of each element, read behind the reductions
  std::vector<int> read;             // of each output the line that it is, if it is read; -1

  explicit Division(const Program& whole) : spreads(spreads_of(whole)) {
    const std::size_t count = whole.values.size();
    of_product.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const Value& value = whole.values[i];
      of_product[i] = value.op == Op::acc;
      for (int a = 0; value.op == Op::call && a < arity_of(value); ++a)
        of_product[i] = of_product[i] || of_product[value.of.at(static_cast<std::size_t>(a))];
      if (value.op == Op::reduced)
        (value.line.is_block() ? blocks : lines).push_back(static_cast<std::uint8_t>(i));
    }
    for (std::size_t i = 0; i < whole.outputs.size(); ++i) read.push_back(line_that_is(whole, i));
    std::set<std::uint8_t> cut;
    std::vector<bool> seen(count);
    for (const std::uint8_t root : roots(whole)) find_cut(whole, root, seen, cut);
    const std::set<std::uint8_t> products = products_under(whole, cut);
    const std::set<std::uint8_t>& least = products.size() < cut.size() ? products : cut;
    kept.assign(least.begin(), least.end());
    // One cast that all of them are made of takes their place.
    for (std::size_t i = 0; cut.size() > 1 && i < count; ++i) {
      const auto one = static_cast<std::uint8_t>(i);
      if (narrow_type(whole.values[i]) && of_product[i] && !is_behind(one) &&
          leads_to(whole, one, cut))
        kept = {one};
    }
  }

  bool is_behind(std::uint8_t value) const { return spreads[value].reduced; }
  /// Whether an output is stored behind the reductions.
  bool output_is_behind(const Program& whole, std::size_t i) const {
    return read[i] >= 0 || is_behind(whole.results[i]);
  }

 private:
  /// Whether these are made of the product by way of one value alone.
  static bool leads_to(const Program& whole, std::uint8_t one, const std::set<std::uint8_t>& all) {
    std::vector<bool> past(whole.values.size());  // made of the product otherwise
    for (std::size_t i = 0; i < past.size(); ++i) {
      const Value& value = whole.values[i];
      past[i] = value.op == Op::acc;
      for (int a = 0; i != one && a < arity_of(value); ++a)
        past[i] = past[i] || past[value.of.at(static_cast<std::size_t>(a))];
    }
    return std::ranges::none_of(all, [&](std::uint8_t each) { return past[each]; });
  }
  int line_that_is(const Program& whole, std::size_t output) const {
    if (!is_reduced(whole.outputs[output])) return -1;
    for (std::size_t line = 0; line < lines.size(); ++line) {
      const Value& value = whole.values[lines[line]];
      if (value.line == line_of(whole.outputs[output]) && value.of[0] == whole.results[output])
        return static_cast<int>(line);
    }
    return -1;
  }
  std::vector<std::uint8_t> roots(const Program& whole) const {
    std::vector<std::uint8_t> all;
    if (whole.stores_d && is_behind(whole.d)) all.push_back(whole.d);
    for (const std::uint8_t result : whole.results)
      if (is_behind(result)) all.push_back(result);
    return all;
  }
  /// The elements of products that some values are made of.
  static std::set<std::uint8_t> products_under(const Program& whole,
                                               const std::set<std::uint8_t>& some) {
    std::set<std::uint8_t> products;
    std::vector<bool> used(whole.values.size());
    for (const std::uint8_t value : some) used[value] = true;
    for (std::size_t i = whole.values.size(); i-- > 0;) {
      const Value& value = whole.values[i];
      if (used[i] && value.op == Op::acc) products.insert(static_cast<std::uint8_t>(i));
      for (int a = 0; used[i] && a < arity_of(value); ++a)
        used[value.of.at(static_cast<std::size_t>(a))] = true;
    }
    return products;
  }
  /// Numbers of products alone that others of `from` are made of.
  void find_cut(const Program& whole, std::uint8_t from, std::vector<bool>& seen,
                std::set<std::uint8_t>& cut) const {
    if (seen[from]) return;
    seen[from] = true;
    const Value& value = whole.values[from];
    const bool compares =
        value.op == Op::call && kFunctions[value.which].course == Course::comparison;
    if (!is_behind(from) && of_product[from] && !compares) {
      cut.insert(from);
      return;
    }
    if (value.op == Op::reduced && !value.line.is_block()) return;
    for (int a = 0; a < arity_of(value); ++a)
      find_cut(whole, value.of.at(static_cast<std::size_t>(a)), seen, cut);
  }
};

/// Values of a whole, copied with what they are made of; `replaced(i)`: another value for one.
template <typename Replaced>
class Copied {
 public:
  Copied(const Program& whole, Program& to, Replaced replaced)
      : whole_(whole), to_(to), replaced_(std::move(replaced)), place_(whole.values.size(), -1) {}

  std::uint8_t operator()(std::uint8_t at) {
    if (place_[at] >= 0) return static_cast<std::uint8_t>(place_[at]);
    Value value = whole_.values[at];
    if (const auto other = replaced_(at))
      value = *other;
    else
      for (int a = 0; a < arity_of(value); ++a) {
        auto& of = value.of.at(static_cast<std::size_t>(a));
        of = (*this)(of);
      }
    to_.values.push_back(value);
    return static_cast<std::uint8_t>(place_[at] = static_cast<int>(to_.values.size()) - 1);
  }

 private:
  const Program& whole_;
  Program& to_;
  Replaced replaced_;
  std::vector<int> place_;
};

constexpr Line kOfElements{.m = 1, .n = 1};

/// Memory of each product of a batch that has a value for each of these.
ExtraOperand memory_of_batch(std::string_view name, Line line) {
  ExtraOperand memory = memory_of(line);
  memory.name = name;
  memory.index.insert(memory.index.begin(), Index::batch);
  return memory;
}

Program product_of(const Program& whole, const Division& division) {
  Program out{.operands = whole.operands, .outputs = whole.outputs, .text = whole.text};
  Copied copy(whole, out, [](std::uint8_t) -> std::optional<Value> { return std::nullopt; });
  out.stores_d = whole.stores_d && !division.is_behind(whole.d);
  if (out.stores_d) out.d = copy(whole.d);
  for (std::size_t i = 0; i < whole.outputs.size(); ++i) {
    const bool behind = division.output_is_behind(whole, i);
    if (behind) out.outputs[i].reduction = Reduction::none;
    out.results.push_back(behind ? kNotStored : copy(whole.results[i]));
  }
  const auto more = [&](std::string_view name, Line line, std::uint8_t value) {
    out.outputs.push_back({.target = memory_of_batch(name, line), .reduction = line.how});
    out.results.push_back(copy(value));
  };
  for (const std::uint8_t line : division.lines)
    more("line", whole.values[line].line, whole.values[line].of[0]);
  for (const std::uint8_t kept : division.kept) {
    more("kept", kOfElements, kept);
    out.outputs.back().target.dtype = narrow_type(whole.values[kept]);
  }
  return out;
}

/// Behind the operands of the whole: what of the product's half is read, and values of blocks.
std::vector<ExtraOperand> operands_behind(const Program& whole, const Division& division) {
  std::vector<ExtraOperand> all = whole.operands;
  for (const std::uint8_t line : division.lines)
    all.push_back(memory_of_batch("line", whole.values[line].line));
  for (const std::uint8_t kept : division.kept) {
    all.push_back(memory_of_batch("kept", kOfElements));
    all.back().dtype = narrow_type(whole.values[kept]);
  }
  for (const std::uint8_t block : division.blocks)
    all.push_back(memory_of_batch("block", whole.values[block].line));
  return all;
}

/// Of a value that is an operand behind the reductions: its number behind those of the whole.
std::optional<std::size_t> read_behind(const Division& division, std::uint8_t value) {
  const auto place_in = [&](const std::vector<std::uint8_t>& some) {
    return static_cast<std::size_t>(std::ranges::find(some, value) - some.begin());
  };
  const std::size_t lines = division.lines.size(), keeps = division.kept.size();
  if (const std::size_t kept = place_in(division.kept); kept < keeps) return lines + kept;
  if (const std::size_t line = place_in(division.lines); line < lines) return line;
  if (const std::size_t block = place_in(division.blocks); block < division.blocks.size())
    return lines + keeps + block;
  return std::nullopt;
}

std::optional<Value> operand_behind(const Program& whole, const Division& division,
                                    std::uint8_t value) {
  const auto read = read_behind(division, value);
  if (!read) return std::nullopt;
  return Value{.op = Op::operand,
               .which = static_cast<std::uint8_t>(whole.operands.size() + *read)};
}

/// What is reduced of blocks.
Program blocks_of(const Program& whole, const Division& division) {
  Program out{.operands = operands_behind(whole, division), .stores_d = false};
  Copied copy(whole, out, [&](std::uint8_t at) { return operand_behind(whole, division, at); });
  for (const std::uint8_t block : division.blocks) {
    const Line line = whole.values[block].line;
    out.outputs.push_back({.target = memory_of_batch("block", line), .reduction = line.how});
    out.results.push_back(copy(whole.values[block].of[0]));
  }
  return out;
}

Program behind_of(const Program& whole, const Division& division) {
  Program out{.operands = operands_behind(whole, division), .outputs = whole.outputs};
  Copied copy(whole, out, [&](std::uint8_t at) { return operand_behind(whole, division, at); });
  out.stores_d = whole.stores_d && division.is_behind(whole.d);
  if (out.stores_d) out.d = copy(whole.d);
  for (std::size_t i = 0; i < whole.outputs.size(); ++i) {
    const int read = division.read[i];
    out.outputs[i].reduction = Reduction::none;
    out.results.push_back(!division.output_is_behind(whole, i) ? kNotStored
                          : read >= 0 ? copy(division.lines[static_cast<std::size_t>(read)])
                                      : copy(whole.results[i]));
  }
  return out;
}

}  // namespace

std::optional<std::size_t> shared_kept(const Program& product, std::size_t i) {
  const Halves* const halves = product.half_of;
  const ExtraOutput& output = product.outputs[i];
  if (halves == nullptr || !is_reduced(output) || reduces_all(output)) return std::nullopt;
  for (std::size_t kept = halves->first_kept(); kept < product.outputs.size(); ++kept) {
    const std::uint8_t result =
        product.results[kept] == kNotStored ? product.d : product.results[kept];
    if (product.results[i] == result && !product.outputs[kept].target.dtype) return kept;
  }
  return std::nullopt;
}

bool keeps_in_d(const Expression& product) {
  if (product.empty()) return false;
  const Program& program = *product.program();
  const Halves* const halves = program.half_of;
  return halves != nullptr && halves->kept > 0 &&
         program.results[halves->first_kept()] == kNotStored;
}

bool keeps_narrow(const Program& product, std::size_t i) {
  return product.half_of != nullptr && i >= product.half_of->first_kept() &&
         product.outputs[i].target.dtype.has_value();
}

bool reads_pairs_alone(const Expression& expression) {
  const Halves* const halves = halves_in(expression);
  return halves != nullptr && halves->lines == 0 &&
         std::ranges::all_of(halves->blocks.outputs, [](const ExtraOutput& block) {
           return (block.reduction == Reduction::even || block.reduction == Reduction::odd) &&
                  block.target.per_n == 2;
         });
}

bool reduces_rows_behind(const Expression& product) {
  return !product.empty() && product.program()->half_of != nullptr &&
         std::ranges::all_of(product.outputs(), [](const ExtraOutput& output) {
           return !is_reduced(output) || line_of(output).m == 1;
         });
}

Program shown_to_neighbours(const Program& whole) {
  Program out{.operands = whole.operands, .stores_d = false};
  Copied copy(whole, out, [](std::uint8_t) -> std::optional<Value> { return std::nullopt; });
  for (const Value& value : whole.values) {
    if (value.op != Op::reduced) continue;
    out.outputs.push_back({.target = memory_of(value.line), .reduction = value.line.how});
    out.results.push_back(copy(value.of[0]));
  }
  return out;
}

Halves halves_of(const Program& whole) {
  const Division division(whole);
  Halves halves{.product = product_of(whole, division),
                .blocks = blocks_of(whole, division),
                .behind = behind_of(whole, division),
                .outputs = whole.outputs.size(),
                .lines = division.lines.size(),
                .kept = division.kept.size()};
  if (halves.kept > 0 && !halves.product.stores_d) {
    Program& in_d = halves.product_in_d = halves.product;
    in_d.stores_d = true;
    in_d.d = std::exchange(in_d.results[halves.first_kept()], kNotStored);
  }
  halves.stores_elements = halves.behind.stores_d || !division.blocks.empty();
  for (std::size_t i = 0; i < whole.outputs.size(); ++i) {
    if (halves.behind.results[i] == kNotStored) continue;
    const ExtraOperand& target = whole.outputs[i].target;
    halves.stores_elements |= is_matrix(target);
    halves.stores_rows |= has_index(target, Index::m);
    halves.stores_columns |= has_index(target, Index::n);
  }
  return halves;
}

int hidden_outputs(const Program& whole) {
  const Division division(whole);
  return static_cast<int>(division.lines.size() + division.kept.size());
}

}  // namespace kiln::expression
