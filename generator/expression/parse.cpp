#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "generator/expression/definitions.h"
#include "generator/expression/functions.h"
#include "generator/expression/halves.h"
#include "generator/expression/program.h"

namespace kiln::expression {
namespace {

/// What stopped the parser: thrown within this file alone, since every step of a descent may fail.
struct Stopped {
  std::size_t column;
  std::string why;
};

bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool in_name(char c) { return starts_name(c) || is_digit(c); }

constexpr Index kAllIndices[] = {Index::batch, Index::m, Index::n};
constexpr Reduction kReductions[] = {Reduction::sum,       Reduction::max,  Reduction::min,
                                     Reduction::logsumexp, Reduction::even, Reduction::odd};
constexpr Product kProducts[] = {Product::one, Product::first, Product::second};
constexpr std::string_view kPair = "pair";
constexpr bool is_of_pairs(Reduction how) {
  return how == Reduction::even || how == Reduction::odd;
}

/// One text, from its first character to its last.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Program program() {
    if (text_.size() > kLongestText)
      stop(0, fmt::format("{} characters: at most {} are read", text_.size(), kLongestText));
    do statement();
    while (take(';') && at_ < text_.size());
    if (at_ < text_.size()) stop(at_, fmt::format("'{}' is not expected here", text_[at_]));
    const auto d = values_.find("d");
    program_.stores_d = d != values_.end();
    if (!program_.stores_d && program_.outputs.empty())
      stop(text_.size(), "no statement says what d is, or stores anything");
    Program used = with_used_alone(program_.stores_d ? d->second : program_.results.front());
    if (!used.reads_reduced()) return used;
    const auto reduced = std::ranges::count(used.values, Op::reduced, &Value::op);
    if (reduced > std::ptrdiff_t{kMostReduced})
      stop(text_.size(),
           fmt::format("{} values are reduced and read: at most {} can be", reduced, kMostReduced));
    const std::size_t all = used.outputs.size() + static_cast<std::size_t>(hidden_outputs(used));
    if (all > kExpressionOutputs)
      stop(text_.size(), fmt::format("{} values are stored or kept until all are reduced: at most "
                                     "{} can be",
                                     all, kExpressionOutputs));
    return used;
  }

 private:
  [[noreturn]] static void stop(std::size_t column, std::string why) {
    throw Stopped{column, std::move(why)};
  }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void need(char c) {
    if (!take(c)) stop(at_, fmt::format("'{}' is missing", c));
  }
  std::string_view name() {
    const std::size_t first = at_;
    if (at_ >= text_.size() || !starts_name(text_[at_])) stop(at_, "a name is missing");
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    return text_.substr(first, at_ - first);
  }

  void statement() {
    const std::size_t first = at_;
    const std::string_view target = name();
    const bool stored = at_ < text_.size() && text_[at_] == '[';
    if (stored && target == "d") stop(first, "d has no indices: the problem says where D lies");
    if (product_named(target) || target == "batch" || target == "m" || target == "n" ||
        target == kPair || is_function(target) || reduction_named(target))
      stop(first, fmt::format("{} has a meaning of its own", target));
    if (values_.contains(target)) stop(first, fmt::format("{} has a value already", target));
    if (operands_.contains(target)) stop(first, fmt::format("{} is an operand", target));
    if (outputs_.contains(target)) stop(first, fmt::format("{} is stored already", target));
    if (stored) return output(target, first);
    need('=');
    const std::uint8_t value = sum_of_products();
    values_.emplace(target, value);
  }

  void output(std::string_view target, std::size_t first) {
    if (program_.outputs.size() == kExpressionOutputs)
      stop(first, fmt::format("more than {} outputs beside d", kExpressionOutputs));
    ExtraOutput made{.target = declaration(target)};
    if (made.target.host) stop(first, "host is of what an expression reads");
    need('=');
    const std::size_t at = at_;
    const bool line = is_line(made);
    if (line) target_ = supported(line_of(made), first);
    std::uint8_t result = sum_of_products();
    target_.reset();
    outputs_.emplace(target, Stored{made.target, result});
    if (line) {
      const Spread spread = spreads_of(program_)[result];
      const Line own = line_of(made);
      if (!spread.is_one_of(own))
        stop(at,
             fmt::format("{} is of many elements: sum, max, min or logsumexp is missing", target));
      if (!spread.reduced) stop(at, fmt::format("{} is made of nothing that is reduced", target));
      const Value& value = program_.values[result];
      Line direct = own;
      direct.how = value.line.how;
      if (value.op == Op::reduced && value.line == direct && !direct.is_block()) {
        made.reduction = direct.how;
        result = value.of[0];
      }
    }
    program_.results.push_back(result);
    program_.outputs.push_back(std::move(made));
  }

  static std::optional<Reduction> reduction_named(std::string_view word) {
    const auto* const found = std::ranges::find(kReductions, word, reduction_name);
    if (found == std::end(kReductions)) return std::nullopt;
    return *found;
  }

  static std::optional<Product> product_named(std::string_view word) {
    const auto* const found = std::ranges::find(kProducts, word, product_name);
    if (found == std::end(kProducts)) return std::nullopt;
    return *found;
  }
  std::uint8_t product_value(Product product, std::size_t first) {
    if (product_ && (*product_ == Product::one) != (product == Product::one))
      stop(first, fmt::format("{} beside {}: there is one product, acc, or a gate's two, acc0 "
                              "and acc1",
                              product_name(product), product_name(*product_)));
    product_ = product;
    return value({.op = Op::acc, .which = static_cast<std::uint8_t>(product)});
  }

  /// `max[m](…)`: of each row; `max(…)`: of what the statement's target has one of.
  std::uint8_t reduction(Reduction how, std::string_view word, std::size_t first) {
    Line line;
    if (at_ < text_.size() && text_[at_] == '[') {
      const ExtraOperand said = declaration(word);
      if (is_matrix(said) || has_index(said, Index::batch) || said.dtype || said.ld != 0)
        stop(first, fmt::format("{0}: {0}[m], {0}[n] or {0}[] is missing", word));
      line = supported(line_of(said), first);
    } else if (is_of_pairs(how)) {
      line = {.m = 1, .n = 2};
    } else {
      line = target_or_stop(word, first);
    }
    need('(');
    line.how = how;
    if (is_of_pairs(how) && std::max(line.m, line.n) != 2)
      stop(first, fmt::format("{}: is of pairs, {}[m,n/2]", word, word));
    return reduced(line, sum_of_products(), first);
  }
  /// What kernels reduce: whole lines, and blocks of them.
  Line supported(Line line, std::size_t first) const {
    if (!line.is_block()) return line;
    const std::int64_t block = std::max(line.m, line.n);
    if (std::min(line.m, line.n) != 1)
      stop(first, "blocks lie in one row or column: [m,n/128] has both indices");
    if (block > kLargestBlock || (block & (block - 1)) != 0)
      stop(first,
           fmt::format("blocks are of 2, 4, … or {} elements: not of {}", kLargestBlock, block));
    return line;
  }
  Line target_or_stop(std::string_view word, std::size_t first) const {
    if (!target_)
      stop(first, fmt::format("{0} is of many elements: {0}[m], {0}[n] or {0}[] is missing", word));
    return *target_;
  }
  std::uint8_t reduced(Line line, std::uint8_t of, std::size_t first) {
    need(')');
    const Spread spread = spreads_of(program_)[of];
    // Both of a pair are the same then.
    if (is_of_pairs(line.how) && spread.is_one_of(line)) return of;
    if (line.is_block() ? spread.of_blocks : spread.reduced)
      stop(first, fmt::format("{} is of what is reduced already", reduction_name(line.how)));
    return value({.op = Op::reduced, .of = {of}, .line = line});
  }

  // The deepest nesting is limited, for each level is a frame of the stack.
  struct Deeper {
    explicit Deeper(Parser& parser) : parser(parser) {
      if (++parser.depth_ > 64) stop(parser.at_, "nested deeper than 64 parentheses");
    }
    ~Deeper() { --parser.depth_; }
    Parser& parser;
  };

  std::uint8_t binary(std::string_view operators, std::uint8_t (Parser::*next)()) {
    std::uint8_t left = (this->*next)();
    while (at_ < text_.size() && operators.find(text_[at_]) != operators.npos) {
      const int function = operator_named(text_.substr(at_++, 1));
      const std::uint8_t right = (this->*next)();
      left = call(function, {left, right, 0});
    }
    return left;
  }
  std::uint8_t sum_of_products() { return binary("+-", &Parser::product); }
  std::uint8_t product() { return binary("*/%", &Parser::sign); }
  std::uint8_t sign() {
    const Deeper level(*this);
    if (!take('-')) return primary();
    if (at_ < text_.size() && is_digit(text_[at_])) return number(true);
    for (int i = 0; i < kFunctionCount; ++i)
      if (kFunctions[i].name == kNegate) return call(i, {sign(), 0, 0});
    stop(at_, "no such function");
  }

  std::uint8_t primary() {
    if (at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '.')) return number(false);
    if (take('(')) {
      const std::uint8_t inner = sum_of_products();
      need(')');
      return inner;
    }
    const std::size_t first = at_;
    const std::string_view word = name();
    const char next = at_ < text_.size() ? text_[at_] : ' ';
    if (const auto how = reduction_named(word);
        how && (next == '[' || (next == '(' && !is_function(word))))
      return reduction(*how, word, first);
    if (next == '(' && word == kPair) return pair(word);
    if (next == '(') return function(word, first);
    if (next == '[') return operand(word, first);
    if (const auto product = product_named(word)) return product_value(*product, first);
    if (word == "m" || word == "n")
      return value(
          {.op = Op::index, .which = static_cast<std::uint8_t>(word == "m" ? Index::m : Index::n)});
    if (const auto known = values_.find(word); known != values_.end()) return known->second;
    if (const auto known = outputs_.find(word); known != outputs_.end())
      stop(first, !is_matrix(known->second.target)
                      ? fmt::format("{0} is stored: its indices are missing, {0}[…]", word)
                      : fmt::format("{} is stored: an expression cannot read it", word));
    if (operands_.contains(word))
      stop(first, fmt::format("{} is an operand: its indices are missing, {}[…]", word, word));
    stop(first, fmt::format("{} has no value", word));
  }

  /// `pair(x,y)`: x in even columns, y in odd ones.
  std::uint8_t pair(std::string_view word) {
    need('(');
    const std::uint8_t even = sum_of_products();
    if (!take(',')) stop(at_, fmt::format("{} has 2 arguments: ',' is missing", word));
    const std::uint8_t odd = sum_of_products();
    if (!take(')')) stop(at_, fmt::format("{} has 2 arguments: ')' is missing", word));
    const std::uint8_t column =
        value({.op = Op::index, .which = static_cast<std::uint8_t>(Index::n)});
    const std::uint8_t left =
        call(function_remainder, {column, value({.op = Op::number, .number = 2}), 0});
    const std::uint8_t first = call(function_equal, {left, value({.op = Op::number}), 0});
    return call(function_where, {first, even, odd});
  }

  std::uint8_t number(bool negative) {
    double x = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), x);
    if (error != std::errc{} || !std::isfinite(x)) stop(at_, "not a number that fp64 has");
    at_ += static_cast<std::size_t>(end - begin);
    if (at_ < text_.size() && in_name(text_[at_])) stop(at_, "a number ends with a letter");
    return value({.op = Op::number, .number = negative ? -x : x});
  }

  static bool is_function(std::string_view word) {
    return function_named(word) >= 0 || definition_named(word) != nullptr;
  }

  std::uint8_t function(std::string_view word, std::size_t first) {
    if (const Definition* const made = definition_named(word)) return defined(*made, first);
    const int row = function_named(word);
    if (row < 0) stop(first, fmt::format("no function is called {}", word));
    const Function& f = kFunctions[row];
    need('(');
    std::array<std::uint8_t, 3> of{};
    for (int i = 0; i < f.arity; ++i) {
      if (const auto how = reduction_named(word);
          i == 1 && how && at_ < text_.size() && text_[at_] == ')') {
        Line line = target_or_stop(word, first);
        line.how = *how;
        return reduced(line, of[0], first);
      }
      separate(word, f.arity, i);
      of.at(static_cast<std::size_t>(i)) =
          f.course == Course::choice && i == 0 ? comparison() : sum_of_products();
    }
    close(word, f.arity);
    return call(row, of);
  }
  /// Before argument i, and behind the last one.
  void separate(std::string_view word, int arity, int i) {
    if (i > 0 && !take(','))
      stop(at_, fmt::format("{} has {} arguments: ',' is missing", word, arity));
  }
  void close(std::string_view word, int arity) {
    if (!take(')'))
      stop(at_,
           fmt::format("{} has {} argument{}: ')' is missing", word, arity, arity == 1 ? "" : "s"));
  }

  /// What a definition's text makes of a call's arguments.
  std::uint8_t defined(const Definition& made, std::size_t first) {
    Parser inner(made.text);
    need('(');
    for (int i = 0; i < made.arity(); ++i) {
      separate(made.name, made.arity(), i);
      inner.values_.emplace(made.parameters.at(static_cast<std::size_t>(i)), sum_of_products());
    }
    close(made.name, made.arity());
    inner.program_ = std::move(program_);
    try {
      do inner.statement();
      while (inner.take(';'));
    } catch (const Stopped& stopped) {
      stop(first, fmt::format("{}: {}", made.name, stopped.why));
    }
    program_ = std::move(inner.program_);
    return inner.values_.at("d");
  }

  std::uint8_t comparison() {
    const std::uint8_t left = sum_of_products();
    for (const std::size_t length : {2, 1}) {
      const int row = operator_named(text_.substr(std::min(at_, text_.size()), length));
      if (row < 0 || kFunctions[row].course != Course::comparison) continue;
      at_ += length;
      return call(row, {left, sum_of_products(), 0});
    }
    stop(at_, "where() has a comparison first: <, <=, >, >=, == or != is missing");
  }

  ExtraOperand declaration(std::string_view word) {
    ExtraOperand operand{.name = std::string(word), .index = {}, .dtype = {}, .ld = 0};
    need('[');
    while (!take(']')) {
      if (!operand.index.empty()) need(',');
      const std::size_t first = at_;
      const std::string_view index = name();
      const auto* const found =
          std::ranges::find(kAllIndices, index, [](Index each) { return index_name(each); });
      if (found == std::end(kAllIndices))
        stop(first, fmt::format("{}: an index is batch, m or n", index));
      const Index which = *found;
      if (std::ranges::find(operand.index, which) != operand.index.end())
        stop(first, fmt::format("{} indexes {} twice", index, word));
      if (which == Index::batch && !operand.index.empty()) stop(first, "batch is the first index");
      operand.index.push_back(which);
      if (take('/')) (which == Index::m ? operand.per_m : operand.per_n) = shared(which, first);
    }
    while (take(':')) {
      const std::size_t first = at_;
      const std::string_view said = name();
      if (said == "ld") {
        need('=');
        const auto [end, error] =
            std::from_chars(text_.data() + at_, text_.data() + text_.size(), operand.ld);
        if (error != std::errc{} || operand.ld <= 0) stop(at_, "ld must be a number, 1 or more");
        at_ = static_cast<std::size_t>(end - text_.data());
        if (!has_lines(operand)) stop(first, "ld is of an operand with the indices m and n");
        continue;
      }
      if (said == "host") {
        if (!operand.index.empty()) stop(first, "host is of an operand without indices");
        operand.host = true;
        continue;
      }
      const auto type = dtype_from(said);
      if (!type || !is_operand_type(*type))
        stop(first, fmt::format("{}: a type of operands is fp32, fp64, fp16 or bf16", said));
      operand.dtype = *type;
    }
    return operand;
  }

  /// Neighbours that share an element: what stands behind `n/`.
  std::int64_t shared(Index which, std::size_t first) {
    if (which == Index::batch) stop(first, "batch: products of a batch share nothing");
    std::int64_t count = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), count);
    if (error != std::errc{} || count < 1 || count > std::numeric_limits<std::int32_t>::max())
      stop(at_, "a number of neighbours is missing, 1 or more");
    at_ = static_cast<std::size_t>(end - text_.data());
    return count;
  }

  std::uint8_t operand(std::string_view word, std::size_t first) {
    if (product_named(word) || word == "d" || word == kPair || is_function(word))
      stop(first, fmt::format("{} has a meaning of its own", word));
    if (values_.contains(word)) stop(first, fmt::format("{} is a value: it has no indices", word));
    if (const auto known = outputs_.find(word); known != outputs_.end()) {
      const ExtraOperand& target = known->second.target;
      if (is_matrix(target))
        stop(first, fmt::format("{} is stored: an expression cannot read it", word));
      const ExtraOperand said = declaration(word);
      if (said.host) stop(first, fmt::format("{} is stored: the host does not have it", word));
      if (!same_indices(said, target) || (said.dtype && said.dtype != target.dtype))
        stop(first, fmt::format("{} has other indices or another type than before", word));
      return known->second.value;
    }
    ExtraOperand said = declaration(word);
    const auto known = operands_.find(word);
    if (known == operands_.end()) {
      if (program_.operands.size() == kExtraOperands)
        stop(first, fmt::format("more than {} operands", kExtraOperands));
      operands_.emplace(word, static_cast<std::uint8_t>(program_.operands.size()));
      program_.operands.push_back(std::move(said));
      return value(
          {.op = Op::operand, .which = static_cast<std::uint8_t>(program_.operands.size() - 1)});
    }
    ExtraOperand& first_said = program_.operands[known->second];
    if (!same_indices(said, first_said))
      stop(first, fmt::format("{} has other indices than before", word));
    if ((said.dtype && said.dtype != first_said.dtype) ||
        (said.ld != 0 && said.ld != first_said.ld) || (said.host && !first_said.host))
      stop(first, fmt::format("{} has another type, ld or memory than before", word));
    return value({.op = Op::operand, .which = known->second});
  }

  static bool same_indices(const ExtraOperand& x, const ExtraOperand& y) {
    return x.index == y.index && x.per_m == y.per_m && x.per_n == y.per_n;
  }

  std::uint8_t call(int function, std::array<std::uint8_t, 3> of) {
    return value({.op = Op::call, .which = static_cast<std::uint8_t>(function), .of = of});
  }

  /// Each value once.
  std::uint8_t value(const Value& wanted) {
    auto& all = program_.values;
    const auto found = std::ranges::find_if(all, [&](const Value& each) {
      return each == wanted && std::signbit(each.number) == std::signbit(wanted.number);
    });
    if (found != all.end()) return static_cast<std::uint8_t>(found - all.begin());
    if (all.size() == kMostValues) stop(at_, fmt::format("more than {} values", kMostValues));
    all.push_back(wanted);
    return static_cast<std::uint8_t>(all.size() - 1);
  }

  /// What D, or what stands for it, and the outputs are made of, in the order in which it is met.
  Program with_used_alone(std::uint8_t d) {
    Program out;
    std::vector<int> place(program_.values.size(), -1), operand(program_.operands.size(), -1);
    const auto visit = [&](auto& self, std::uint8_t at) -> std::uint8_t {
      if (place[at] >= 0) return static_cast<std::uint8_t>(place[at]);
      Value value = program_.values[at];
      for (int i = 0; i < arity_of(value); ++i) {
        auto& of = value.of.at(static_cast<std::size_t>(i));
        of = self(self, of);
      }
      if (value.op == Op::operand) {
        int& to = operand[value.which];
        if (to < 0) {
          to = static_cast<int>(out.operands.size());
          out.operands.push_back(program_.operands[value.which]);
        }
        value.which = static_cast<std::uint8_t>(to);
      }
      out.values.push_back(value);
      return static_cast<std::uint8_t>(place[at] = static_cast<int>(out.values.size()) - 1);
    };
    out.d = visit(visit, d);
    for (const std::uint8_t result : program_.results) out.results.push_back(visit(visit, result));
    out.outputs = std::move(program_.outputs);
    out.stores_d = program_.stores_d;
    return out;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  Program program_;
  std::map<std::string_view, std::uint8_t> values_, operands_;
  struct Stored {
    ExtraOperand target;
    std::uint8_t value;
  };
  std::map<std::string_view, Stored> outputs_;
  std::optional<Line> target_;      // of the statement, where it has a value of a line
  std::optional<Product> product_;  // the last one that was named
};

}  // namespace

Result<Program> parsed(std::string_view text) {
  try {
    return Parser(text).program();
  } catch (const Stopped& stopped) {
    return fail(ErrorCode::bad_input,
                fmt::format("epilogue = {}: column {}: {}", text.substr(0, kLongestText),
                            stopped.column + 1, stopped.why));
  }
}

}  // namespace kiln::expression
