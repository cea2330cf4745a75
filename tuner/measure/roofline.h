// What a product must move at least, which with its operations says what limits it. Pure.
#pragma once

#include <string_view>

#include "kiln/gemm.hpp"
#include "runtime/machine_limits.h"

namespace kiln {

/// The least time that a machine needs for a product, and what sets it.
struct Roofline {
  double ns = 0;             // 0: nothing is known
  double rate = 0;           // operations or bytes a second
  std::string_view of = {};  // "arithmetic", or where the bytes are: "L1", "L2", "memory"
  bool arithmetic() const { return of == "arithmetic"; }
};

/// Bytes of A, B, D and the terms, each read or written once. Races run with beta = 0: C is not
/// read.
double least_bytes(const Gemm& gemm);
/// Its operations at `flops` (the peak of its types, 0: not known), or its bytes at the rate of the
/// memory that a race finds them in, whichever takes longer. Operands that fit in a quarter of L2
/// stay in the caches there, all others are so many that they come from memory (rotation_sets).
Roofline roof(const Gemm& gemm, const MachineLimits& limits, double flops);
/// The peak of the instructions that the product may be computed with, in operations a second; 0:
/// not known. fp32 with numerics=tensor is six products of bf16 where that is faster.
double peak_for(const Gemm& gemm, const MachineLimits& limits);
/// Whether the power limit of a GPU sets the speed of a call that is expected to take so long,
/// where such calls follow one another for hours: it computes for at least 50 us, so that all of
/// the device is at work, and moving its bytes takes at most half of that.
bool bound_by_power(const Gemm& gemm, const DeviceCaps& device, double expected_ns);
/// Operations for each of these bytes: the arithmetic intensity; 0 for an empty problem.
double intensity(const Gemm& gemm);

}  // namespace kiln
