#include "tuner/verify/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "generator/expression/evaluate.h"
#include "generator/problem/amax.h"
#include "generator/problem/operands.h"
#include "generator/problem/quantised_d.h"
#include "generator/problem/whole_factors.h"
#include "kiln/numeric.hpp"
#include "tuner/verify/accumulate.h"
#include "tuner/verify/added_by_zeros.h"
#include "tuner/verify/interval.h"
#include "tuner/verify/reduced_lines.h"
#include "tuner/verify/roundoffs.h"
#include "tuner/verify/terms.h"
#include "tuner/verify/view.h"

namespace kiln {
namespace {

/// A [lines,k] against B [k,length], both already transposed so that lines are rows.
struct Oriented {
  MatrixView a, b;
};

Oriented oriented(const Gemm& gemm, const void* a, const void* b, std::int64_t batch,
                  Lines::Along along, const Scales& scales) {
  const MatrixView left = scaled_view_of(gemm, Operand::a, a, scales.a, nullptr, batch, scales.k);
  const MatrixView right =
      scaled_view_of(gemm, Operand::b, b, scales.b, scales.zero_b, batch, scales.k);
  if (along == Lines::Along::rows) return {left, right};
  return {right.transposed(), left.transposed()};
}

/// Rows of op(A) that were asked for, padded with zeros to whole panels of k.
std::vector<double> gather_lines(const MatrixView& a, std::span<const std::int64_t> index,
                                 std::int64_t padded_k) {
  std::vector<double> rows(index.size() * static_cast<std::size_t>(padded_k), 0.0);
  for (std::size_t i = 0; i < index.size(); ++i)
    load_block(a, index[i], 1, 0, a.columns, rows.data() + i * padded_k);
  return rows;
}

/// Values along k that one panel covers; past the end both factors are zero.
void load_panel(const MatrixView& b, std::int64_t p, std::int64_t j, double* panel) {
  const std::int64_t depth = std::min<std::int64_t>(kPanelDepth, b.rows - p);
  const std::int64_t width = std::min<std::int64_t>(kPanelWidth, b.columns - j);
  if (depth == kPanelDepth && width == kPanelWidth) return load_block(b, p, depth, j, width, panel);
  std::fill_n(panel, kPanelDepth * kPanelWidth, 0.0);
  double tight[kPanelDepth * kPanelWidth];
  load_block(b, p, depth, j, width, tight);
  for (std::int64_t q = 0; q < depth; ++q)
    std::copy_n(tight + q * width, width, panel + q * kPanelWidth);
}

/// The scales of the lines of one operand of integers: a number for each row of op(A) or column of
/// op(B). Empty without scales.
std::vector<double> scales_of_lines(const Gemm& gemm, Operand which, const void* scales,
                                    std::int64_t batch) {
  if (scale_of(gemm, which) == Scale::none) return {};
  const Operand of = scales_of(which);
  const bool one = scale_of(gemm, which) == Scale::tensor;
  std::vector<double> lines(
      static_cast<std::size_t>(which == Operand::a ? gemm.m : gemm.columns_of_b()));
  for (std::size_t i = 0; i < lines.size(); ++i)
    lines[i] =
        load_element(dtype_of(gemm, of), scales,
                     batch * batch_stride(gemm, of) + (one ? 0 : static_cast<std::int64_t>(i)));
  return lines;
}

/// Multiplies sums of integers, which are exact, by the scales of their rows and columns: scales
/// that are multiplied before leave rounding errors of double in a sum that is 0.
void scale_sums(const Gemm& gemm, const Scales& scales, const std::vector<std::int64_t>& wanted,
                Products& out) {
  const std::vector<double> a = scales_of_lines(gemm, Operand::a, scales.a, out.lines.batch),
                            b = scales_of_lines(gemm, Operand::b, scales.b, out.lines.batch);
  const bool by_rows = out.lines.along == Lines::Along::rows;
  const std::vector<double>&ours = by_rows ? a : b, &others = by_rows ? b : a;
  const auto length = static_cast<std::size_t>(out.length);
  for (std::size_t i = 0; i < out.sum.size(); ++i) {
    const double scale = (ours.empty() ? 1.0 : ours[static_cast<std::size_t>(wanted[i / length])]) *
                         (others.empty() ? 1.0 : others[i % length]);
    out.sum[i] *= scale;
    out.magnitude[i] *= std::fabs(scale);
  }
}

/// One strip of kPanelWidth columns for `count` lines from line `first`, over all of k.
void sum_strip(const MatrixView& b, const std::vector<double>& lines, std::int64_t padded_k,
               std::int64_t first, std::int64_t j, bool compensated, Products& out) {
  const std::int64_t count = static_cast<std::int64_t>(lines.size()) / padded_k;
  const std::int64_t width = std::min<std::int64_t>(kPanelWidth, b.columns - j);
  std::vector<double> panel(kPanelDepth * kPanelWidth);
  std::vector<double> sums(count * kPanelWidth), lows(sums.size()), magnitudes(sums.size());
  for (std::int64_t p = 0; p < padded_k; p += kPanelDepth) {
    load_panel(b, p, j, panel.data());
    for (std::int64_t i = 0; i < count; ++i) {
      const double* a = lines.data() + i * padded_k + p;
      double *sum = &sums[i * kPanelWidth], *magnitude = &magnitudes[i * kPanelWidth];
      if (compensated)
        accumulators().compensated(a, panel.data(), sum, &lows[i * kPanelWidth], magnitude);
      else
        accumulators().plain(a, panel.data(), sum, magnitude);
    }
  }
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t from = i * kPanelWidth + x, to = (first + i) * out.length + j + x;
      // An infinite sum has a meaningless low part.
      out.sum[to] = std::isfinite(sums[from]) ? sums[from] + lows[from] : sums[from];
      out.magnitude[to] = magnitudes[from];
    }
}

bool smooth(Activation f) {
  return f == Activation::gelu_tanh || f == Activation::gelu_erf || f == Activation::silu;
}

/// Integer sums that are only stored, or clipped at zero, are never rounded; nor are those of which
/// an integer is made by whole factors.
bool stays_integer(const Gemm& gemm, const Scaling& s) {
  if (whole_factors(gemm, s.alpha, s.beta)) return true;
  return gemm.accumulator == DType::s32 && scaling_roundoffs(gemm) == 0.0 && s.alpha == 1.0 &&
         s.beta == 0.0 && gemm.epilogue.bias == Bias::none && !gemm.epilogue.residual &&
         gemm.epilogue.expression.empty() && !gated(gemm) && !smooth(gemm.epilogue.activation);
}

double activated(Activation f, double x) {
  switch (f) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0.0 ? 0.0 : x;  // NaN stays
    case Activation::gelu_tanh: {
      const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return 0.5 * x * (1.0 + std::tanh(inner));
    }
    case Activation::gelu_erf:
      return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
    case Activation::silu:
      return x / (1.0 + std::exp(-x));
  }
  return x;
}

/// The activation that a gate is; a sigmoid is none.
Activation activation_of(Gate gate) {
  switch (gate) {
    case Gate::relu:
      return Activation::relu;
    case Gate::gelu_tanh:
      return Activation::gelu_tanh;
    case Gate::gelu_erf:
      return Activation::gelu_erf;
    case Gate::silu:
      return Activation::silu;
    case Gate::sigmoid:
    case Gate::expression:
      break;
  }
  return Activation::none;
}

/// No activation is steeper than this anywhere (gelu peaks at 1.13, silu at 1.10).
constexpr double kSteepest = 1.13;
/// An approximated gelu or silu is x times a factor in [0,1]; the factor may be off by this many
/// unit roundoffs. A polynomial tanh, erf or sigmoid in the accumulator's type stays under 10.
constexpr double kFactorRoundoffs = 16.0;
/// Roundings in alpha, beta, their products and the additions, for each term.
constexpr double kStepRoundoffs = 4.0;

void activate(Activation f, double u, std::span<double> value, std::span<double> error) {
  if (f == Activation::none) return;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (smooth(f)) error[i] = kSteepest * error[i] + kFactorRoundoffs * u * std::fabs(value[i]);
    value[i] = activated(f, value[i]);
  }
}

/// As activate(). A sigmoid is such a factor by itself.
void apply_gate(Gate gate, double u, std::span<double> value, std::span<double> error) {
  if (gate != Gate::sigmoid) return activate(activation_of(gate), u, value, error);
  for (std::size_t i = 0; i < value.size(); ++i) {
    value[i] = 1.0 / (1.0 + std::exp(-value[i]));
    error[i] = kSteepest * error[i] + kFactorRoundoffs * u;
  }
}

/// Which lines of the product the wanted lines of D are made of.
std::vector<std::int64_t> lines_of_product(const Gemm& gemm, const Lines& wanted) {
  if (!gated(gemm) || wanted.along == Lines::Along::rows) return wanted.index;
  std::vector<std::int64_t> all;
  for (const std::int64_t j : wanted.index)
    for (const Factor factor : kFactors) all.push_back(columns_of(gemm, factor)(j));
  return all;
}

/// alpha times a sum, plus beta times C where there is one, plus the bias.
class Affine {
 public:
  Affine(const Gemm& gemm, const Scaling& scaling, const Allowance& allow)
      : alpha_(scaling.alpha),
        beta_(scaling.beta),
        per_sum_(allow.per_sum),
        per_step_(allow.per_step),
        biased_(gemm.epilogue.bias != Bias::none),
        // A sum that never leaves the denormal range may be lost again with each product.
        flushed_(scaling.flushed * 2.0 * (static_cast<double>(gemm.k) + 1.0) *
                 std::fabs(scaling.alpha)) {}

  void apply(std::span<const double> sum, std::span<const double> magnitude,
             std::span<const double> c, std::span<const double> bias, std::span<double> value,
             std::span<double> error) const {
    for (std::size_t i = 0; i < value.size(); ++i) {
      value[i] = alpha_ * sum[i];
      error[i] = per_sum_ * magnitude[i] + per_step_ * std::fabs(value[i]) + flushed_;
    }
    if (beta_ != 0.0) add(c, beta_, per_step_, value, error);
    if (biased_) add(bias, 1.0, per_step_, value, error);
  }

  static void add(std::span<const double> term, double factor, double roundoff,
                  std::span<double> value, std::span<double> error) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      const double addend = factor * term[i];
      error[i] += roundoff * (std::fabs(value[i]) + std::fabs(addend));
      value[i] += addend;
    }
  }

 private:
  double alpha_, beta_, per_sum_, per_step_;
  bool biased_;
  double flushed_;
};

/// What an expression makes of a run of elements. Blocks of what it reduces are made of the run
/// itself.
class ExpressedRun {
 public:
  /// One of the expression's values: in fp64, and as an interval.
  struct Expected {
    double value = 0;
    intervals::Interval all;
  };

  /// Elements of a product, and how far a right kernel's may be off.
  struct Elements {
    std::span<const double> value, error;
  };

  /// `second`: with a gate, of as many elements as the first product has.
  ExpressedRun(const Gemm& gemm, const Scaling& scaling, const Terms& t, Elements first,
               Elements second)
      : gemm_(gemm),
        program_(*gemm.epilogue.expression.program()),
        t_(t),
        first_(first),
        second_(second),
        steps_(intervals::steps_of(program_)),
        precision_(intervals::precision_of(gemm.d.dtype == DType::fp64 ? DType::fp64 : DType::fp32,
                                           scaling.flushed)) {
    for (std::size_t i = 0; i < program_.values.size(); ++i)
      if (program_.values[i].op == expression::Op::reduced) reduced_.push_back(i);
    assert(reduced_.size() <= expression::kMostReduced);
    of_lines_.resize(first.value.size() * reduced_.size());
    intervals_.assign(of_lines_.size(), intervals::anything(precision_));
    take_lines();
  }

  /// What of the run's blocks `result` is made of.
  void reduce_blocks(std::size_t result) {
    std::vector<bool> used(program_.values.size());
    used[result] = true;
    for (std::size_t i = result + 1; i-- > 0;)
      for (int a = 0; used[i] && a < expression::arity_of(program_.values[i]); ++a)
        used[program_.values[i].of.at(static_cast<std::size_t>(a))] = true;
    for (std::size_t r = 0; r < reduced_.size(); ++r) {
      const bool given = r < t_.reduced.size() && !t_.reduced[r].value.empty();
      if (used[reduced_[r]] && program_.values[reduced_[r]].line.is_block() && !given) reduce(r);
    }
  }

  Expected at(std::size_t result, std::size_t i) const {
    const auto m = static_cast<double>(t_.rows_before + row(i)), n = static_cast<double>(column(i));
    std::array<double, kExtraOperands> operands{};
    for (const Operand which : kOperands)
      if (is_extra(which) && present(gemm_, which))
        operands.at(index_of_extra(which)) = t_[which][i];
    const std::size_t first = i * reduced_.size();
    const std::span<const double> lines(of_lines_.data() + first, reduced_.size());
    const bool two = !second_.value.empty();
    const auto interval = [&](const Elements& of) {
      return intervals::within(of.value[i], of.error[i], precision_);
    };
    const intervals::Interval products[2] = {interval(first_), interval(two ? second_ : first_)};
    return {
        evaluated(program_,
                  {first_.value[i], operands, m, n, lines, two ? second_.value[i] : 0})[result],
        intervals::expression_interval(steps_.data(), static_cast<int>(result), precision_,
                                       products, operands.data(), intervals_.data() + first, m, n)};
  }

  /// The same as expect() says it.
  intervals::ExpectedReduction with_error(const Expected& x) const {
    const intervals::Interval& all = x.all;
    const bool one = all.low == all.high && !all.nan;
    if (is_empty(all))  // a NaN, whatever fp64 says
      return {std::numeric_limits<double>::quiet_NaN(), 0};
    if (all.nan || (!one && is_infinite(all, precision_)))
      return {x.value, std::numeric_limits<double>::infinity()};
    return {x.value, one ? 0 : std::max(all.high - x.value, x.value - all.low)};
  }

 private:
  bool by_rows() const { return t_.along == Lines::Along::rows; }
  std::int64_t place(std::size_t i) const { return t_.first + static_cast<std::int64_t>(i); }
  std::int64_t row(std::size_t i) const { return by_rows() ? t_.line : place(i); }
  std::int64_t column(std::size_t i) const { return by_rows() ? place(i) : t_.line; }

  void put(std::size_t i, std::size_t r, const Expected& x) {
    of_lines_[i * reduced_.size() + r] = x.value;
    intervals_[i * reduced_.size() + r] = x.all;
  }

  /// What is given of lines.
  void take_lines() {
    for (std::size_t r = 0; r < t_.reduced.size(); ++r) {
      const ExpectedLines& lines = t_.reduced[r];
      for (std::size_t i = 0; !lines.value.empty() && i < first_.value.size(); ++i) {
        const auto line = static_cast<std::size_t>(lines.m ? row(i) : lines.n ? column(i) : 0);
        const double value = lines.value[line];
        put(i, r, {value, intervals::interval_of({value, lines.error[line]}, precision_)});
      }
    }
  }

  /// Blocks that lie across the run, or of which it has some elements alone, may be anything.
  void reduce(std::size_t r) {
    const expression::Value& value = program_.values[reduced_[r]];
    const std::int64_t size = by_rows() ? value.line.n : value.line.m;
    if (size <= 1) return;
    const std::int64_t length = by_rows() ? gemm_.n : gemm_.m;
    const std::int64_t end = t_.first + std::ssize(first_.value);
    for (std::int64_t begin = (t_.first + size - 1) / size * size; begin < end; begin += size) {
      const std::int64_t behind = std::min(begin + size, length);
      if (behind > end) return;
      const auto first = static_cast<std::size_t>(begin - t_.first);
      const auto count = static_cast<std::size_t>(behind - begin);
      const Expected one = of_block(value, first, count);
      for (std::size_t i = first; i < first + count; ++i) put(i, r, one);
    }
  }

  Expected of_block(const expression::Value& value, std::size_t first, std::size_t count) const {
    const Reduction how = value.line.how;
    if (how == Reduction::even || (how == Reduction::odd && count == 1))
      return at(value.of[0], first);
    if (how == Reduction::odd) return at(value.of[0], first + 1);
    intervals::ReducedElements all = intervals::no_elements(static_cast<int>(how), precision_);
    for (std::size_t i = first; i < first + count; ++i) {
      const auto [x, error] = with_error(at(value.of[0], i));
      take_in(all, x, error, precision_);
    }
    const intervals::ExpectedReduction expected = expected_of(all, precision_);
    return {expected.value, interval_of(expected, precision_)};
  }

  const Gemm& gemm_;
  const expression::Program& program_;
  const Terms& t_;
  Elements first_, second_;
  std::vector<intervals::ExpressionStep> steps_;
  intervals::Precision precision_;
  std::vector<std::size_t> reduced_;            // which values are
  std::vector<double> of_lines_;                // elements × those
  std::vector<intervals::Interval> intervals_;  // likewise
};

/// What an expression makes of each element. Where a right kernel may store anything the error is
/// infinite.
void express(const Gemm& gemm, const Scaling& scaling, const Terms& t, int wanted,
             std::span<double> value, std::span<double> error, ExpressedRun::Elements second) {
  const auto result = static_cast<std::size_t>(
      wanted == kValueOfD ? gemm.epilogue.expression.program()->d : wanted);
  ExpressedRun run(gemm, scaling, t, {value, error}, second);
  run.reduce_blocks(result);
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto [x, off] = run.with_error(run.at(result, i));
    value[i] = x, error[i] = off;
  }
}

}  // namespace

std::optional<Lines::Along> along_blocks(const Gemm& gemm) {
  if (gemm.epilogue.expression.empty()) return std::nullopt;
  for (const expression::Value& value : gemm.epilogue.expression.program()->values) {
    if (value.line.n > 1) return Lines::Along::rows;
    if (value.line.m > 1) return Lines::Along::columns;
  }
  return std::nullopt;
}

Products products(const Gemm& gemm, const void* a, const void* b, Lines lines,
                  const Scales& scales) {
  const bool integers = gemm.accumulator == DType::s32;
  Scales before = scales;  // what is applied before sums are taken
  if (integers) before.a = before.b = nullptr;
  const Oriented views = oriented(gemm, a, b, lines.batch, lines.along, before);
  Products out;
  out.lines = std::move(lines);
  out.length = views.b.columns;
  const std::vector<std::int64_t> wanted = lines_of_product(gemm, out.lines);
  out.sum.resize(wanted.size() * out.length);
  out.magnitude.resize(out.sum.size());
  const std::int64_t padded_k = (gemm.k + kPanelDepth - 1) / kPanelDepth * kPanelDepth;
  // Lines in groups, so that the group's part of A and its sums stay in L2.
  constexpr std::size_t kGroup = 32;
  const std::span<const std::int64_t> index = wanted;
  for (std::size_t first = 0; first < index.size() && padded_k > 0; first += kGroup) {
    const auto group = index.subspan(first, std::min(kGroup, index.size() - first));
    const std::vector<double> rows = gather_lines(views.a, group, padded_k);
    for (std::int64_t j = 0; j < out.length; j += kPanelWidth)
      sum_strip(views.b, rows, padded_k, first, j, gemm.accumulator == DType::fp64, out);
  }
  AddedByZeros(gemm, before, out.lines.batch).subtract(out.lines.along, wanted, out.sum);
  if (integers) scale_sums(gemm, scales, wanted, out);
  return out;
}

std::vector<std::int32_t> integer_products(const Gemm& gemm, const void* a, const void* b,
                                           std::int64_t batch, const Scales& scales) {
  const bool rows = gemm.d.order == Order::row_major;
  const Oriented views =
      oriented(gemm, a, b, batch, rows ? Lines::Along::rows : Lines::Along::columns, scales);
  const std::int64_t lines = views.a.rows, length = views.b.columns;
  // Sixteen lines at once, so that a strided operand is read by whole cache lines.
  constexpr std::int64_t kBlock = 16;
  std::vector<double> block(kBlock * std::max(length, gemm.k));
  std::vector<std::int8_t> right(gemm.k * length);
  for (std::int64_t p = 0; p < gemm.k; p += kBlock) {
    const std::int64_t depth = std::min(kBlock, gemm.k - p);
    load_block(views.b, p, depth, 0, length, block.data());
    std::transform(block.begin(), block.begin() + depth * length, right.begin() + p * length,
                   [](double x) { return static_cast<std::int8_t>(x); });
  }
  std::vector<std::int32_t> sums(lines * length);
  for (std::int64_t i = 0; i < lines; ++i) {
    const std::int64_t within = i % kBlock;
    if (within == 0) load_block(views.a, i, std::min(kBlock, lines - i), 0, gemm.k, block.data());
    const double* row = block.data() + within * gemm.k;
    for (std::int64_t p = 0; p < gemm.k; ++p)
      if (row[p] != 0.0)
        accumulators().integer(static_cast<std::int32_t>(row[p]), right.data() + p * length,
                               sums.data() + i * length, length);
  }
  AddedByZeros(gemm, scales, batch).subtract(sums);
  return sums;
}

Allowance allowance(const Gemm& gemm, const Scaling& scaling) {
  const double u = unit_roundoff(gemm);
  const bool exact = scaling.exact || stays_integer(gemm, scaling);
  // What a smooth activation, a gate or an expression yields may be no integer, so adding to it
  // rounds even on exact data.
  const bool inexact = !exact || gated(gemm) || smooth(gemm.epilogue.activation) ||
                       !gemm.epilogue.expression.empty();
  Allowance allow{.per_step = exact ? 0.0 : u * kStepRoundoffs,
                  .per_residual = inexact ? u * kStepRoundoffs : 0.0,
                  .unit = u,
                  .steepest = kSteepest,
                  .factor = kFactorRoundoffs,
                  .per_gate = u * kStepRoundoffs};
  if (exact) return allow;
  // Exact sums are rounded as the values that they are, not as the products that they are made of.
  if (gemm.accumulator == DType::s32)
    allow.per_step += u * scaling_roundoffs(gemm);
  else
    allow.per_sum = std::fabs(scaling.alpha) * sum_roundoff(gemm);
  return allow;
}

void expect(const Gemm& gemm, const Scaling& scaling, const Terms& t, std::span<double> value,
            std::span<double> error, int wanted) {
  const std::size_t count = t.sum.size();
  assert(value.size() == count && error.size() == count);
  const Allowance allow = allowance(gemm, scaling);
  const Affine affine(gemm, scaling, allow);
  affine.apply(t.sum, t.magnitude, t[Operand::c], t[Operand::bias], value, error);
  const bool whole = whole_factors(gemm, scaling.alpha, scaling.beta).has_value();
  const auto wrap = [&] {
    if (whole) std::ranges::transform(value, value.begin(), wrapped);
  };
  wrap();
  std::vector<double> other(gated(gemm) ? count : 0), off(other.size());
  affine.apply(t.second.sum, t.second.magnitude, {}, t.second.bias, other, off);
  if (!gemm.epilogue.expression.empty())
    return express(gemm, scaling, t, wanted, value, error, {other, off});
  if (gated(gemm)) {
    apply_gate(gemm.epilogue.gate->function, allow.unit, value, error);
    for (std::size_t i = 0; i < count; ++i) {
      error[i] = error[i] * (std::fabs(other[i]) + off[i]) + std::fabs(value[i]) * off[i];
      value[i] *= other[i];
      error[i] += allow.per_gate * std::fabs(value[i]);
    }
  }
  activate(gemm.epilogue.activation, allow.unit, value, error);
  if (gemm.epilogue.residual)
    Affine::add(t[Operand::residual], 1.0, allow.per_residual, value, error);
  wrap();
  for (std::size_t i = 0; i < count; ++i)
    error[i] = error[i] <= std::numeric_limits<double>::max() ? error[i] : 0.0;
}

bool accepts(DType dtype, double value, double error, double got) {
  if (std::isinf(error)) return true;
  if (std::isnan(value)) return is_floating(dtype) ? std::isnan(got) : got == 0;
  if (got == value) return true;
  return got >= round_to(dtype, value - error) && got <= round_to(dtype, value + error);
}

namespace {

/// Values of one row of D become codes and, where they follow from it, its scales are written.
void store_codes(const Gemm& gemm, const Operands& in, std::int64_t batch, std::int64_t row,
                 std::span<double> value) {
  const std::int64_t step = columns_of_a_scale(gemm);
  for (std::int64_t first = 0; first < gemm.n; first += step) {
    const auto some = value.subspan(first, std::min(step, gemm.n - first));
    const std::int64_t place = place_of_scale(gemm, batch, row, first);
    float largest = 0;
    for (const double x : some) largest = larger_magnitude(largest, static_cast<float>(x));
    if (is_output(gemm, Operand::scale_d))
      store_element(fp32, in.scale_d, place, scale_for(gemm.d.dtype, largest));
    const auto scale = static_cast<float>(load_element(fp32, in.scale_d, place));
    for (double& x : some) x = in_units(static_cast<float>(x), scale);
  }
}

/// What the expression reduces and reads of one batch, by products of all its rows.
std::vector<ExpectedLines> lines_of_whole(const Gemm& gemm, const Operands& in,
                                          std::int64_t batch) {
  if (!reads_reduced(gemm)) return {};
  Lines rows{Lines::Along::rows, batch,
             std::vector<std::int64_t>(static_cast<std::size_t>(gemm.m))};
  std::iota(rows.index.begin(), rows.index.end(), 0);
  const Products all = products(gemm, in.a, in.b, std::move(rows), scales_in(in));
  const KnownLines known(gemm, all);
  return reduced_lines(gemm, in, {in.alpha, in.beta}, {&known, 1}, batch);
}

}  // namespace

Status reference_gemm(const Gemm& gemm, const Operands& in) {
  if (const auto problem = Problem::of(gemm); !problem) return tl::unexpected(problem.error());
  const bool empty = gemm.m == 0 || gemm.n == 0;
  for (const Operand which : kOperands) {
    const bool of_rows = which == Operand::scale_d && gemm.d.q.scale == Scale::line;
    if (empty && which != Operand::amax_d && !of_rows) continue;
    const bool read = which == Operand::c ? in.beta != 0.0 : span(gemm, which) > 0;
    if (read && pointer(in, which) == nullptr)
      return fail(ErrorCode::bad_input,
                  fmt::format("{} = null: this problem needs it", name(which)));
  }
  if (gemm.n == 0 && gemm.d.q.scale == Scale::line)  // of no element the largest magnitude is 0
    std::fill_n(static_cast<float*>(in.scale_d), span(gemm, Operand::scale_d), 1.0F);
  // By rows, unless columns hold the blocks of an expression, beside which D has no scales.
  const Lines::Along along = along_blocks(gemm).value_or(Lines::Along::rows);
  const bool rows = along == Lines::Along::rows;
  std::vector<double> value(rows ? gemm.n : gemm.m), error(value.size());
  std::uint32_t largest = 0;
  for (std::int64_t batch = 0; !empty && batch < gemm.batch; ++batch) {
    const MatrixView by_rows = view_of(gemm, Operand::d, in.d, batch);
    const MatrixView d = rows ? by_rows : by_rows.transposed();
    const std::vector<ExpectedLines> reduced = lines_of_whole(gemm, in, batch);
    TermReader terms(gemm, in, batch, along, reduced);
    for (std::int64_t i = 0; i < d.rows; ++i) {
      const Products line = products(gemm, in.a, in.b, {along, batch, {i}}, scales_in(in));
      expect(gemm, {in.alpha, in.beta}, terms.read(line, 0, 0, d.columns), value, error);
      for (const double x : value) largest = std::max(largest, magnitude_bits(x));
      if (gemm.d.q.scale != Scale::none) store_codes(gemm, in, batch, i, value);
      store_row(d, i, 0, d.columns, value.data());
    }
  }
  if (gemm.amax_d) *static_cast<std::uint32_t*>(in.amax_d) = largest;
  return {};
}

}  // namespace kiln
