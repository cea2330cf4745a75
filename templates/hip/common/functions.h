// Functions of expressions, each of one element, without a library. Expects types.h, exponential()
// of epilogue.h, and from the parameters Real.
#pragma once

//% include cuda/common/exact.h
//% if uses_fp8_e4m3
KILN_DEVICE Real to_e4m3(Real x) { return to_real(from_real(x, Float8<3, false>{})); }
//% end
//% if uses_round
KILN_DEVICE float nearest(float x) { return __builtin_rintf(x); }
KILN_DEVICE double nearest(double x) { return __builtin_rint(x); }
//% end
//% if uses_remainder
KILN_DEVICE float remainder(float x, float y) { return x - y * __builtin_floorf(x / y); }
KILN_DEVICE double remainder(double x, double y) { return x - y * __builtin_floor(x / y); }
//% end
//% if uses_abs || uses_tanh || uses_erf
KILN_DEVICE float absolute(float x) { return __builtin_fabsf(x); }
KILN_DEVICE double absolute(double x) { return __builtin_fabs(x); }
//% end
//% if uses_sqrt || uses_rsqrt
KILN_DEVICE float root(float x) { return __builtin_sqrtf(x); }
KILN_DEVICE double root(double x) { return __builtin_sqrt(x); }
//% end
//% if uses_rsqrt
KILN_DEVICE Real inverse_root(Real x) { return Real(1) / root(x); }
//% end
//% if uses_log || reduces_exponentials
/// log(m · 2^e) = e · ln 2 + 2 · atanh(s), s = (m - 1) / (m + 1), m from √½ to √2: |s| ≤ 0.1716.
KILN_DEVICE float logarithm(float x) {
  if (!(x > 0.0f)) return x == 0.0f ? -__builtin_inff() : __builtin_nanf("");
  if (x == __builtin_inff()) return x;
  const bool small = x < 0x1p-126f;
  const u32 bits = bits_as<u32>(small ? x * 0x1p23f : x) - 0x3f3504f3u;
  const int exponent = (i32(bits) >> 23) - (small ? 23 : 0);
  const float m = bits_as<float>((bits & 0x7fffff) + 0x3f3504f3u);
  const float s = (m - 1.0f) / (m + 1.0f), z = s * s;
  float sum = 0.222222222f;
  sum = sum * z + 0.285714286f;
  sum = sum * z + 0.4f;
  sum = sum * z + 0.666666667f;
  const float rest = sum * z * s + 2.0f * s, n = float(exponent);
  return n * 0.693359375f + (n * -2.12194440e-4f + rest);  // ln 2 in two parts
}
KILN_DEVICE double logarithm(double x) {
  if (!(x > 0.0)) return x == 0.0 ? -__builtin_inf() : __builtin_nan("");
  if (x == __builtin_inf()) return x;
  const bool small = x < 0x1p-1022;
  const u64 bits = bits_as<u64>(small ? x * 0x1p52 : x) - 0x3fe6a09e667f3bcdull;
  const int exponent = int(i64(bits) >> 52) - (small ? 52 : 0);
  const double m = bits_as<double>((bits & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull);
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  double sum = 2.0 / 23;
  KILN_UNROLL for (int i = 21; i >= 3; i -= 2) sum = sum * z + 2.0 / i;
  const double rest = sum * z * s + 2.0 * s, n = double(exponent);
  return n * 0.693147180369123816 + (n * 1.90821492927058770e-10 + rest);
}
//% end
//% if reduces_exponentials
KILN_DEVICE Real exp(Real x) { return exponential(x); }
KILN_DEVICE Real log(Real x) { return logarithm(x); }
//% end
//% if uses_tanh
/// A polynomial where 1 - 2 / (e^2x + 1) would cancel.
KILN_DEVICE float tangent(float x) {
  const float size = absolute(x), square = x * x;
  float near = -0.00609671416f * square + 0.020997179f;
  near = near * square - 0.0538509096f;
  near = near * square + 0.133327697f;
  near = near * square - 0.333333289f;
  near = near * square * x + x;
  const float far = 1.0f - 2.0f / (exponential(2.0f * size) + 1.0f);
  return size < 0.625f ? near : x < 0.0f ? -far : far;
}
/// Lambert's continued fraction there.
KILN_DEVICE double tangent(double x) {
  const double size = absolute(x), square = x * x;
  double below = 25.0;
  KILN_UNROLL for (int i = 23; i >= 1; i -= 2) below = i + square / below;
  const double far = 1.0 - 2.0 / (exponential(2.0 * size) + 1.0);
  return size < 0.625 ? x / below : x < 0.0 ? -far : far;
}
//% end
//% if uses_erf
KILN_DEVICE float error_function(float x) {
  const float square = x * x;
  float near = square * 7.87587505e-05f - 0.000801686428f;
  near = near * square + 0.00518908742f;
  near = near * square - 0.026854212f;
  near = near * square + 0.112835947f;
  near = near * square - 0.376126267f;
  near = (near * square + 1.12837917f) * x;
  if (absolute(x) < 1.0f) return near;
  const float far = absolute(x) > 6.0f ? 1.0f : 1.0f - complement(absolute(x), kTail);
  return x < 0.0f ? -far : x > 0.0f ? far : x;
}
/// The series of e^-x² there: its terms fall fast enough.
KILN_DEVICE double error_function(double x) {
  const double square = x * x;
  if (absolute(x) < 1.0) {
    double term = x, sum = x;
    for (int n = 1; n < 24; ++n) {
      term *= -square / n;
      sum += term / (2 * n + 1);
    }
    return 1.1283791670955126 * sum;
  }
  const double far = absolute(x) > 7.0 ? 1.0 : 1.0 - complement(absolute(x), kTail);
  return x < 0.0 ? -far : x > 0.0 ? far : x;
}
//% end
//% if uses_sigmoid
KILN_DEVICE Real sigmoid(Real x) { return Real(1) / (Real(1) + exponential(-x)); }
//% end
//% if uses_silu
KILN_DEVICE Real silu(Real x) { return x / (Real(1) + exponential(-x)); }
//% end

KILN_DEVICE float fused(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
KILN_DEVICE double fused(double x, double y, double z) { return __builtin_fma(x, y, z); }
