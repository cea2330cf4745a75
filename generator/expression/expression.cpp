#include "kiln/expression.hpp"

#include <fmt/format.h>

#include <cassert>
#include <deque>
#include <map>
#include <mutex>

#include "generator/expression/program.h"

namespace kiln {
namespace expression {
namespace {

/// Never destroyed: threads may be at work when a program ends.
struct Table {
  std::mutex lock;
  std::map<std::string, const Program*, std::less<>> by_text;  // canonical ones
  std::deque<const Program*> by_id;                            // of id - 1
  std::map<std::string, const Program*, std::less<>> named;    // by names and text
};
Table& table() {
  static Table* const all = new Table;
  return *all;
}

}  // namespace

const Program* interned(Program program) {
  program.text = canonical_text(program);
  std::string names = program.text;
  bool canonical = true;
  for (std::size_t i = 0; i < program.operands.size(); ++i) {
    names += ' ' + program.operands[i].name;
    canonical = canonical && program.operands[i].name == fmt::format("x{}", i);
  }
  Table& all = table();
  const std::scoped_lock guard(all.lock);
  if (const auto known = all.named.find(names); known != all.named.end()) return known->second;
  const Program*& first = all.by_text[program.text];
  if (first == nullptr) {
    Program own = program;
    for (std::size_t i = 0; i < own.operands.size(); ++i)
      own.operands[i].name = fmt::format("x{}", i);
    own.id = static_cast<std::uint32_t>(all.by_id.size()) + 1;
    auto* const kept = new Program(std::move(own));
    kept->canonical = kept;
    first = all.by_id.emplace_back(kept);
  }
  if (canonical) return all.named[names] = first;
  program.id = first->id;
  program.canonical = first;
  return all.named[names] = new Program(std::move(program));
}

Expression transposed(const Expression& of) {
  if (of.empty()) return of;
  Program program = *of.program();
  const auto exchanged = [](Index index) {
    return index == Index::m ? Index::n : index == Index::n ? Index::m : index;
  };
  for (ExtraOperand& operand : program.operands)
    for (Index& index : operand.index) index = exchanged(index);
  for (Value& value : program.values)
    if (value.op == Op::index)
      value.which = static_cast<std::uint8_t>(exchanged(static_cast<Index>(value.which)));
  return Expression(interned(std::move(program)));
}

}  // namespace expression

Result<Expression> Expression::parse(std::string_view text) {
  Result<expression::Program> program = expression::parsed(text);
  if (!program) return tl::unexpected(program.error());
  return Expression(expression::interned(std::move(*program)));
}

std::string_view Expression::text() const { return empty() ? std::string_view{} : program_->text; }

std::span<const ExtraOperand> Expression::operands() const {
  if (empty()) return {};
  return program_->operands;
}

Expression Expression::with_operands(std::span<const ExtraOperand> operands) const {
  if (empty()) return *this;
  expression::Program program = *program_;
  assert(operands.size() == program.operands.size());
  program.operands.assign(operands.begin(), operands.end());
  return Expression(expression::interned(std::move(program)));
}

std::uint32_t Expression::id() const { return empty() ? 0 : program_->id; }

std::optional<Expression> Expression::of_id(std::int64_t id) {
  if (id == 0) return Expression{};
  expression::Table& all = expression::table();
  const std::scoped_lock guard(all.lock);
  if (id < 0 || id > std::ssize(all.by_id)) return std::nullopt;
  return Expression(all.by_id[static_cast<std::size_t>(id - 1)]);
}

}  // namespace kiln
