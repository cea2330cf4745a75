#include "tuner/verify/reduced_lines.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace kiln {
namespace {

using expression::Line;
using expression::Op;

/// Of each row, of each column, or of all elements: not of blocks.
std::int64_t count_of(const Gemm& gemm, Line line) { return line.m ? gemm.m : line.n ? gemm.n : 1; }

std::int64_t elements_of(const Gemm& gemm, Line line) {
  return line.m ? gemm.n : line.n ? gemm.m : gemm.m * gemm.n;
}

/// Whether they may hold all elements of one of the values.
bool may_hold(const Gemm& gemm, const KnownLines& some, Line line) {
  if (some.along() == Lines::Along::rows) return line.m || some.count() == gemm.m;
  return line.n || some.count() == gemm.n;
}

/// Anything is right of lines that are not known.
ExpectedLines unknown_lines(const Gemm& gemm, Line line) {
  const auto count = static_cast<std::size_t>(count_of(gemm, line));
  return {.m = line.m != 0,
          .n = line.n != 0,
          .value = std::vector<double>(count, 0.0),
          .error = std::vector<double>(count, std::numeric_limits<double>::infinity())};
}

}  // namespace

LineReduction::LineReduction(const Gemm& gemm, Line line, const Scaling& scaling)
    : line_(line),
      elements_(static_cast<double>(elements_of(gemm, line))),
      precision_(intervals::precision_of(type_of_values(gemm), scaling.flushed)),
      of_line_(static_cast<std::size_t>(count_of(gemm, line)),
               intervals::no_elements(static_cast<int>(line.how), precision_)) {
  assert(!line.is_block());
}

void LineReduction::take(std::int64_t row, std::int64_t column, double value, double error) {
  const std::int64_t to = line_.m ? row : line_.n ? column : 0;
  intervals::take_in(of_line_[static_cast<std::size_t>(to)], value, error, precision_);
}

std::optional<intervals::ExpectedReduction> LineReduction::expected(std::int64_t line) const {
  const intervals::ReducedElements& all = of_line_[static_cast<std::size_t>(line)];
  if (all.count != elements_) return std::nullopt;
  return intervals::expected_of(all, precision_);
}

bool reads_reduced(const Gemm& gemm) {
  return !gemm.epilogue.expression.empty() && gemm.epilogue.expression.program()->reads_reduced();
}

std::vector<ExpectedLines> reduced_lines(const Gemm& gemm, const Operands& inputs,
                                         const Scaling& scaling, std::span<const KnownLines> known,
                                         std::int64_t batch, std::int64_t rows_before) {
  std::vector<ExpectedLines> all;
  if (!reads_reduced(gemm)) return all;
  for (const expression::Value& value : gemm.epilogue.expression.program()->values) {
    if (value.op != Op::reduced) continue;
    const Line line = value.line;
    if (line.is_block()) {  // each run of elements says what its own are
      all.emplace_back();
      continue;
    }
    ExpectedLines& lines = all.emplace_back(unknown_lines(gemm, line));
    for (const KnownLines& some : known) {
      if (some.batch() != batch || !may_hold(gemm, some, line)) continue;
      TermReader terms(gemm, inputs, batch, some.along(), {}, rows_before);
      // Rows and columns share elements, so each begins with none.
      LineReduction reduction(gemm, line, scaling);
      for_each_expected(gemm, scaling, some, terms, value.of[0],
                        [&](std::int64_t row, std::int64_t column, double x, double error) {
                          reduction.take(row, column, x, error);
                          return true;
                        });
      for (std::int64_t i = 0; i < reduction.count(); ++i) {
        const auto expected = reduction.expected(i);
        if (!expected) continue;
        lines.value[static_cast<std::size_t>(i)] = expected->value;
        lines.error[static_cast<std::size_t>(i)] = expected->error;
      }
    }
  }
  return all;
}

LinesOfBatches reduced_lines(DataSet& set, std::size_t part, const Scaling& scaling) {
  const ProductPart& of = set.parts()[part];
  if (!reads_reduced(of.gemm)) return {};
  Operands inputs{.beta = scaling.beta};
  set.bind(inputs, of);
  const std::vector<KnownLines> known = known_lines(set, part);
  LinesOfBatches all;
  for (std::int64_t batch = 0; batch < of.gemm.batch; ++batch)
    all.push_back(reduced_lines(of.gemm, inputs, scaling, known, batch,
                                first_row_of(set.gemm(), of.segment)));
  return all;
}

}  // namespace kiln
