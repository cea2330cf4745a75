#include "kiln/expression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "generator/expression/definitions.h"
#include "generator/expression/functions.h"
#include "generator/expression/halves.h"
#include "generator/expression/program.h"

namespace kiln {
namespace expression {
namespace {

/// Canonical programs by their numbers, which calls read without a lock. Chunks never move.
class Numbered {
 public:
  static constexpr std::size_t kMade = 1 << 15, kMost = 6 * kMade;

  std::size_t count() const { return count_.load(std::memory_order_acquire); }
  const Program* operator[](std::size_t index) const {
    return chunks_[index / kChunk].load(std::memory_order_acquire)[index % kChunk];
  }
  /// Under a lock; count() < kMost.
  void add(const Program* program) {
    const std::size_t index = count();
    std::atomic<const Program**>& chunk = chunks_[index / kChunk];
    if (chunk == nullptr) chunk = new const Program* [kChunk] {};
    chunk.load()[index % kChunk] = program;
    count_.store(index + 1, std::memory_order_release);
  }

 private:
  static constexpr std::size_t kChunk = 256;
  std::array<std::atomic<const Program**>, kMost / kChunk> chunks_{};
  std::atomic<std::size_t> count_{0};
};

/// Never destroyed: threads may be at work when a program ends.
struct Table {
  std::mutex lock;
  std::map<std::string, const Program*, std::less<>> by_text;  // canonical ones
  std::map<std::string, const Program*, std::less<>> named;    // by names and text
  Numbered by_id;                                              // of id - 1; read without the lock
  std::size_t made = 0;                                        // of by_text, by programs
};
Table& table() {
  static Table* const all = new Table;
  return *all;
}

/// Gives a program of the table its halves, one of which is in the table too.
void divide(Program& program, Numbered& by_id) {
  if (!program.reads_reduced()) return;
  auto* const halves = new Halves(halves_of(program));
  for (Program* const product : {&halves->product, &halves->product_in_d}) {
    if (product == &halves->product_in_d && product->values.empty()) continue;
    product->half_of = halves;
    product->id = static_cast<std::uint32_t>(by_id.count()) + 1;
    by_id.add(product);
  }
  program.halves = halves;
}

/// Null: the table has no room for another one that a program makes. The rest of it is for
/// transposes, of which each such one has one, and for what kernels compute of both.
const Program* interned(Program program, bool made) {
  program.text = canonical_text(program);
  std::string names = program.text;
  bool canonical = true;
  const auto named = [&](const ExtraOperand& memory, char letter, std::size_t i) {
    names += fmt::format(" {}", memory.name);
    canonical = canonical && memory.name == fmt::format("{}{}", letter, i);
  };
  for (std::size_t i = 0; i < program.operands.size(); ++i) named(program.operands[i], 'x', i);
  for (std::size_t i = 0; i < program.outputs.size(); ++i) named(program.outputs[i].target, 'y', i);
  Table& all = table();
  const std::scoped_lock guard(all.lock);
  if (const auto known = all.named.find(names); known != all.named.end()) return known->second;
  auto first = all.by_text.find(program.text);
  const bool full = first == all.by_text.end() && all.made >= Numbered::kMade;
  if (made && (full || all.named.size() >= 2 * Numbered::kMade)) return nullptr;
  if (first == all.by_text.end()) {
    all.made += made;
    Program own = program;
    for (std::size_t i = 0; i < own.operands.size(); ++i)
      own.operands[i].name = fmt::format("x{}", i);
    for (std::size_t i = 0; i < own.outputs.size(); ++i)
      own.outputs[i].target.name = fmt::format("y{}", i);
    divide(own, all.by_id);
    own.id = static_cast<std::uint32_t>(all.by_id.count()) + 1;
    const auto* const added = new Program(std::move(own));
    all.by_id.add(added);
    first = all.by_text.emplace(added->text, added).first;
  }
  if (canonical) return all.named[names] = first->second;
  program.id = first->second->id;
  program.halves = first->second->halves;
  return all.named[names] = new Program(std::move(program));
}

bool is_known(const std::string& text) {
  Table& all = table();
  const std::scoped_lock guard(all.lock);
  return all.by_text.contains(text);
}

/// The expression of a program that a caller made. Whoever reads its text must find the same.
Result<Expression> kept(Program program) {
  const std::string text = canonical_text(program);
  if (!is_known(text))
    if (const auto again = parsed(text); !again)
      return fail(ErrorCode::bad_input, fmt::format("written out, {}", again.error().message));
  if (const Program* const found = interned(std::move(program), true)) return Expression(found);
  return fail(ErrorCode::unsupported,
              fmt::format("epilogue: more than {} expressions in one process", Numbered::kMade));
}

}  // namespace

Expression transposed(const Expression& of) {
  if (of.empty()) return of;
  Program program = *of.program();
  const auto exchanged = [](Index index) {
    return index == Index::m ? Index::n : index == Index::n ? Index::m : index;
  };
  const auto exchange = [&](ExtraOperand& memory) {
    for (Index& index : memory.index) index = exchanged(index);
    std::swap(memory.per_m, memory.per_n);
  };
  for (ExtraOperand& operand : program.operands) exchange(operand);
  for (ExtraOutput& output : program.outputs) exchange(output.target);
  for (Value& value : program.values) {
    if (value.op == Op::index)
      value.which = static_cast<std::uint8_t>(exchanged(static_cast<Index>(value.which)));
    std::swap(value.line.m, value.line.n);
  }
  return Expression(interned(std::move(program), false));
}

Expression of_product(const Expression& expression) {
  const Halves* const halves = halves_in(expression);
  return halves == nullptr ? expression : Expression(&halves->product);
}

Expression of_product_in_d(const Expression& expression) {
  const Halves* const halves = halves_in(expression);
  return halves == nullptr || halves->product_in_d.values.empty()
             ? of_product(expression)
             : Expression(&halves->product_in_d);
}

}  // namespace expression

std::vector<std::string_view> expression_functions() {
  std::vector<std::string_view> all;
  for (int i = 0; i < expression::kFunctionCount; ++i) {
    const std::string_view name = expression::kFunctions[i].name;
    if (expression::function_named(name) == i) all.push_back(name);
  }
  for (const expression::Definition& each : expression::definitions()) all.push_back(each.name);
  return all;
}

Result<Expression> Expression::parse(std::string_view text) {
  Result<expression::Program> program = expression::parsed(text);
  if (!program) return tl::unexpected(program.error());
  return expression::kept(std::move(*program));
}

std::string_view Expression::text() const { return empty() ? std::string_view{} : program_->text; }

std::span<const ExtraOperand> Expression::operands() const {
  if (empty()) return {};
  return program_->operands;
}

bool Expression::of_gate() const {
  return !empty() && (program_->uses(expression::Product::first) ||
                      program_->uses(expression::Product::second));
}

bool Expression::stores_d() const { return empty() || program_->stores_d; }

std::span<const ExtraOutput> Expression::outputs() const {
  if (empty()) return {};
  return program_->outputs;
}

namespace {

/// Whether `all` may take the place of the expression's own: `what` they are to the caller, `read`
/// or stored.
Status may_replace(std::string_view what, bool read, std::span<const ExtraOperand> own,
                   std::span<const ExtraOperand> all) {
  if (all.size() != own.size())
    return fail(ErrorCode::bad_input,
                fmt::format("{} = {}: the expression has {}", what, all.size(), own.size()));
  for (std::size_t i = 0; i < own.size(); ++i) {
    const ExtraOperand& given = all[i];
    const auto refuse = [&](std::string_view why) {
      return fail(ErrorCode::bad_input, fmt::format("{}[{}] ({}): {}", what, i, given.name, why));
    };
    if (!std::ranges::is_permutation(given.index, own[i].index) || given.per_m != own[i].per_m ||
        given.per_n != own[i].per_n)
      return refuse(fmt::format("must have the indices of {}", own[i].name));
    if (given.dtype && !expression::is_operand_type(*given.dtype))
      return refuse(
          fmt::format("dtype = {}: must be fp32, fp64, fp16 or bf16", kiln::name(*given.dtype)));
    if (given.host && !read) return refuse("host is of what an expression reads");
    if (given.host && !given.index.empty()) return refuse("host is of an operand without indices");
    if (given.ld < 0 || (given.ld != 0 && !expression::has_lines(given)))
      return refuse(fmt::format("ld = {}: must be 0, or positive where it has m and n", given.ld));
  }
  return {};
}

}  // namespace

Result<Expression> Expression::with_outputs(std::span<const ExtraOperand> targets) const {
  std::vector<ExtraOperand> own;
  for (const ExtraOutput& output : outputs()) own.push_back(output.target);
  if (Status ok = may_replace("outputs", false, own, targets); !ok)
    return tl::unexpected(ok.error());
  if (empty()) return *this;
  expression::Program program = *program_;
  for (std::size_t i = 0; i < targets.size(); ++i) program.outputs[i].target = targets[i];
  return expression::kept(std::move(program));
}

Result<Expression> Expression::with_operands(std::span<const ExtraOperand> operands) const {
  if (Status ok = may_replace("operands", true, this->operands(), operands); !ok)
    return tl::unexpected(ok.error());
  if (empty()) return *this;
  expression::Program program = *program_;
  program.operands.assign(operands.begin(), operands.end());
  return expression::kept(std::move(program));
}

std::uint32_t Expression::id() const { return empty() ? 0 : program_->id; }

std::optional<Expression> Expression::of_id(std::int64_t id) {
  if (id == 0) return Expression{};
  const expression::Numbered& all = expression::table().by_id;
  if (id < 0 || static_cast<std::uint64_t>(id) > all.count()) return std::nullopt;
  return Expression(all[static_cast<std::size_t>(id - 1)]);
}

}  // namespace kiln
