// What a product must move at least, which with its operations says what limits it. Pure.
#pragma once

#include "kiln/gemm.hpp"
#include "runtime/cpu/probe.h"

namespace kiln {

/// Bytes of A, B, D and the terms, each read or written once. Races run with beta = 0: C is not
/// read.
double least_bytes(const Gemm& gemm);
/// The least time that a machine needs for a product, in nanoseconds: its operations at `flops`
/// (the peak of its types, 0: not known), or its bytes at the rate of the memory that a race finds
/// them in. Operands that fit in a quarter of L2 stay in the caches there, all others are so many
/// that they come from memory (rotation_sets). 0 where nothing is known.
double roof_ns(const Gemm& gemm, const MachineLimits& limits, double flops);
/// Operations for each of these bytes: the arithmetic intensity; 0 for an empty problem.
double intensity(const Gemm& gemm);

}  // namespace kiln
