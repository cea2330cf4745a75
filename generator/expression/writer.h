// A program as statements: what canonical texts and code have in common. A value that is used twice
// has a name and a statement of its own, parentheses are those that operators need.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "generator/expression/functions.h"
#include "generator/expression/program.h"

namespace kiln::expression {

/// A text, and how tightly its outermost operator binds.
struct Bound {
  std::string text;
  int binds;
};
inline constexpr int kBindsAtom = kBindsSign + 1;

/// An operand, or the target of an output, by this name, as the parser reads it.
std::string memory_text(std::string_view name, const ExtraOperand& operand);

/// `Style` writes what values are made of, acc(product), operand(which), number(x), index(which),
/// and what holds them: call(function, arguments), infix(function, left, right), reduced(line,
/// number, value), statement(name, value). index_remainder(index, x): what is left of an index, if
/// that is written otherwise. reciprocal(x): the factor in place of a division by a number, if it
/// has one. kFuses: whether it has fused(a, b, c), a·b + c rounded once.
template <typename Style>
class Writer {
 public:
  Writer(const Program& program, Style style)
      : program_(program),
        style_(std::move(style)),
        uses_(program.uses()),
        names_(program.values.size()) {}

  /// The values that have names, in order.
  std::string named_values() {
    std::string out;
    int count = 0;
    for (std::size_t i = 0; i < program_.values.size(); ++i) {
      const Value& v = program_.values[i];
      if (uses_[i] < 2 || arity_of(v) == 0) continue;
      if (v.op == Op::call && kFunctions[v.which].course == Course::comparison) continue;
      const std::string name = fmt::format("t{}", count++);
      out += style_.statement(name, value(i).text);
      names_[i] = name;
    }
    return out;
  }
  /// What D gets, behind them.
  std::string result() { return value(program_.d).text; }
  /// What an output gets.
  std::string result(std::size_t output) { return value(program_.results[output]).text; }

 private:
  static std::string within(const Bound& inner, int least) {
    return inner.binds < least ? fmt::format("({})", inner.text) : inner.text;
  }

  Bound value(std::size_t at) {
    if (!names_[at].empty()) return {names_[at], kBindsAtom};
    const Value& v = program_.values[at];
    switch (v.op) {
      case Op::acc:
        return {style_.acc(Product{v.which}), kBindsAtom};
      case Op::operand:
        return {style_.operand(v.which), kBindsAtom};
      case Op::number:
        return style_.number(v.number);
      case Op::index:
        return {style_.index(static_cast<Index>(v.which)), kBindsAtom};
      case Op::call:
        return call(v);
      case Op::reduced:
        return {style_.reduced(v.line, number_of_reduced(at), value(v.of[0]).text), kBindsAtom};
    }
    return {};
  }

  Bound call(const Value& v) {
    const Function& f = kFunctions[v.which];
    if constexpr (Style::kFuses)
      if (const auto sum = fused_sum(v)) return *sum;
    if (v.which == function_remainder && program_.values[v.of[0]].op == Op::index &&
        program_.values[v.of[1]].op == Op::number)
      if (const auto rest = style_.index_remainder(
              static_cast<Index>(program_.values[v.of[0]].which), program_.values[v.of[1]].number))
        return *rest;
    // Of equal operators the left ones are first, as the parser has them.
    if (f.course == Course::quotient && program_.values[v.of[1]].op == Op::number)
      if (const auto factor = style_.reciprocal(program_.values[v.of[1]].number))
        return {style_.infix(kFunctions[function_multiply], within(value(v.of[0]), f.binds),
                             factor->text),
                f.binds};
    if (!f.infix.empty())
      return {style_.infix(f, within(value(v.of[0]), f.binds), within(value(v.of[1]), f.binds + 1)),
              f.binds};
    // A sign before digits would be the number's.
    if (f.name == kNegate) {
      const bool number = program_.values[v.of[0]].op == Op::number;
      const Bound inner = value(v.of[0]);
      return {"-" + (number ? fmt::format("({})", inner.text) : within(inner, kBindsAtom)),
              kBindsSign};
    }
    std::vector<Bound> arguments;
    for (int i = 0; i < f.arity; ++i)
      arguments.push_back(value(v.of.at(static_cast<std::size_t>(i))));
    return {style_.call(f, arguments), kBindsAtom};
  }

  /// Of an Op::reduced, among those of the program.
  std::size_t number_of_reduced(std::size_t at) const {
    const auto end = program_.values.begin() + static_cast<std::ptrdiff_t>(at);
    return static_cast<std::size_t>(std::count_if(
        program_.values.begin(), end, [](const Value& v) { return v.op == Op::reduced; }));
  }

  /// The factors of a product that has no name; of a division those that stand for it.
  std::optional<std::array<Bound, 2>> factors(std::size_t at) {
    const Value& v = program_.values[at];
    if (v.op != Op::call || !names_[at].empty()) return std::nullopt;
    const Course course = kFunctions[v.which].course;
    if (course == Course::product) return std::array{value(v.of[0]), value(v.of[1])};
    if (course != Course::quotient || program_.values[v.of[1]].op != Op::number)
      return std::nullopt;
    const auto factor = style_.reciprocal(program_.values[v.of[1]].number);
    if (!factor) return std::nullopt;
    return std::array{value(v.of[0]), *factor};
  }

  /// x·y + z, x·y - z and z - x·y.
  std::optional<Bound> fused_sum(const Value& v) {
    const Course course = kFunctions[v.which].course;
    if (course != Course::sum && course != Course::difference) return std::nullopt;
    const auto minus = [](const Bound& x) { return fmt::format("-{}", within(x, kBindsAtom)); };
    const bool subtracts = course == Course::difference;
    if (const auto left = factors(v.of[0])) {
      const Bound right = value(v.of[1]);
      return style_.fused((*left)[0].text, (*left)[1].text, subtracts ? minus(right) : right.text);
    }
    if (const auto right = factors(v.of[1]))
      return style_.fused(subtracts ? minus((*right)[0]) : (*right)[0].text, (*right)[1].text,
                          value(v.of[0]).text);
    return std::nullopt;
  }

  const Program& program_;
  Style style_;
  std::vector<int> uses_;
  std::vector<std::string> names_;
};

}  // namespace kiln::expression
