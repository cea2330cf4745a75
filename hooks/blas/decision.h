// Whether kiln computes a product or the system's library does. Knows the public face of kiln, and
// no BLAS function.
#pragma once

#include <cstdint>

#include "hooks/common/decision.h"
#include "kiln/kiln.hpp"

namespace kiln::hooks {

/// A product as a call of BLAS states it, with row-major matrices: C = alpha*op(A)*op(B) + beta*C.
/// Sizes and pitches in elements; a batch's strides, too.
struct Product {
  DType type = fp32;  // of A and B; C is fp32 where that is bf16, else the same
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  int threads = 1;
  bool operator==(const Product&) const = default;
};

/// Whether BLAS accepts it and there is something to compute. What it does not accept is passed on,
/// so that the library says what is wrong in its own way.
bool is_sound(const Product& product);

/// Whether every matrix of a batch has a place of its own. A stride of 0, one matrix for all of
/// them, cannot be said in a Gemm, where it means a tight one.
bool has_strides(const Product& product);

/// Looked up in the databases once for each product, then found in a table without a lock. Null
/// where nothing is known of it and nothing is counted. A plan is there only where a stored race
/// says that the kernel beats the library that is loaded.
const Decision* decision(const Product& product);

/// For what the system's library has no function for: kiln's best kernel, tuned or not.
Status compute(const Product& product, const Operands& operands);

}  // namespace kiln::hooks
