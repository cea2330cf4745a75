// Layout canonicalisation: every BLAS combination becomes a row-major D with A and B each k-major
// or not. Pure; the same function shapes the problem for the generator and the operands for a call.
#pragma once

#include "kiln/gemm.hpp"

namespace kiln {

/// A problem whose D is row-major. When `swapped`, it computes D^T = op(B)^T * op(A)^T: the
/// caller's A is this problem's B, m and n are exchanged, and so are the two kinds of bias and the
/// scales.
struct Canonical {
  Gemm gemm;  // row-major D; every ld and stride resolved (no zeros)
  bool swapped = false;
  bool a_k_major = true;   // A's elements of equal m lie side by side along k
  bool b_k_major = false;  // B's elements of equal n lie side by side along k
  auto operator<=>(const Canonical&) const = default;
};

/// `gemm` must be valid. A packed B is never swapped: validate() refuses b_packed with a
/// column-major D, whose canonical product would have the packed operand on the left.
/// Lines that can be joined are (generator/problem/spelling.h).
Canonical canonicalise(const Gemm& gemm);

}  // namespace kiln
