// What A's zero points add to sums of products: the reference takes it off as kernels do, by the
// sums of B's columns that the call gives. Knows no kernel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tuner/verify/reference.h"

namespace kiln {

/// Of one batch, with the scales that are given; nothing where A has no zero points.
class AddedByZeros {
 public:
  AddedByZeros(const Gemm& gemm, const Scales& scales, std::int64_t batch);
  /// From these rows or columns of the product, one behind the other.
  void subtract(Lines::Along along, std::span<const std::int64_t> lines,
                std::span<double> sums) const;
  /// From all rows of the product, whose sums and differences are whole numbers.
  void subtract(std::span<std::int32_t> sums) const;

 private:
  std::vector<double> rows_, columns_;
};

}  // namespace kiln
