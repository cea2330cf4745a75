#include <numeric>

#include "generator/expression/program.h"
#include "generator/expression/writer.h"

namespace kiln::expression {
namespace {

/// As the parser reads it, without a space.
struct TextStyle {
  static constexpr bool kFuses = false;
  const Program& program;

  static std::string acc(Product product) { return std::string(product_name(product)); }
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
  static std::optional<Bound> index_remainder(Index, double) { return std::nullopt; }
  static std::string reduced(Line line, std::size_t, std::string_view value) {
    const bool pairs = line.how == Reduction::even || line.how == Reduction::odd;
    if (pairs && line.m == 1 && line.n == 2)
      return fmt::format("{}({})", reduction_name(line.how), value);
    return fmt::format("{}({})", memory_text(reduction_name(line.how), memory_of(line)), value);
  }
  static std::string statement(std::string_view name, std::string_view value) {
    return fmt::format("{}={};", name, value);
  }
};

}  // namespace

ExtraOperand memory_of(Line line) {
  ExtraOperand memory;
  const auto add = [&](Index index, std::int64_t shared, std::int64_t& per) {
    if (shared == 0) return;
    memory.index.push_back(index);
    per = shared;
  };
  add(Index::m, line.m, memory.per_m);
  add(Index::n, line.n, memory.per_n);
  return memory;
}

int arity_of(const Value& value) {
  return value.op == Op::call ? kFunctions[value.which].arity : value.op == Op::reduced ? 1 : 0;
}

std::vector<Spread> spreads_of(const Program& program) {
  std::vector<Spread> all(program.values.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Value& value = program.values[i];
    Spread& own = all[i];
    const auto changes = [&](Line line) { own.m = line.m, own.n = line.n; };
    if (value.op == Op::acc) changes({.m = 1, .n = 1});
    if (value.op == Op::operand) changes(line_of(program.operands[value.which]));
    if (value.op == Op::index) (Index{value.which} == Index::m ? own.m : own.n) = 1;
    if (value.op == Op::reduced) {
      changes(value.line);
      own.reduced = true, own.of_blocks = value.line.is_block();
    }
    for (int a = 0; a < arity_of(value); ++a) {
      const Spread& of = all[value.of.at(static_cast<std::size_t>(a))];
      own.reduced |= of.reduced, own.of_blocks |= of.of_blocks;
      if (value.op == Op::call) own.m = std::gcd(own.m, of.m), own.n = std::gcd(own.n, of.n);
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

bool Program::uses(Product product) const {
  return std::ranges::any_of(values, [&](const Value& value) {
    return value.op == Op::acc && Product{value.which} == product;
  });
}

std::string memory_text(std::string_view name, const ExtraOperand& operand) {
  std::string out = fmt::format("{}[", name);
  for (std::size_t i = 0; i < operand.index.size(); ++i) {
    const Index index = operand.index[i];
    out += fmt::format("{}{}", i > 0 ? "," : "", index_name(index));
    const std::int64_t per = index == Index::m   ? operand.per_m
                             : index == Index::n ? operand.per_n
                                                 : 1;
    if (per != 1) out += fmt::format("/{}", per);
  }
  out += ']';
  if (operand.dtype) out += fmt::format(":{}", kiln::name(*operand.dtype));
  if (operand.ld != 0) out += fmt::format(":ld={}", operand.ld);
  if (operand.host) out += ":host";
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
