// What an expression stores beside D, compared with what the elements of D say.
#include <fmt/format.h>

#include <optional>

#include "generator/expression/program.h"
#include "generator/problem/extent.h"
#include "kiln/numeric.hpp"
#include "tuner/verify/judge.h"
#include "tuner/verify/known_lines.h"
#include "tuner/verify/reduced_lines.h"
#include "tuner/verify/terms.h"
#include "tuner/verify/view.h"

namespace kiln {
namespace {

using expression::has_index;

/// One output of one batch, by lines of the product that are known.
class OutputOfBatch {
 public:
  OutputOfBatch(const DataSet& set, const Run& run, const Outputs& got, std::size_t output,
                const KnownLines& known, const LinesOfBatches& reduced)
      : set_(set),
        gemm_(set.gemm()),
        run_(run),
        which_(extra_output(output)),
        said_(gemm_.epilogue.expression.outputs()[output]),
        value_(gemm_.epilogue.expression.program()->results[output]),
        known_(known),
        data_(got.outputs[output]),
        scaling_(scaling_of(set, run)),
        terms_(gemm_, inputs(set, run), known.batch(), known.along(),
               lines_of(reduced, known.batch())) {}

  std::optional<Failure> judge() {
    if (expression::is_reduced(said_)) return judge_reduction();
    std::optional<Failure> failure;
    for_each_expected(gemm_, scaling_, known_, terms_, value_,
                      [&](std::int64_t row, std::int64_t column, double value, double error) {
                        if (begins(row, column)) failure = compare(row, column, value, error);
                        return !failure;
                      });
    return failure;
  }

 private:
  static Operands inputs(const DataSet& set, const Run& run) {
    Operands operands{.beta = run.beta};
    set.bind(operands);
    return operands;
  }

  /// What is made of many elements, where all of them are expected.
  std::optional<Failure> judge_reduction() {
    const expression::Line line = expression::line_of(said_);
    LineReduction reduction(gemm_, line, scaling_);
    for_each_expected(gemm_, scaling_, known_, terms_, value_,
                      [&](std::int64_t row, std::int64_t column, double value, double error) {
                        reduction.take(row, column, value, error);
                        return true;
                      });
    for (std::int64_t i = 0; i < reduction.count(); ++i) {
      const auto expected = reduction.expected(i);
      if (!expected) continue;
      if (auto failure = compare(line.m ? i : 0, line.n ? i : 0, expected->value, expected->error))
        return failure;
    }
    return std::nullopt;
  }

  /// Whether it is the first known element of what is stored at one place.
  bool begins(std::int64_t row, std::int64_t column) const {
    const bool rows = known_.along() == Lines::Along::rows;
    const std::int64_t first_row = rows ? known_[0] : 0, first_column = rows ? 0 : known_[0];
    return (has_index(said_.target, Index::m) || row == first_row) &&
           (has_index(said_.target, Index::n) || column == first_column);
  }

  std::optional<Failure> compare(std::int64_t row, std::int64_t column, double value,
                                 double error) const {
    const DType type = dtype_of(gemm_, which_);
    const MatrixView view = view_of(gemm_, which_, data_, known_.batch());
    const std::int64_t at = view.offset(row, column);
    const double got = load_element(type, view.data, at);
    if (accepts(type, value, error, got)) return std::nullopt;
    return Failure{
        Failure::Kind::wrong_result,
        fmt::format("{} of batch {} row {} column {}: got {}{}, expected {} within {:.3g} before "
                    "rounding to {} ({} data{}, seed {}, alpha {}, beta {}; {})",
                    name(which_), known_.batch(), row, column, got,
                    is_poison(type, view.data, at) ? " (never written)" : "", value, error,
                    name(type), name(set_.recipe().data),
                    set_.recipe().nonfinite ? " with NaN and infinity" : "", set_.recipe().seed,
                    run_.alpha, run_.beta, text(gemm_))};
  }

  const DataSet& set_;
  const Gemm& gemm_;
  const Run& run_;
  Operand which_;
  const ExtraOutput& said_;
  int value_;  // of the program
  const KnownLines& known_;
  const void* data_;
  Scaling scaling_;
  TermReader terms_;
};

}  // namespace

std::optional<Failure> judge_outputs(DataSet& set, const Run& run, const Outputs& got,
                                     const LinesOfBatches& reduced) {
  const std::size_t outputs = set.gemm().epilogue.expression.outputs().size();
  if (outputs == 0) return std::nullopt;
  for (const KnownLines& known : known_lines(set, 0))
    for (std::size_t i = 0; i < outputs; ++i)
      if (auto failure = OutputOfBatch(set, run, got, i, known, reduced).judge()) return failure;
  return std::nullopt;
}

}  // namespace kiln
