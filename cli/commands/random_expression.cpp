#include "cli/commands/random_expression.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "generator/expression/definitions.h"
#include "generator/expression/functions.h"

namespace kiln::cli {
namespace {

namespace language = expression;

/// Operands, of which a text has the first few that it draws.
constexpr std::array kDrawnOperands{"b[n]",
                                    "r[m,n]",
                                    "s[m]",
                                    "t[n,m]:fp32",
                                    "c[]",
                                    "e[batch,n]",
                                    "f[batch,m,n]",
                                    "g[n]:fp16",
                                    "h[m,n]:bf16",
                                    "i[batch]",
                                    "j[m]:fp64",
                                    "k[batch,n,m]",
                                    "s2[m,n/2]",
                                    "s3[n/3]",
                                    "s4[m/4,n]",
                                    "s5[m/5]:bf16",
                                    "s6[batch,n/6,m/2]",
                                    "s7[]:host",
                                    "s9[]:bf16:host"};

/// What is read of many elements: of each of them in {}.
constexpr std::array kDrawnReductions{"sum[m]({})", "max[n]({})", "min[]({})",
                                      "logsumexp[m](min({},8))"};

/// The same of blocks, by rows and by columns.
constexpr std::array kDrawnBlocks{
    "even({})",         "odd({})",        "max[m,n/32]({})", "sum[m,n/8]({})",
    "min[m,n/128]({})", "max[m,n/2]({})", "sum[m,n/64]({})", "logsumexp[m,n/16](min({},8))"};
constexpr std::array kDrawnBlocksOfColumns{
    "even[m/2,n]({})",  "odd[m/2,n]({})", "max[m/32,n]({})", "sum[m/8,n]({})",
    "min[m/128,n]({})", "max[m/2,n]({})", "sum[m/64,n]({})", "logsumexp[m/16,n](min({},8))"};

/// What of blocks is stored.
constexpr std::array kDrawnStoredBlocks{";z[batch,m,n/128]=1+max(abs({}))",
                                        ";z[batch,n/32,m]:bf16=max(abs({}))/448",
                                        ";z[batch,m,n/2]:fp16=min({})", ";z[batch,m,n/16]=sum({})"};
constexpr std::array kDrawnStoredBlocksOfColumns{
    ";z[batch,n,m/128]=1+max(abs({}))", ";z[batch,m/32,n]:bf16=max(abs({}))/448",
    ";z[batch,m/2,n]:fp16=min({})", ";z[batch,m/16,n]=sum({})"};

/// Whole numbers, of which there are remainders.
constexpr std::array kDrawnWholes{"n", "m", "(m+n)", "(m*3+n)", "round(abs(acc))"};

/// What is stored beside D, with the index that a batch needs.
constexpr std::array kDrawnOutputs{";u[batch,m,n]={}",         ";p[batch,m]=sum({})",
                                   ";v[batch,n]:fp16=max({})", ";w[batch,n,m]:bf16={}",
                                   ";q[batch,n]=sum({})",      ";x[batch]=min({})",
                                   ";o[batch,m,n]:fp32={}",    ";l[batch,m]=logsumexp(min({},8))",
                                   ";a[batch]=sum({})"};

class ExpressionDraw {
 public:
  ExpressionDraw(Draw& draw, Order order, bool gate = false)
      : draw_(draw), by_rows_(order == Order::row_major), gate_(gate) {}

  std::string text() {
    std::string out;
    // A value of its own, which what follows may use several times.
    if (draw_.one_in(2)) {
      const bool narrow = draw_.one_in(3);
      out = fmt::format("y={};", narrow ? cast(value(2)) : value(2));
      named_ = true;
    }
    // Sometimes what is stored is made of what is reduced.
    if (draw_.one_in(4)) out += reduced("line", kDrawnReductions);
    // Blocks may be made of what is reduced of whole lines.
    const bool reads_lines = !reduced_.empty();
    for (const char* const name : {"block", "other"})
      if (draw_.one_in(5))
        out += by_rows_ ? reduced(name, kDrawnBlocks) : reduced(name, kDrawnBlocksOfColumns);
    reduced_.insert(reduced_.end(), blocks_.begin(), blocks_.end());
    // Sometimes there is no D.
    const bool stores_beside = draw_.one_in(3), stores_d = !stores_beside || !draw_.one_in(3);
    if (stores_d) out += fmt::format("d={}", value(3));
    if (!stores_beside) return out;
    const bool reads = !std::exchange(reduced_, {}).empty();
    std::string stored;
    const std::uint64_t first = draw_.below(kDrawnOutputs.size());
    for (std::uint64_t i = 0; i < 1 + draw_.below(2); ++i) {
      const std::string_view output = kDrawnOutputs.at((first + 3 * i) % kDrawnOutputs.size());
      stored += fmt::format(fmt::runtime(output), value(2));
    }
    if (!reads && draw_.one_in(4))
      stored += fmt::format(";root[batch,m]=rsqrt(1+sum(abs({})))", value(2));
    else if (!reads_lines && draw_.one_in(3))
      stored += by_rows_ ? one_of(kDrawnStoredBlocks) : one_of(kDrawnStoredBlocksOfColumns);
    return out + stored.substr(stores_d ? 0 : 1);
  }

 private:
  /// One of some texts, with a value in it.
  template <std::size_t kCount>
  std::string one_of(const std::array<const char*, kCount>& texts) {
    const char* const text = texts.at(draw_.below(kCount));
    return fmt::format(fmt::runtime(text), value(2));
  }

  /// A statement that reduces, by one of some texts. Blocks are not made of blocks.
  template <std::size_t kCount>
  std::string reduced(const char* name, const std::array<const char*, kCount>& texts) {
    const std::string made = fmt::format("{}={};", name, one_of(texts));
    (std::string_view(name) == "line" ? reduced_ : blocks_).emplace_back(name);
    return made;
  }

  std::string leaf() {
    switch (draw_.below(8)) {
      case 0:
        return draw_.one_in(2) ? "m*0.01" : "n*0.01";
      case 1:
        return fmt::format("{}", double(draw_.between(-40, 40)) / 16);
      case 2:
      case 3:
      case 4:
        return kDrawnOperands.at(first_ + draw_.below(3));
      case 5:
        if (!reduced_.empty()) return reduced_[draw_.below(reduced_.size())];
        if (named_) return "y";
        [[fallthrough]];
      default:
        if (gate_) return draw_.one_in(2) ? "acc0" : "acc1";
        return "acc";
    }
  }

  std::string value(int depth) {
    if (depth == 0 || draw_.one_in(5)) return leaf();
    if (draw_.one_in(16)) return fmt::format("pair({},{})", value(depth - 1), value(depth - 1));
    // Few, for what they are made of counts as what is written.
    if (!defined_ && draw_.one_in(8)) return defined();
    const auto row = draw_.below(static_cast<std::uint64_t>(language::kFunctionCount));
    const language::Function& f = language::kFunctions[row];
    const auto inner = [&] { return value(depth - 1); };
    switch (f.course) {
      case language::Course::comparison:
        return fmt::format("where({}{}{},{},{})", inner(), f.infix, inner(), inner(), inner());
      case language::Course::choice:
        return fmt::format("where({}>0,{},{})", inner(), inner(), inner());
      case language::Course::quotient:
        // Nearly always of what is never 0, or all that is known of a result is that it may be
        // anything.
        if (!draw_.one_in(6)) return fmt::format("({})/(1+abs({}))", inner(), inner());
        [[fallthrough]];
      case language::Course::sum:
      case language::Course::difference:
      case language::Course::product:
        return fmt::format("({}){}({})", inner(), f.infix, inner());
      case language::Course::drawn:
        return fmt::format("{}({},m,n)", f.name, draw_.below(1000));
      case language::Course::remainder:
        return fmt::format("({}%{})*0.25", kDrawnWholes.at(draw_.below(kDrawnWholes.size())),
                           1 + draw_.below(9));
      default:
        return call(f, depth);
    }
  }

  std::string cast(const std::string& x) {
    return fmt::format("{}({})", draw_.one_in(2) ? "bf16" : "fp16", x);
  }

  std::string defined() {
    defined_ = true;
    const auto all = language::definitions();
    const language::Definition& f = all[draw_.below(all.size())];
    std::string first = leaf();
    if (f.name == "log1p" || f.name == "expm1") first = fmt::format("min(abs({}),8)", first);
    std::string out = fmt::format("{}({}", f.name, first);
    for (int i = 1; i < f.arity(); ++i) out += fmt::format(",{}", 1 + draw_.below(40));
    return out + ")";
  }

  std::string call(const language::Function& f, int depth) {
    if (f.name == language::kNegate) return fmt::format("-({})", value(depth - 1));
    std::string first = value(depth - 1);
    const bool guarded = !draw_.one_in(6);
    if (guarded && f.domain == 0) first = fmt::format("0.25+abs({})", first);
    if (guarded && f.name == "exp") first = fmt::format("min({},8)", first);
    std::string out = fmt::format("{}({}", f.name, first);
    for (int i = 1; i < f.arity; ++i) out += fmt::format(",{}", value(depth - 1));
    return out + ")";
  }

  Draw& draw_;
  bool by_rows_;  // as D lies
  bool gate_;     // there are two products
  bool named_ = false, defined_ = false;
  std::vector<std::string> reduced_, blocks_;  // names of what may be read, and of blocks
  std::uint64_t first_ = draw_.below(kDrawnOperands.size() - 2);
};

}  // namespace

std::string random_expression(Draw& draw, Order order) {
  return ExpressionDraw(draw, order).text();
}

std::string random_gate(Draw& draw) {
  for (;;) {
    const std::string text = ExpressionDraw(draw, Order::row_major, true).text();
    // It may name neither product, acc in a remainder, or keep more than can be.
    if (const auto parsed = Expression::parse(text); parsed && parsed->of_gate()) return text;
  }
}

}  // namespace kiln::cli
