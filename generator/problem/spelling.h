// One spelling for problems that are the same on a device or in memory. Pure.
#pragma once

#include <vector>

#include "generator/problem/device_caps.h"
#include "kiln/gemm.hpp"

namespace kiln {

/// Whether a device's tensor cores sum 8-bit floats in fewer bits than fp32 has: Ada's and Hopper's
/// do.
bool truncates_sums(const DeviceCaps& device);

/// Whether a family of the device multiplies fp32 in parts of 16 bits (numerics=tensor).
bool splits_fp32(const DeviceCaps& device);

/// Whether a family of the device rounds weights times their scales to A's type (numerics=fast).
/// The scale of a whole column is that of its sum.
bool rounds_weights(const Gemm& gemm, const DeviceCaps& device);

/// The numerics that make a difference on a device.
Numerics numerics_on(const Gemm& gemm, const DeviceCaps& device);

/// Bytes of which addresses are multiples where a problem for a GPU promises nothing: no kernel has
/// a use for more.
inline constexpr int kUsualAlignment = 16;

/// The problem as a device's plans spell it: on a GPU one that promises no alignment has the usual
/// one. A problem that is not valid is left as it is.
Gemm with_defaults_of(const Gemm& gemm, const DeviceCaps& device);

/// The problem as databases of kiln 0.2 and before spell it, whose alignment was that of pitches as
/// well: no more than each of them has.
Gemm with_alignment_of_pitches(const Gemm& gemm);

/// The problem and those that promise less, whose kernels serve it as well: with less alignment,
/// and with numerics=ieee. Those that promise most come first.
std::vector<Gemm> served_by(const Gemm& gemm);

/// A matrix whose lines have one element each and lie side by side is one line, which its transpose
/// says: a transposed A with m = 1, a B and a D with n = 1. The same memory and the same product;
/// kernels read and write lines fast. Operands with k = 1 stay k-major, which some kernels need.
Gemm with_joined_lines(const Gemm& gemm);

}  // namespace kiln
