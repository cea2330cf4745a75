// Compares a D to whose rows those of the product are added: each of its elements is a sum of
// expected ones, which may be off by as much as they may together.
#include <fmt/format.h>

#include <cmath>

#include "generator/problem/indices.h"
#include "kiln/numeric.hpp"
#include "tuner/verify/judge.h"
#include "tuner/verify/terms.h"
#include "tuner/verify/view.h"

namespace kiln {
namespace {

/// What all of D, or some of its columns, should be.
class Sums {
 public:
  Sums(DataSet& set, const Run& run)
      : set_(set), run_(run), gemm_(set.gemm()), integers_(takes_integers(set)) {
    set.bind(operands_);
    operands_.beta = 0;
    columns_ = gemm_.n;
    if (!integers_ && !DataSet::whole_is_cheap(gemm_))
      for (std::size_t part = 0; part < set.parts().size() && chosen_.empty(); ++part)
        chosen_ = set.sampled(part).front().lines.index;
    if (!chosen_.empty()) columns_ = std::ssize(chosen_);
    value_.resize(static_cast<std::size_t>(rows_of_d(gemm_) * columns_));
    error_.resize(value_.size());
    for (std::size_t part = 0; part < set.parts().size(); ++part)
      integers_ ? add_whole(part) : add_sampled(part);
    if (run.beta != 0) add_c();
  }

  std::optional<Failure> judge(const void* d) const {
    const MatrixView view = view_of(gemm_, Operand::d, d, 0);
    for (std::int64_t row = 0; row < rows_of_d(gemm_); ++row)
      for (std::int64_t i = 0; i < columns_; ++i) {
        const std::int64_t place = view.offset(row, column(i)), at = row * columns_ + i;
        const double got = load_element(gemm_.d.dtype, view.data, place);
        // Of an expression anything may be right where the error is infinite.
        const bool known = gemm_.epilogue.expression.empty() && !std::isfinite(error_[at]);
        const double error = known ? 0 : error_[at];
        if (accepts(gemm_.d.dtype, value_[at], error, got)) continue;
        return Failure{
            Failure::Kind::wrong_result,
            fmt::format("row {} column {}: got {}{}, expected {} within {:.3g} before rounding to "
                        "{}, the sum of rows of the product ({} data, seed {}, alpha {}, beta "
                        "{}{}; {})",
                        row, column(i), got,
                        is_poison(gemm_.d.dtype, view.data, place) ? " (never written)" : "",
                        value_[at], error, name(gemm_.d.dtype), name(set_.recipe().data),
                        set_.recipe().seed, run_.alpha, run_.beta,
                        run_.c == Run::C::in_place ? ", C in place" : "", text(gemm_))};
      }
    return std::nullopt;
  }

 private:
  static bool takes_integers(const DataSet& set) { return set.recipe().data == Data::exact; }
  std::int64_t column(std::int64_t i) const {
    return chosen_.empty() ? i : chosen_[static_cast<std::size_t>(i)];
  }
  Scaling scaling() const { return {run_.alpha, 0, integers_, run_.flushed}; }

  /// One more term of an element; the sum is rounded after each.
  void add(std::int64_t at, double term, double error) {
    error_[at] += error + per_sum_ * (std::fabs(value_[at]) + std::fabs(term));
    value_[at] += term;
  }

  /// Expected elements of the product, from column number `i` on, of row `row` of all groups.
  void add_row(std::int64_t row, std::int64_t i, const std::vector<double>& value,
               const std::vector<double>& error) {
    const std::int64_t to = row_to_add_to(operands_.index_d, row, rows_of_d(gemm_));
    if (to < 0) return;
    const double weight = weighs_rows(gemm_) ? load_element(fp32, operands_.row_weights, row) : 1.0;
    for (std::size_t j = 0; j < value.size(); ++j)
      add(to * columns_ + i + static_cast<std::int64_t>(j), weight * value[j],
          std::fabs(weight) * error[j]);
  }

  /// `reduced`: of the part.
  TermReader terms_of(const ProductPart& part, Lines::Along along,
                      const LinesOfBatches& reduced) const {
    Operands operands;
    set_.bind(operands, part);
    operands.beta = 0;
    return {part.gemm, operands, 0, along, lines_of(reduced, 0), part.segment.first};
  }
  void expect_sums(const ProductPart& part, const Terms& terms) {
    some_.resize(terms.sum.size());
    off_.resize(terms.sum.size());
    expect(part.gemm, scaling(), terms, some_, off_);
    // Roundings of the product with the weight and of the sum, and the reference's own.
    per_sum_ = 2 * allowance(part.gemm, scaling()).per_residual;
  }

  void add_whole(std::size_t number) {
    const ProductPart& part = set_.parts()[number];
    const std::vector<std::int32_t>& sums = set_.whole(number, 0);
    const LinesOfBatches reduced = reduced_lines(set_, number, scaling());
    TermReader terms = terms_of(part, Lines::Along::rows, reduced);
    const std::int64_t length = gemm_.columns_of_b();
    for (std::int64_t i = 0; i < part.gemm.m; ++i) {
      const auto line = line_of(part.gemm, Lines::Along::rows, length, sums.data() + i * length);
      expect_sums(part, terms.read(line, line, i, 0, gemm_.n));
      add_row(part.segment.first + i, 0, some_, off_);
    }
  }

  void add_sampled(std::size_t number) {
    const ProductPart& part = set_.parts()[number];
    const LinesOfBatches reduced = reduced_lines(set_, number, scaling());
    for (const Products& lines : set_.sampled(number)) {
      const bool rows = lines.lines.along == Lines::Along::rows;
      TermReader terms = terms_of(part, lines.lines.along, reduced);
      for (std::size_t line = 0; line < lines.lines.index.size(); ++line) {
        expect_sums(part, terms.read(lines, line, 0, rows ? gemm_.n : part.gemm.m));
        if (rows) {
          add_row(part.segment.first + lines.lines.index[line], 0, some_, off_);
          continue;
        }
        for (std::int64_t i = 0; i < part.gemm.m; ++i)
          add_row(part.segment.first + i, static_cast<std::int64_t>(line), {some_[i]}, {off_[i]});
      }
    }
  }

  void add_c() {
    const MatrixView c = view_of(gemm_, Operand::c, operands_.c, 0);
    per_sum_ = 2 * allowance(in_order(gemm_), scaling()).per_residual;
    for (std::int64_t row = 0; row < rows_of_d(gemm_); ++row)
      for (std::int64_t i = 0; i < columns_; ++i)
        add(row * columns_ + i,
            run_.beta * load_element(gemm_.c.dtype, c.data, c.offset(row, column(i))), 0);
  }

  DataSet& set_;
  const Run& run_;
  const Gemm& gemm_;
  bool integers_;
  Operands operands_;                 // of the whole call
  std::vector<std::int64_t> chosen_;  // columns; none: all
  std::int64_t columns_ = 0;
  double per_sum_ = 0;                 // what an addition may lose
  std::vector<double> value_, error_;  // rows of D × columns
  std::vector<double> some_, off_;     // of one line
};

}  // namespace

std::optional<Failure> judge_added(DataSet& set, const Run& run, const Outputs& got) {
  if (auto failure = Sums(set, run).judge(got.d)) return failure;
  Run product = run;  // of which the outputs beside D are made
  product.beta = 0;
  for (std::size_t part = 0; part < set.parts().size(); ++part) {
    const LinesOfBatches reduced = reduced_lines(set, part, scaling_of(set, product));
    if (auto failure = judge_outputs(set, part, product, got, reduced)) return failure;
  }
  return judge_unused_outputs(set, got);
}

}  // namespace kiln
