#include "kiln/terms.hpp"

#include <fmt/format.h>

#include <map>
#include <string>

#include "generator/expression/functions.h"
#include "generator/expression/program.h"
#include "generator/expression/writer.h"

namespace kiln::terms {

struct Term::Node {
  std::string text;      // of a leaf, else the function or operator
  std::vector<Term> of;  // its arguments; none: a leaf
};

namespace {

/// Terms as the text of statements: what is used twice has one of its own.
class Text {
 public:
  std::string statements(const Term* d, const std::vector<Stored>& beside) {
    if (d != nullptr) count(*d);
    for (const Stored& each : beside) count(each.value);
    const std::string last = d != nullptr ? fmt::format("d={}", value(*d)) : std::string();
    std::string stored;
    for (const Stored& each : beside) {
      const std::string made = value(each.value);
      stored += fmt::format(";{}=", expression::memory_text(each.target.name, each.target));
      stored += each.reduction == Reduction::none
                    ? made
                    : fmt::format("{}({})", expression::reduction_name(each.reduction), made);
    }
    // Without d nothing stands before the first of them.
    if (last.empty() && !stored.empty()) stored.erase(0, 1);
    return fmt::format("{}{}{}", named_, last, stored);
  }

 private:
  void count(const Term& term) {
    if (uses_[term.node()]++ > 0) return;
    for (const Term& each : term.node()->of) count(each);
  }

  std::string value(const Term& term) {
    const Term::Node& node = *term.node();
    if (const auto known = names_.find(&node); known != names_.end()) return known->second;
    if (node.of.empty()) return node.text;
    std::vector<std::string> of;
    for (const Term& each : node.of) of.push_back(value(each));
    if (is_comparison(node)) return fmt::format("{}{}{}", of[0], node.text, of[1]);
    const bool sign = expression::operator_named(node.text) >= 0;
    std::string made = sign && of.size() == 2 ? fmt::format("({}{}{})", of[0], node.text, of[1])
                       : node.text == expression::kNegate
                           ? fmt::format("(-({}))", of[0])
                           : fmt::format("{}({})", node.text, fmt::join(of, ","));
    if (uses_[&node] < 2) return made;
    // No operand and no output has such a name.
    const std::string name = fmt::format("kiln_t{}", names_.size());
    named_ += fmt::format("{}={};", name, made);
    return names_[&node] = name;
  }

  static bool is_comparison(const Term::Node& node) {
    const int row = expression::operator_named(node.text);
    return row >= 0 && expression::kFunctions[row].course == expression::Course::comparison;
  }

  std::map<const Term::Node*, int> uses_;
  std::map<const Term::Node*, std::string> names_;
  std::string named_;
};

}  // namespace

Term::Term(double number)
    : node_(std::make_shared<const Node>(Node{fmt::format("{}", number), {}})) {}

Term Term::call(std::string_view name, std::vector<Term> of) {
  return Term(std::make_shared<const Node>(Node{std::string(name), std::move(of)}));
}

Term Term::leaf(std::string_view text) {
  return Term(std::make_shared<const Node>(Node{std::string(text), {}}));
}

Term operand(const ExtraOperand& operand) {
  return Term::leaf(expression::memory_text(operand.name, operand));
}

Term reduced(Reduction how, const Term& x, const std::vector<Index>& per) {
  const auto text = expression::memory_text(expression::reduction_name(how), {.index = per});
  return Term::call(text, {x});
}

Term reduced_of_blocks(Reduction how, const Term& x, std::int64_t size) {
  const expression::Line line{.how = how, .m = 1, .n = size};
  const auto text =
      expression::memory_text(expression::reduction_name(how), expression::memory_of(line));
  return Term::call(text, {x});
}

Result<Expression> to_expression(const Term& d, const std::vector<Stored>& beside) {
  return Expression::parse(Text().statements(&d, beside));
}

Result<Expression> to_expression(const std::vector<Stored>& stored) {
  return Expression::parse(Text().statements(nullptr, stored));
}

}  // namespace kiln::terms
