// Whether what a contestant computed is right: peers run with alpha 1 and beta 0 only, on the
// operands that are timed, so the tuner's verification does not fit them. Knows no contestant.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "generator/problem/groups.h"
#include "kiln/engine.hpp"
#include "tuner/verify/reference.h"

namespace kiln {

class ExpectedAmax;

/// Fills D, and what the call writes beside it but scales, with the pattern of memory never
/// written. `gemm` is valid here and below.
void poison_d(const Gemm& gemm, const Operands& operands);

/// Compares D = activation(op(A)*op(B) + bias) + residual with kiln's reference: every element must
/// have been written, and a sample of rows and of columns, first and last among them, must lie
/// within the dot product's error bound; the largest magnitude that is written beside D must be
/// D's. So must what an expression stores beside D. The reference is made once, for every
/// contestant.
class ResultCheck {
 public:
  /// Of these inputs, which must live as long as this; `operands.b` is plain, `operands.d` unused.
  /// Of groups the list is read here, and each is a product of its own unless rows are by index.
  /// `rounds_products`: what follows them may be computed of products in D's type.
  ResultCheck(const Gemm& gemm, const Operands& operands, std::uint64_t seed,
              bool rounds_products = false);
  /// The first fault of a D, as a sentence. Its largest magnitude, and what an expression stores,
  /// is where the inputs say.
  std::optional<std::string> fault_of(const void* d) const;

 private:
  /// One product: all of the problem, or one group of it.
  struct Part {
    ProductPart product;
    Operands operands;
    std::vector<Products> expected;
  };
  bool by_group() const;
  const void* d_of(const Part& part, const void* d) const;
  std::optional<std::string> wrong_amax(const void* d, const ExpectedAmax& expected) const;

  Gemm gemm_;
  const void* amax_d_;
  std::vector<Part> parts_;  // none where all groups are empty
};

}  // namespace kiln
