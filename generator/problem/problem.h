// The door: a Gemm that is valid becomes a Problem, which spaces, rules, models, sources and
// launches are made of. Every BLAS combination becomes a row-major D with A and B each k-major or
// not. Pure; the same step shapes the problem for the generator and the operands for a call.
#pragma once

#include "generator/problem/features.h"
#include "kiln/gemm.hpp"

namespace kiln {

/// A problem whose D is row-major. When `swapped`, it computes D^T = op(B)^T * op(A)^T: the
/// caller's A is this problem's B, m and n are exchanged, and so are the two kinds of bias and the
/// scales.
class Problem {
 public:
  /// The one way to a Problem. A packed B is never swapped, since no valid problem has one beside a
  /// column-major D. Lines that can be joined are (generator/problem/spelling.h). Errors: those of
  /// validate().
  static Result<Problem> of(const Gemm& gemm);

  Gemm given;  // as the caller says it
  Gemm gemm;   // row-major D; every ld and stride resolved (no zeros)
  bool swapped = false;
  bool a_k_major = true;   // A's elements of equal m lie side by side along k
  bool b_k_major = false;  // B's elements of equal n lie side by side along k
  Features needs;          // of kernels
  auto operator<=>(const Problem&) const = default;

 private:
  Problem() = default;
};

/// What kernels compute: all of a problem, or what is before the reductions that its expression
/// reads (expression::Halves). `in_d`: what that leaves of each element is D where it may be
/// (expression::keeps_in_d), in the workspace; C has the type of the caller's D.
Problem of_kernels(const Problem& problem, bool in_d);

}  // namespace kiln
