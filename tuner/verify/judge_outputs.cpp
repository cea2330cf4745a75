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
  OutputOfBatch(const DataSet& set, const ProductPart& part, const Run& run, const Outputs& got,
                std::size_t output, const KnownLines& known, const LinesOfBatches& reduced)
      : set_(set),
        part_(part),
        gemm_(part.gemm),
        run_(run),
        which_(extra_output(output)),
        output_(output),
        known_(known),
        data_(extra_of_part(set.gemm(), which_, got.outputs[output], part)),
        scaling_(scaling_of(set, run)),
        terms_(gemm_, inputs(set, part, run), known.batch(), known.along(),
               lines_of(reduced, known.batch()), first_row_of(set.gemm(), part.segment)) {}

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
  static Operands inputs(const DataSet& set, const ProductPart& part, const Run& run) {
    Operands operands{.beta = run.beta};
    set.bind(operands, part);
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
        fmt::format("{} of {} {} {}row {} column {}: got {}{}, expected {} within {:.3g} before "
                    "rounding to {} ({} data{}, seed {}, alpha {}, beta {}; {})",
                    name(which_), grouped(set_.gemm()) ? "group" : "batch",
                    grouped(set_.gemm()) ? part_.group : known_.batch(),
                    view.is_shared() ? "block from " : "", row, column, got,
                    is_poison(type, view.data, at) ? " (never written)" : "", value, error,
                    name(type), name(set_.recipe().data),
                    set_.recipe().nonfinite ? " with NaN and infinity" : "", set_.recipe().seed,
                    run_.alpha, run_.beta, text(set_.gemm()))};
  }

  const DataSet& set_;
  const ProductPart& part_;
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

std::optional<Failure> judge_outputs(DataSet& set, std::size_t part, const Run& run,
                                     const Outputs& got, const LinesOfBatches& reduced) {
  const std::size_t outputs = set.gemm().epilogue.expression.outputs().size();
  if (outputs == 0) return std::nullopt;
  for (const KnownLines& known : known_lines(set, part))
    for (std::size_t i = 0; i < outputs; ++i)
      if (auto failure = OutputOfBatch(set, set.parts()[part], run, got, i, known, reduced).judge())
        return failure;
  return std::nullopt;
}

std::optional<Failure> judge_unused_outputs(const DataSet& set, const Outputs& got) {
  const Gemm& gemm = set.gemm();
  const bool masked = gemm.grouping() == Grouping::masked;
  if (!masked && gemm.grouping() != Grouping::rows) return std::nullopt;
  const std::int64_t matrices = masked ? gemm.batch : 1;
  std::vector<bool> used(static_cast<std::size_t>(matrices * gemm.m));
  for (const ProductPart& part : set.parts())
    for (std::int64_t i = 0; i < part.segment.count; ++i)
      used[static_cast<std::size_t>((masked ? part.group * gemm.m : part.segment.first) + i)] =
          true;
  for (std::size_t i = 0; i < gemm.epilogue.expression.outputs().size(); ++i) {
    const Operand which = extra_output(i);
    const DType type = dtype_of(gemm, which);
    for (std::int64_t at = 0; at < std::ssize(used); ++at) {
      if (used[static_cast<std::size_t>(at)]) continue;
      const MatrixView view = view_of(gemm, which, got.outputs[i], at / gemm.m);
      for (std::int64_t j = 0; j < gemm.n; ++j)
        if (!is_poison(type, view.data, view.offset(at % gemm.m, j)))
          return Failure{Failure::Kind::out_of_bounds,
                         fmt::format("{}'s row {} (of matrix {}), which belongs to no group, was "
                                     "written at column {} ({})",
                                     name(which), at % gemm.m, at / gemm.m, j, text(gemm))};
    }
  }
  return std::nullopt;
}

}  // namespace kiln
