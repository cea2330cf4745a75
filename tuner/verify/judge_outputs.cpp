// What an expression stores beside D, compared with what the elements of D say.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "generator/expression/program.h"
#include "generator/problem/extent.h"
#include "kiln/numeric.hpp"
#include "tuner/verify/interval.h"
#include "tuner/verify/judge.h"
#include "tuner/verify/terms.h"
#include "tuner/verify/view.h"

namespace kiln {
namespace {

using expression::has_index;

/// One output of one batch, by lines of the product that are known.
class OutputOfBatch {
 public:
  OutputOfBatch(const DataSet& set, const Run& run, const Outputs& got, std::size_t output,
                std::int64_t batch, Lines::Along along)
      : set_(set),
        gemm_(set.gemm()),
        run_(run),
        which_(extra_output(output)),
        output_(output),
        batch_(batch),
        along_(along),
        data_(got.outputs[output]),
        precision_(intervals::precision_of(type_of_values(gemm_), run.flushed)),
        terms_(gemm_, inputs(set, run), batch, along) {
    const ExtraOutput& said = gemm_.epilogue.expression.outputs()[output];
    by_row_ = has_index(said.target, Index::m), by_column_ = has_index(said.target, Index::n);
    how_ = said.reduction;
    if (how_ == Reduction::none) return;
    reduced_.assign(static_cast<std::size_t>(by_row_      ? gemm_.m
                                             : by_column_ ? gemm_.n
                                                          : 1),
                    intervals::no_elements(static_cast<int>(how_), precision_));
  }

  /// `terms(j, count)`: of the line's elements [j, j + count).
  template <typename TermsOf>
  std::optional<Failure> line(std::int64_t i, TermsOf&& terms) {
    constexpr std::int64_t kChunk = 512;
    const std::int64_t length = along_ == Lines::Along::rows ? gemm_.n : gemm_.m;
    std::vector<double> value(kChunk), error(kChunk);
    for (std::int64_t j = 0; j < length; j += kChunk) {
      const auto count = static_cast<std::size_t>(std::min(kChunk, length - j));
      expect(gemm_, {run_.alpha, run_.beta, set_.recipe().data == Data::exact, run_.flushed},
             terms(j, static_cast<std::int64_t>(count)), {value.data(), count},
             {error.data(), count}, static_cast<int>(output_));
      for (std::size_t x = 0; x < count; ++x) {
        const std::int64_t other = j + static_cast<std::int64_t>(x);
        const bool rows = along_ == Lines::Along::rows;
        if (auto failure = element(rows ? i : other, rows ? other : i, value[x], error[x]))
          return failure;
      }
    }
    return std::nullopt;
  }
  TermReader& terms() { return terms_; }

  /// What is made of many elements, where all of them were taken in.
  std::optional<Failure> finish() const {
    const std::int64_t all = by_row_ ? gemm_.n : by_column_ ? gemm_.m : gemm_.m * gemm_.n;
    for (std::size_t i = 0; i < reduced_.size(); ++i) {
      if (reduced_[i].count != static_cast<double>(all)) continue;
      const auto [value, error] = intervals::expected_of(reduced_[i], precision_);
      const auto at = static_cast<std::int64_t>(i);
      if (auto failure = compare(by_row_ ? at : 0, by_row_ ? 0 : at, value, error)) return failure;
    }
    return std::nullopt;
  }

 private:
  static Operands inputs(const DataSet& set, const Run& run) {
    Operands operands{.beta = run.beta};
    set.bind(operands);
    return operands;
  }

  std::optional<Failure> element(std::int64_t row, std::int64_t column, double value,
                                 double error) {
    if (how_ == Reduction::none) return compare(row, column, value, error);
    const std::int64_t to = by_row_ ? row : by_column_ ? column : 0;
    intervals::take_in(reduced_[static_cast<std::size_t>(to)], value, error, precision_);
    return std::nullopt;
  }

  std::optional<Failure> compare(std::int64_t row, std::int64_t column, double value,
                                 double error) const {
    const DType type = dtype_of(gemm_, which_);
    const MatrixView view = view_of(gemm_, which_, data_, batch_);
    const std::int64_t at = view.offset(row, column);
    const double got = load_element(type, view.data, at);
    if (accepts(type, value, error, got)) return std::nullopt;
    return Failure{
        Failure::Kind::wrong_result,
        fmt::format("{} of batch {} row {} column {}: got {}{}, expected {} within {:.3g} before "
                    "rounding to {} ({} data{}, seed {}, alpha {}, beta {}; {})",
                    name(which_), batch_, row, column, got,
                    is_poison(type, view.data, at) ? " (never written)" : "", value, error,
                    name(type), name(set_.recipe().data),
                    set_.recipe().nonfinite ? " with NaN and infinity" : "", set_.recipe().seed,
                    run_.alpha, run_.beta, text(gemm_))};
  }

  const DataSet& set_;
  const Gemm& gemm_;
  const Run& run_;
  Operand which_;
  std::size_t output_;
  std::int64_t batch_;
  Lines::Along along_;
  const void* data_;
  bool by_row_ = false, by_column_ = false;
  Reduction how_ = Reduction::none;
  intervals::Precision precision_;
  TermReader terms_;
  std::vector<intervals::ReducedElements> reduced_;
};

std::optional<Failure> judge_whole(DataSet& set, const Run& run, const Outputs& got,
                                   std::size_t output) {
  const Gemm& gemm = set.gemm();
  const bool rows = gemm.d.order == Order::row_major;
  const auto along = rows ? Lines::Along::rows : Lines::Along::columns;
  const std::int64_t lines = rows ? gemm.m : gemm.n, length = rows ? gemm.n : gemm.m;
  for (std::int64_t b = 0; b < gemm.batch; ++b) {
    const std::vector<std::int32_t>& sums = set.whole(0, b);
    OutputOfBatch one(set, run, got, output, b, along);
    for (std::int64_t i = 0; i < lines; ++i) {
      const auto line = line_of(gemm, along, length, sums.data() + i * length);
      if (auto failure = one.line(i, [&](std::int64_t j, std::int64_t count) {
            return one.terms().read(line, line, i, j, count);
          }))
        return failure;
    }
    if (auto failure = one.finish()) return failure;
  }
  return std::nullopt;
}

std::optional<Failure> judge_sampled(DataSet& set, const Run& run, const Outputs& got,
                                     std::size_t output) {
  for (const Products& some : set.sampled(0)) {
    OutputOfBatch one(set, run, got, output, some.lines.batch, some.lines.along);
    for (std::size_t i = 0; i < some.lines.index.size(); ++i)
      if (auto failure = one.line(some.lines.index[i], [&](std::int64_t j, std::int64_t count) {
            return one.terms().read(some, i, j, count);
          }))
        return failure;
    if (auto failure = one.finish()) return failure;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Failure> judge_outputs(DataSet& set, const Run& run, const Outputs& got) {
  const bool integers = set.recipe().data == Data::exact && !set.recipe().tiny;
  for (std::size_t i = 0; i < set.gemm().epilogue.expression.outputs().size(); ++i)
    if (auto failure = integers ? judge_whole(set, run, got, i) : judge_sampled(set, run, got, i))
      return failure;
  return std::nullopt;
}

}  // namespace kiln
