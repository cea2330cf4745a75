// Functions of expressions, each of one element. Expects types.h, and from the parameters Real.
#pragma once

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
//% if uses_tanh
KILN_DEVICE Real tangent(Real x) { return tanh(x); }
//% end
//% if uses_erf
KILN_DEVICE Real error_function(Real x) { return erf(x); }
//% end
//% if uses_sigmoid
KILN_DEVICE Real sigmoid(Real x) { return Real(1) / (Real(1) + exp(-x)); }
//% end
//% if uses_silu
KILN_DEVICE Real silu(Real x) { return x / (Real(1) + exp(-x)); }
//% end
//% if uses_gelu
/// x/2 · (1 + tanh(u)) written as x / (1 + e^(-2u)), which does not cancel.
KILN_DEVICE Real gelu_tanh(Real x) {
  const Real u2 = x * Real(1.5957691216057308) * (Real(1) + Real(0.044715) * x * x);
  return x / (Real(1) + exp(-u2));
}
//% end
//% if uses_gelu_erf
KILN_DEVICE Real gelu_erf(Real x) { return Real(0.5) * x * erfc(Real(-0.70710678118654752) * x); }
//% end
//% if uses_relu
KILN_DEVICE Real relu(Real x) { return x < Real(0) ? Real(0) : x; }  // NaN stays NaN
//% end
//% if uses_round
KILN_DEVICE Real nearest(Real x) { return rint(x); }
//% end
//% if uses_abs
KILN_DEVICE Real absolute(Real x) { return fabs(x); }
//% end
//% if uses_min || uses_clamp
KILN_DEVICE Real smaller(Real x, Real y) { return x < y || x != x ? x : y; }  // NaN stays NaN
//% end
//% if uses_max || uses_clamp
KILN_DEVICE Real larger(Real x, Real y) { return x > y || x != x ? x : y; }
//% end
//% if uses_clamp
KILN_DEVICE Real clamped(Real x, Real low, Real high) { return smaller(larger(x, low), high); }
//% end
