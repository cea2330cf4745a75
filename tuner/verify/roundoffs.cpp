#include "tuner/verify/roundoffs.h"

#include <algorithm>
#include <cmath>

#include "generator/problem/extent.h"

namespace kiln {
namespace {

/// How many unit roundoffs of sum|a||b| a right kernel's sum may be off. k is the worst case of any
/// order of summation (each product meets at most k roundings); 8 + 2 sqrt(k) holds for roundings
/// that are independent of each other. On uniform [-1,1] data, one fp32 chain over k = 4096 was at
/// most 5.6 off (two seeds of 262,144 elements each), where this allows 136; several chains lose
/// less.
double summation_roundoffs(const Gemm& gemm) {
  if (gemm.accumulator == DType::s32) return 0.0;
  const double k = static_cast<double>(gemm.k);
  return std::min(k + 2.0, 8.0 + 2.0 * std::sqrt(k));
}

/// What a right fp8 kernel may lose, as a share of sum |a||b|. Hopper's matrix units truncate the
/// accumulator towards zero to about 13 bits at every step of 32 products.
///
/// `fast`: a sum that ends z standard deviations from 0 on uniform [-1,1] data then loses about z
/// sqrt(k) 2^-20: measured on an H200, 1.46 * 2^-11 in the worst of 8 million elements at k =
/// 14336, where this gives 1.44 * 2^-11 at z = 5.5. Granted up to z = 16, at least 2^-11 and at
/// most 2^-9.
///
/// `ieee`: sums of 128 products lose as much of their own sum |a||b| as `fast` ones of so short a k
/// do, for which 2^-11 is granted, and are added in fp32, in which their errors add up as
/// independent ones do. (2^-12 was refused on an H100 for kernels that promote.) The sum of one
/// long chain loses more from about k = 2048 on; a rule refuses it at every k.
double fp8_sum_roundoff(const Gemm& gemm) {
  const double k = static_cast<double>(gemm.k);
  if (gemm.numerics == Numerics::fast) return std::clamp(std::sqrt(k) * 0x1p-16, 0x1p-11, 0x1p-9);
  constexpr double kPromoted = 128;
  return 0x1p-11 * std::min(1.0, 2 * std::sqrt(kPromoted / std::max(1.0, k)));
}

/// What `fast` lets weights lose by being rounded to A's type, as a share of sum |a||b|: a rounding
/// of each product with its scale, one of a scale of another type, and one of what a zero point is
/// beyond an integer. At worst they add up. On uniform data they are independent of the signs of A,
/// so that what they do to a sum grows with the square root of k: of one rounding, whose root mean
/// square is 0.4 of its bound, beside codes whose mean magnitude is as little as 0.45 of theirs
/// (every e4m3), 1.1 / sqrt(k) is a standard deviation, and 8 / sqrt(k) is granted. A scale's
/// rounding is that of a group's sum, of which 2.9 / sqrt(k) is one; 16 / sqrt(k) stands for both.
/// A power of two rounds nothing.
double weights_roundoff(const Gemm& gemm) {
  if (gemm.numerics != Numerics::fast || !has_weights(gemm) || gemm.b.q.scale == Scale::mx_32)
    return 0.0;
  const double unit = gemm.a.dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
  const int roundings =
      1 + (gemm.b.q.type == gemm.a.dtype ? 0 : 1) + (gemm.b.q.zero == Zero::floating ? 1 : 0);
  const double k = static_cast<double>(gemm.k);
  return unit * roundings * std::min(1.0, 8.0 / std::sqrt(std::max(1.0, k)));
}

bool is_fp8(const Gemm& gemm) { return is_floating(gemm.a.dtype) && size_of(gemm.a.dtype) == 1; }

/// Roundings of scales that are not powers of two: theirs with each other and with each sum.
constexpr double kScaleRoundoffs = 4.0;

}  // namespace

double unit_roundoff(const Gemm& gemm) {
  return gemm.accumulator == DType::fp64 ? 0x1p-53 : 0x1p-24;
}

double scaling_roundoffs(const Gemm& gemm) {
  const auto rounds = [](Scale s) { return s != Scale::none && s != Scale::mx_32; };
  return rounds(gemm.a.q.scale) || rounds(gemm.b.q.scale) ? kScaleRoundoffs : 0.0;
}

double sum_roundoff(const Gemm& gemm) {
  const double sums = unit_roundoff(gemm) * (summation_roundoffs(gemm) + scaling_roundoffs(gemm));
  return std::max(sums, is_fp8(gemm) ? fp8_sum_roundoff(gemm) : 0.0) + weights_roundoff(gemm);
}

}  // namespace kiln
