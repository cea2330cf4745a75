// What the epilogue adds to a product, read from host memory a run of elements at a time. Knows
// where each operand lies; knows no roundings and no expectations.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "kiln/engine.hpp"
#include "tuner/verify/reference.h"
#include "tuner/verify/view.h"

namespace kiln {

/// The terms of one batch of D.
class TermReader {
 public:
  /// `operands` must hold what `gemm` (valid) has; C is read where beta is not 0.
  /// `reduced`: of the batch, what is known of what its expression reduces. `rows_before`: as of
  /// Terms.
  TermReader(const Gemm& gemm, const Operands& operands, std::int64_t batch, Lines::Along along,
             std::span<const ExpectedLines> reduced = {}, std::int64_t rows_before = 0);
  /// Of line `i` of D, `count` elements from its element `j` on. Valid until the next call.
  template <typename Sum>
  Terms read(const LineOf<Sum>& sum, const LineOf<Sum>& magnitude, std::int64_t i, std::int64_t j,
             std::int64_t count) {
    const auto size = static_cast<std::size_t>(count);
    for (Sums* some : {&first_, &second_}) some->sum.resize(size), some->magnitude.resize(size);
    sum.read(j, first_.sum, second_.sum);
    magnitude.read(j, first_.magnitude, second_.magnitude);
    return terms_of(i, j, count);
  }
  /// The same of a line that was computed: number `line` of `products`.
  Terms read(const Products& products, std::size_t line, std::int64_t j, std::int64_t count);

 private:
  struct Term {
    Operand which;
    Factor factor;
    MatrixView view;
    std::vector<double> values;
  };
  struct Sums {
    std::vector<double> sum, magnitude;
  };
  Terms terms_of(std::int64_t i, std::int64_t j, std::int64_t count);

  Gemm gemm_;
  Lines::Along along_;
  std::span<const ExpectedLines> reduced_;
  std::int64_t rows_before_;
  std::vector<Term> terms_;
  Sums first_, second_;
};

}  // namespace kiln
