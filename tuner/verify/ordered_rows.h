// The rows of a call in the order of its product, copied from where indices say that they are: what
// references and comparisons read, which know no indices.
#pragma once

#include <cstddef>
#include <vector>

#include "generator/problem/indices.h"
#include "kiln/engine.hpp"

namespace kiln {

class OrderedRows {
 public:
  explicit OrderedRows(const Gemm& gemm) : given_(gemm), gemm_(in_order(gemm)) {}

  /// Copies A's rows and their scales, where they are by index.
  void read_inputs(const Operands& operands);
  /// Copies the rows of D, where they are by index.
  void read_d(const Operands& operands);
  /// Puts the copies in the places of what was read.
  void bind(Operands& operands) const;

  /// The problem whose operands these are.
  const Gemm& gemm() const { return gemm_; }

 private:
  std::vector<std::byte> copied(Operand which, const void* operand, const void* index) const;

  Gemm given_, gemm_;
  std::vector<std::byte> a_, scale_a_, d_;
};

}  // namespace kiln
