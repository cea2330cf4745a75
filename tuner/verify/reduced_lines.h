// What becomes of whole rows of D, of its columns or of all its elements: what a right kernel may
// make of them, where all of them are expected. Knows no kernel and nothing that one stored.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "generator/expression/program.h"
#include "tuner/verify/interval.h"
#include "tuner/verify/known_lines.h"

namespace kiln {

/// One reduction of one batch.
class LineReduction {
 public:
  LineReduction(const Gemm& gemm, expression::Line line, const Scaling& scaling);

  /// An element, as expect() says it is.
  void take(std::int64_t row, std::int64_t column, double value, double error);
  /// Number of values: of rows, of columns, or 1.
  std::int64_t count() const { return std::ssize(of_line_); }
  /// Nothing where elements of the line are missing.
  std::optional<intervals::ExpectedReduction> expected(std::int64_t line) const;

 private:
  expression::Line line_;
  double elements_;  // of a line
  intervals::Precision precision_;
  std::vector<intervals::ReducedElements> of_line_;
};

/// Whether the expression has such values.
bool reads_reduced(const Gemm& gemm);

/// Of one batch what the expression reduces and reads, from the elements that are known of that
/// batch; `inputs` as of TermReader. Nothing of an expression that reads no such values.
std::vector<ExpectedLines> reduced_lines(const Gemm& gemm, const Operands& inputs,
                                         const Scaling& scaling, std::span<const KnownLines> known,
                                         std::int64_t batch);

/// The same of every batch of a set.
using LinesOfBatches = std::vector<std::vector<ExpectedLines>>;
LinesOfBatches reduced_lines(DataSet& set, const Scaling& scaling);
inline std::span<const ExpectedLines> lines_of(const LinesOfBatches& all, std::int64_t batch) {
  if (batch >= std::ssize(all)) return {};
  return all[static_cast<std::size_t>(batch)];
}

}  // namespace kiln
