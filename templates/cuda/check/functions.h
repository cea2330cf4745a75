// The functions of expressions as references compute them, on a GPU and, where the host includes
// this file (generator/expression/functions.h), on the CPU: plain C++ without headers. Expects
// KILN_DEVICE and the functions of math.h.
#pragma once

/// In the order of kFunctions in generator/expression/functions.cpp.
enum ExpressionFunction {
  function_add,
  function_subtract,
  function_multiply,
  function_divide,
  function_less,
  function_at_most,
  function_more,
  function_at_least,
  function_equal,
  function_differ,
  function_negate,
  function_where,
  function_min,
  function_max,
  function_clamp,
  function_relu,
  function_round,
  function_abs,
  function_exp,
  function_log,
  function_sqrt,
  function_rsqrt,
  function_tanh,
  function_erf,
  function_sigmoid,
  function_silu,
  function_gelu,
  function_gelu_erf,
  function_remainder,
  function_random,
  function_fp32,
  function_fp16,
  function_bf16,
  function_e4m3,
  function_s8
};

// A NaN stays a NaN in both.
KILN_DEVICE double smaller(double x, double y) { return x < y || x != x ? x : y; }
KILN_DEVICE double larger(double x, double y) { return x > y || x != x ? x : y; }

/// Of two numbers of 32 bits one whose bits depend on all of theirs.
KILN_DEVICE unsigned mixed_bits(unsigned x, unsigned y) {
  x ^= y * 0x9e3779b1u + 0x7f4a7c15u;
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}
/// A whole number of fp32's; any other counts as 0.
KILN_DEVICE bool is_counter(double x) { return x >= 0 && x <= 16777216.0 && x == rint(x); }
KILN_DEVICE unsigned counter(double x) { return is_counter(x) ? unsigned(x) : 0; }

/// The nearest number, ties to even, of those with so many bits behind the first one, whose
/// exponents are `least` and more.
KILN_DEVICE float nearest_of(float x, int bits, int least) {
  if (x == 0 || x - x != 0) return x;  // infinity and NaN
  int exponent = ilogbf(x);
  if (exponent < least) exponent = least;
  return ldexpf(rintf(ldexpf(x, bits - exponent)), exponent - bits);
}
/// The same of fp16: what would be 2^16 or more is infinite.
KILN_DEVICE float nearest_half(float x) {
  const float near = nearest_of(x, 10, -14);
  return near >= 65536.0f || near <= -65536.0f ? ldexpf(near, 128) : near;
}
KILN_DEVICE float nearest_e4m3(float x) {
  return nearest_of(x < -448.0f ? -448.0f : x > 448.0f ? 448.0f : x, 3, -6);
}
/// A NaN is 0.
KILN_DEVICE float nearest_s8(float x) {
  return x != x ? 0.0f : rintf(x < -128.0f ? -128.0f : x > 127.0f ? 127.0f : x);
}

/// A comparison's value is 1 where it holds. Functions of fewer arguments do not look at others.
KILN_DEVICE double function_value(int function, double x, double y, double z) {
  switch (function) {
    case function_add:
      return x + y;
    case function_subtract:
      return x - y;
    case function_multiply:
      return x * y;
    case function_divide:
      return x / y;
    case function_less:
      return x < y;
    case function_at_most:
      return x <= y;
    case function_more:
      return x > y;
    case function_at_least:
      return x >= y;
    case function_equal:
      return x == y;
    case function_differ:
      return x != y;
    case function_negate:
      return -x;
    case function_where:
      return x != 0 ? y : z;
    case function_min:
      return smaller(x, y);
    case function_max:
      return larger(x, y);
    case function_clamp:
      return smaller(larger(x, y), z);
    case function_relu:
      return x < 0 ? 0 : x;
    case function_round:
      return rint(x);
    case function_abs:
      return fabs(x);
    case function_exp:
      return exp(x);
    case function_log:
      return ::log(x);  // kiln has a namespace of that name
    case function_sqrt:
      return sqrt(x);
    case function_rsqrt:
      return 1 / sqrt(x);
    case function_tanh:
      return tanh(x);
    case function_erf:
      return erf(x);
    case function_sigmoid:
      return 1 / (1 + exp(-x));
    case function_silu:
      return x / (1 + exp(-x));
    case function_gelu:  // x/2 (1 + tanh u) as x / (1 + e^(-2u)), which does not cancel
      return x / (1 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
    case function_gelu_erf:
      return 0.5 * x * erfc(-0.70710678118654752 * x);
    case function_remainder:
      return counter(y) > 0 && is_counter(x) ? double(counter(x) % counter(y)) : 0;
    case function_random: {  // 24 bits
      const unsigned bits =
          mixed_bits(mixed_bits(mixed_bits(0, counter(x)), counter(y)), counter(z));
      return double(bits >> 8) / 16777216.0;
    }
    case function_fp32:
      return float(x);
    case function_fp16:
      return nearest_half(float(x));
    case function_bf16:
      return nearest_of(float(x), 7, -126);
    case function_e4m3:
      return nearest_e4m3(float(x));
    case function_s8:
      return nearest_s8(float(x));
  }
  return x;
}
