#include "generator/expression/program.h"
#include "generator/expression/writer.h"

namespace kiln::expression {
namespace {

/// As the parser reads it, without a space.
struct TextStyle {
  static constexpr bool kFuses = false;
  const Program& program;

  static std::string acc() { return "acc"; }
  static std::string index(Index which) { return std::string(index_name(which)); }
  static Bound number(double x) {
    std::string digits = fmt::format("{}", x);
    const int binds = digits[0] == '-' ? kBindsSign : kBindsAtom;
    return {std::move(digits), binds};
  }
  static std::optional<Bound> reciprocal(double) { return std::nullopt; }
  std::string operand(std::size_t which) const {
    return memory_text(fmt::format("x{}", which), program.operands[which]);
  }
  static std::string infix(const Function& f, std::string_view left, std::string_view right) {
    return fmt::format("{}{}{}", left, f.infix, right);
  }
  static std::string call(const Function& f, const std::vector<Bound>& arguments) {
    std::string out = fmt::format("{}(", f.name);
    for (std::size_t i = 0; i < arguments.size(); ++i)
      out += fmt::format("{}{}", i > 0 ? "," : "", arguments[i].text);
    return out + ')';
  }
  static std::string reduced(Line line, std::string_view value) {
    const std::string_view index = line.m ? "m" : line.n ? "n" : "";
    return fmt::format("{}[{}]({})", reduction_name(line.how), index, value);
  }
  static std::string statement(std::string_view name, std::string_view value) {
    return fmt::format("{}={};", name, value);
  }
};

}  // namespace

int arity_of(const Value& value) {
  return value.op == Op::call ? kFunctions[value.which].arity : value.op == Op::reduced ? 1 : 0;
}

std::vector<Spread> spreads_of(const Program& program) {
  std::vector<Spread> all(program.values.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Value& value = program.values[i];
    Spread& own = all[i];
    const auto indexed = [&](Index index) {
      if (value.op == Op::operand) return has_index(program.operands[value.which], index);
      return value.op == Op::acc || (value.op == Op::index && Index{value.which} == index);
    };
    own = {indexed(Index::m), indexed(Index::n), value.op == Op::reduced};
    if (value.op == Op::reduced) {
      const Line line = Line::of(value.which);
      own.m = line.m, own.n = line.n;
    }
    for (int a = 0; value.op == Op::call && a < arity_of(value); ++a) {
      const Spread& of = all[value.of.at(static_cast<std::size_t>(a))];
      own.m |= of.m, own.n |= of.n, own.reduced |= of.reduced;
    }
  }
  return all;
}

std::vector<int> Program::uses() const {
  std::vector<int> all(values.size());
  for (const Value& value : values)
    for (int i = 0; i < arity_of(value); ++i) ++all[value.of.at(static_cast<std::size_t>(i))];
  if (stores_d) ++all[d];
  for (const std::uint8_t result : results)
    if (result != kNotStored) ++all[result];
  return all;
}

bool Program::uses(Op op) const {
  for (const Value& value : values)
    if (value.op == op) return true;
  return false;
}

std::string memory_text(std::string_view name, const ExtraOperand& operand) {
  std::string out = fmt::format("{}[", name);
  for (std::size_t i = 0; i < operand.index.size(); ++i)
    out += fmt::format("{}{}", i > 0 ? "," : "", index_name(operand.index[i]));
  out += ']';
  if (operand.dtype) out += fmt::format(":{}", kiln::name(*operand.dtype));
  if (operand.ld != 0) out += fmt::format(":ld={}", operand.ld);
  return out;
}

std::string canonical_text(const Program& program) {
  Writer writer(program, TextStyle{program});
  std::string out = writer.named_values();
  if (program.stores_d) out += fmt::format("d={};", writer.result());
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const auto& [target, reduction] = program.outputs[i];
    const std::string value = writer.result(i);
    out += fmt::format("{}=", memory_text(fmt::format("y{}", i), target));
    out += reduction == Reduction::none ? fmt::format("{};", value)
                                        : fmt::format("{}({});", reduction_name(reduction), value);
  }
  out.pop_back();
  return out;
}

}  // namespace kiln::expression
