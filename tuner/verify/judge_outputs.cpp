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

/// One output of one batch, by lines of the product that are known.
class OutputOfBatch {
 public:
  OutputOfBatch(const DataSet& set, const Run& run, const Outputs& got, std::size_t output,
                const KnownLines& known, const LinesOfBatches& reduced)
      : set_(set),
        gemm_(set.gemm()),
        run_(run),
        which_(extra_output(output)),
        output_(output),
        known_(known),
        data_(got.outputs[output]),
        scaling_(scaling_of(set, run)),
        terms_(gemm_, inputs(set, run), known.batch(), known.along(),
               lines_of(reduced, known.batch())) {}

  std::optional<Failure> judge() {
    std::optional<Failure> failure;
    for_each_stored(gemm_, scaling_, known_, terms_, output_,
                    [&](std::int64_t row, std::int64_t column, double value, double error) {
                      failure = compare(row, column, value, error);
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

  std::optional<Failure> compare(std::int64_t row, std::int64_t column, double value,
                                 double error) const {
    const DType type = dtype_of(gemm_, which_);
    const MatrixView view = view_of(gemm_, which_, data_, known_.batch());
    const std::int64_t at = view.offset(row, column);
    const double got = load_element(type, view.data, at);
    if (accepts(type, value, error, got)) return std::nullopt;
    return Failure{
        Failure::Kind::wrong_result,
        fmt::format("{} of batch {} {}row {} column {}: got {}{}, expected {} within {:.3g} before "
                    "rounding to {} ({} data{}, seed {}, alpha {}, beta {}; {})",
                    name(which_), known_.batch(), view.is_shared() ? "block from " : "", row,
                    column, got, is_poison(type, view.data, at) ? " (never written)" : "", value,
                    error, name(type), name(set_.recipe().data),
                    set_.recipe().nonfinite ? " with NaN and infinity" : "", set_.recipe().seed,
                    run_.alpha, run_.beta, text(gemm_))};
  }

  const DataSet& set_;
  const Gemm& gemm_;
  const Run& run_;
  Operand which_;
  std::size_t output_;
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
