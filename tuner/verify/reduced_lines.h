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

/// One reduction of one batch, of whole lines.
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

/// Of one batch what the expression reduces of whole lines and reads, from the elements that are
/// known of that batch; `inputs` and `rows_before` as of TermReader. Nothing of an expression that
/// reads no such values.
std::vector<ExpectedLines> reduced_lines(const Gemm& gemm, const Operands& inputs,
                                         const Scaling& scaling, std::span<const KnownLines> known,
                                         std::int64_t batch, std::int64_t rows_before = 0);

/// The same of every batch of one of the parts of a set.
using LinesOfBatches = std::vector<std::vector<ExpectedLines>>;
LinesOfBatches reduced_lines(DataSet& set, std::size_t part, const Scaling& scaling);
inline std::span<const ExpectedLines> lines_of(const LinesOfBatches& all, std::int64_t batch) {
  if (batch >= std::ssize(all)) return {};
  return all[static_cast<std::size_t>(batch)];
}

/// Whether the i-th of the known lines is the first of those that share a value, so many
/// neighbours, or all (0).
inline bool begins(const KnownLines& known, std::int64_t i, std::int64_t shared) {
  using expression::Line;
  return i == 0 || Line::place(shared, known[i]) != Line::place(shared, known[i - 1]);
}

/// Calls compare(row, column, value, error) for what output i of the expression stores of known
/// elements, and of lines of which all are known, until it returns false. What neighbours share is
/// compared at the first of them that is known.
template <typename Compare>
void for_each_stored(const Gemm& gemm, const Scaling& scaling, const KnownLines& known,
                     TermReader& terms, std::size_t i, Compare&& compare) {
  const expression::Program& program = *gemm.epilogue.expression.program();
  const ExtraOutput& output = program.outputs[i];
  const expression::Line line = expression::line_of(output);
  if (expression::is_reduced(output)) {
    LineReduction all(gemm, line, scaling);
    for_each_expected(gemm, scaling, known, terms, program.results[i],
                      [&](std::int64_t row, std::int64_t column, double value, double error) {
                        all.take(row, column, value, error);
                        return true;
                      });
    for (std::int64_t at = 0; at < all.count(); ++at)
      if (const auto expected = all.expected(at))
        if (!compare(line.m ? at : 0, line.n ? at : 0, expected->value, expected->error)) return;
    return;
  }
  const bool rows = known.along() == Lines::Along::rows;
  const std::int64_t across = rows ? line.m : line.n, along = rows ? line.n : line.m;
  std::int64_t at = -1;  // which of the known lines the element is of
  for_each_expected(gemm, scaling, known, terms, program.results[i],
                    [&](std::int64_t row, std::int64_t column, double value, double error) {
                      const std::int64_t place = rows ? column : row;
                      if (place == 0) ++at;
                      const bool first = along == 0 ? place == 0 : place % along == 0;
                      return !first || !begins(known, at, across) ||
                             compare(row, column, value, error);
                    });
}

}  // namespace kiln
