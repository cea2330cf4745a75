// Functions of expressions, each of one element: without branches where that can be, so that
// elements of a lane are computed beside each other. Expects epilogue.h, and from the parameters
// Real.
#pragma once

//% if uses_divide
/// x / y to three roundoffs, without the branches of an exact division. A divisor whose reciprocal
/// could be denormal, or that is denormal, is scaled, and x with it.
KILN_DEVICE float divided(float x, float y) {
  const float size = fabsf(y);
  const float scale = size > 0x1p64f ? 0x1p-64f : size < 0x1p-64f ? 0x1p64f : 1.0f;
  return __fmul_rn(x * scale, near_reciprocal(y * scale));
}
KILN_DEVICE double divided(double x, double y) { return x / y; }
//% end
//% if uses_exp
KILN_DEVICE Real exponential(Real x) { return exp(x); }
//% end
//% if uses_log
KILN_DEVICE Real logarithm(Real x) { return log(x); }
//% end
//% if uses_sqrt
KILN_DEVICE Real root(Real x) { return sqrt(x); }
//% end
//% if uses_rsqrt
KILN_DEVICE Real inverse_root(Real x) { return rsqrt(x); }
//% end
//% if uses_tanh || uses_silu || uses_gelu
/// 1 / (1 + 2^-x) to some roundoffs of 1: what x lost in the exponent is small beside 1 where it
/// is large.
KILN_DEVICE float logistic(float x) { return near_reciprocal(1.0f + near_exp2(-x)); }
KILN_DEVICE double logistic(double x) { return 1.0 / (1.0 + exp(x * -0.6931471805599453)); }
//% end
//% if uses_tanh
KILN_DEVICE double tangent(double x) { return tanh(x); }
/// A polynomial where 1 - 2 / (e^2x + 1) would cancel.
KILN_DEVICE float tangent(float x) {
  const float size = fabsf(x), square = x * x;
  float near = -0.00609671416f * square + 0.020997179f;
  near = near * square - 0.0538509096f;
  near = near * square + 0.133327697f;
  near = near * square - 0.333333289f;
  near = near * square * x + x;
  const float far = 1.0f - 2.0f * logistic(-2.88539008f * size);
  return size < 0.625f ? near : x < 0.0f ? -far : far;
}
//% end
//% if uses_erf
KILN_DEVICE Real error_function(Real x) { return erf(x); }
//% end
//% if uses_sigmoid
KILN_DEVICE Real sigmoid(Real x) { return quotient(Real(1), Real(1) + Real(exp(-x))); }
//% end
//% if uses_silu
KILN_DEVICE Real silu(Real x) { return product(x, logistic(x * Real(1.4426950408889634))); }
//% end
//% if uses_gelu
/// x/2 · (1 + tanh(u)) written as x / (1 + 2^(-2u / ln 2)), which does not cancel.
KILN_DEVICE Real gelu_tanh(Real x) {
  return product(x, logistic(x * (Real(2.302208198144325) + Real(0.1029432395800235) * x * x)));
}
//% end
//% if uses_gelu_erf
KILN_DEVICE Real gelu_erf(Real x) { return Real(0.5) * x * erfc(Real(-0.70710678118654752) * x); }
//% end
//% if uses_round
KILN_DEVICE Real nearest(Real x) { return rint(x); }
//% end
//% if uses_remainder
KILN_DEVICE Real remainder(Real x, Real y) {
  const Real rest = x - y * Real(rint(x / y));
  return rest < Real(0) ? rest + y : rest;
}
//% end
//% if uses_abs
KILN_DEVICE Real absolute(Real x) { return fabs(x); }
//% end
//% if uses_fp8_e4m3
KILN_DEVICE Real to_e4m3(Real x) { return to_real(from_real(x, Float8E4{})); }
//% end
//% include cuda/common/exact.h

/// x · y + z, rounded once.
KILN_DEVICE Real fused(Real x, Real y, Real z) { return fma(x, y, z); }

/// An element of a matrix where it is there, else 0.
KILN_DEVICE Real real_if(const float* from, bool there) {
  return Real(bits_to_float(load_if(reinterpret_cast<const u32*>(from), there)));
}
KILN_DEVICE Real real_if(const double* from, bool there) {
  const u64 bits = load_if(reinterpret_cast<const u64*>(from), there);
  return Real(__longlong_as_double(static_cast<long long>(bits)));
}
KILN_DEVICE Real real_if(const Half* from, bool there) {
  return to_real(Half{load_if(reinterpret_cast<const u16*>(from), there)});
}
/// Of the other types of D.
template <typename T>
KILN_DEVICE Real real_if(const T* from, bool there) {
  return there ? to_real(*from) : Real(0);
}
KILN_DEVICE Real real_if(const Bfloat* from, bool there) {
  return to_real(Bfloat{load_if(reinterpret_cast<const u16*>(from), there)});
}
