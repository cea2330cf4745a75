// What the epilogue adds to a product, read from host memory a run of elements at a time. Knows
// where each operand lies; knows no roundings and no expectations.
#pragma once

#include <array>
#include <vector>

#include "kiln/engine.hpp"
#include "tuner/verify/reference.h"
#include "tuner/verify/view.h"

namespace kiln {

/// The terms of one batch of D.
class TermReader {
 public:
  /// `operands` must hold what `gemm` (valid) has; C is read where beta is not 0.
  TermReader(const Gemm& gemm, const Operands& operands, std::int64_t batch, Lines::Along along);
  /// Of line `i`, from its element `j` on, as many as there are sums. Valid until the next call.
  Terms read(std::span<const double> sum, std::span<const double> magnitude, std::int64_t i,
             std::int64_t j);

 private:
  struct Term {
    Operand which;
    MatrixView view;
    std::vector<double> values;
  };
  std::vector<Term> terms_;
};

}  // namespace kiln
