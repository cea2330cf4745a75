// Functions of the epilogue, each of whole vectors. Expects vector.h, and from the parameters Real.
#pragma once

//% if exponential
//% if kind == f64
template <int L>
KILN_INLINE Vec<double, L> exponential(Vec<double, L> x) {
  Vec<double, L> y;
  for (int i = 0; i < L; ++i) y[i] = __builtin_exp(x[i]);
  return y;
}
//% else
/// e^x to about 1 ulp: 2^n times a polynomial in the rest, |rest| ≤ ln 2 / 2.
template <int L>
KILN_INLINE Vec<float, L> exponential(Vec<float, L> x) {
  Vec<float, L> clamped = __builtin_elementwise_min(
      __builtin_elementwise_max(x, Vec<float, L>(-104.0f)), Vec<float, L>(89.0f));
  Vec<float, L> n = __builtin_elementwise_roundeven(clamped * 1.44269504f);
  using V = Vec<float, L>;
  V r = fused(n, V(-0.693359375f), clamped);  // ln 2 in two parts: the first is exact times n
  r = fused(n, V(2.12194440e-4f), r);
  V p = fused(r, V(1.0f / 5040), V(1.0f / 720));
  p = fused(p, r, V(1.0f / 120));
  p = fused(p, r, V(1.0f / 24));
  p = fused(p, r, V(1.0f / 6));
  p = fused(p, r, V(0.5f));
  p = fused(p * r, r, r) + 1.0f;
  // Two factors, because n reaches beyond the exponents of normal floats at both ends.
  Vec<i32, L> whole = __builtin_convertvector(n, Vec<i32, L>), half = whole >> 1;
  auto power = [](Vec<i32, L> e) { return bits_of<Vec<float, L>>((e + 127) << 23); };
  Vec<float, L> y = p * power(half) * power(whole - half);
  return x == x ? y : x;
}
//% end
//% end

//% if epilogue == call || uses_relu
template <int L>
KILN_INLINE Vec<Real, L> relu(Vec<Real, L> x) {
  return x < Real(0) ? Vec<Real, L>(Real(0)) : x;  // NaN stays NaN
}
//% end
//% if epilogue == call || uses_silu
template <int L>
KILN_INLINE Vec<Real, L> silu(Vec<Real, L> x) {
  return x / (Real(1) + exponential<L>(-x));
}
//% end
//% if uses_sigmoid
template <int L>
KILN_INLINE Vec<Real, L> sigmoid(Vec<Real, L> x) {
  return Real(1) / (Real(1) + exponential<L>(-x));
}
//% end
//% if epilogue == call || uses_gelu
/// x/2 · (1 + tanh(u)) written as x / (1 + e^(-2u)), which does not cancel.
template <int L>
KILN_INLINE Vec<Real, L> gelu_tanh(Vec<Real, L> x) {
  using V = Vec<Real, L>;
  V u2 = x * Real(1.5957691216057308) * fused(Real(0.044715) * x, x, V(Real(1)));
  return x / (Real(1) + exponential<L>(-u2));
}
//% end
//% if epilogue == call || uses_gelu_erf || uses_erf
//% if kind == f64
template <int L>
KILN_INLINE Vec<double, L> gelu_erf(Vec<double, L> x) {
  Vec<double, L> y;
  for (int i = 0; i < L; ++i) y[i] = 0.5 * x[i] * __builtin_erfc(-0.70710678118654752 * x[i]);
  return y;
}
//% else
/// x · Φ(x), Φ through erfc(z) = t · e^(-z² + P(t)), t = 1 / (1 + z/2) (Numerical Recipes, 6.2; the
/// fit's relative error is 1.2e-7).
template <int L>
KILN_INLINE Vec<float, L> gelu_erf(Vec<float, L> x) {
  Vec<float, L> z = __builtin_elementwise_abs(x) * 0.70710678f;
  using V = Vec<float, L>;
  V t = 1.0f / fused(z, V(0.5f), V(1.0f));
  V p = fused(t, V(0.17087277f), V(-0.82215223f));
  p = fused(p, t, V(1.48851587f));
  p = fused(p, t, V(-1.13520398f));
  p = fused(p, t, V(0.27886807f));
  p = fused(p, t, V(-0.18628806f));
  p = fused(p, t, V(0.09678418f));
  p = fused(p, t, V(0.37409196f));
  p = fused(p, t, V(1.00002368f));
  p = fused(p, t, V(-1.26551223f));
  V tail = 0.5f * t * exponential<L>(fused(-z, z, p));  // Φ(-|x|)
  return x * (x < 0.0f ? tail : 1.0f - tail);
}
//% end
//% end
//% if uses_erf

/// A polynomial up to 1, beyond it 2 Φ(√2 |x|) - 1, which would cancel before.
//% if kind == f64
template <int L>
KILN_INLINE Vec<double, L> error_function(Vec<double, L> x) {
  Vec<double, L> y;
  for (int i = 0; i < L; ++i) y[i] = __builtin_erf(x[i]);
  return y;
}
//% else
template <int L>
KILN_INLINE Vec<float, L> error_function(Vec<float, L> x) {
  using V = Vec<float, L>;
  const V size = __builtin_elementwise_abs(x), square = x * x;
  V near = fused(square, V(7.87587505e-05f), V(-0.000801686428f));
  near = fused(near, square, V(0.00518908742f));
  near = fused(near, square, V(-0.026854212f));
  near = fused(near, square, V(0.112835947f));
  near = fused(near, square, V(-0.376126267f));
  near = fused(near, square, V(1.12837917f)) * x;
  const V some = __builtin_elementwise_min(size, V(8.0f)) * 1.41421356f;
  const V far = 2.0f * gelu_erf<L>(some) / some - 1.0f;
  const V y = size < 1.0f ? near : (x < 0.0f ? -far : far);
  return x == x ? y : x;
}
//% end
//% end
//% if uses_tanh

//% if kind == f64
template <int L>
KILN_INLINE Vec<double, L> tangent(Vec<double, L> x) {
  Vec<double, L> y;
  for (int i = 0; i < L; ++i) y[i] = __builtin_tanh(x[i]);
  return y;
}
//% else
/// x · P(x²) / Q(x²), fitted where tanh is not 1 yet; 3 ulp.
template <int L>
KILN_INLINE Vec<float, L> tangent(Vec<float, L> x) {
  using V = Vec<float, L>;
  const V y = __builtin_elementwise_min(__builtin_elementwise_max(x, V(-8.8f)), V(8.8f));
  const V z = y * y;
  V p = fused(z, V(1.37160567e-8f), V(2.08664605e-5f));
  p = fused(p, z, V(0.00351112126f));
  p = fused(p, z, V(0.133940786f));
  p = fused(p, z, V(1.0f));
  V q = fused(z, V(7.92337687e-7f), V(0.000331110612f));
  q = fused(q, z, V(0.0259359907f));
  q = fused(q, z, V(0.46727398f));
  q = fused(q, z, V(1.0f));
  const V all = __builtin_elementwise_min(__builtin_elementwise_max(y * p / q, V(-1.0f)), V(1.0f));
  return x == x ? all : x;
}
//% end
//% end
//% if uses_log

//% if kind == f64
template <int L>
KILN_INLINE Vec<double, L> logarithm(Vec<double, L> x) {
  Vec<double, L> y;
  for (int i = 0; i < L; ++i) y[i] = __builtin_log(x[i]);
  return y;
}
//% else
/// x = 2^n (1 + f), 1 + f from √½ to √2: n ln 2 + f - f²/2 + f³ P(f).
template <int L>
KILN_INLINE Vec<float, L> logarithm(Vec<float, L> x) {
  using V = Vec<float, L>;
  const auto denormal = x < 0x1p-126f;
  const Vec<i32, L> bits = bits_of<Vec<i32, L>>(denormal ? x * 0x1p23f : x);
  const Vec<i32, L> exponent = (bits - 0x3f3504f3) >> 23;
  const V f = bits_of<V>(bits - (exponent << 23)) - 1.0f;
  const V n = __builtin_convertvector(exponent, V) - (denormal ? V(23.0f) : V(0.0f));
  V p = fused(f, V(0.0697161146f), V(-0.114797338f));
  p = fused(p, f, V(0.116854199f));
  p = fused(p, f, V(-0.124256873f));
  p = fused(p, f, V(0.142490576f));
  p = fused(p, f, V(-0.166678023f));
  p = fused(p, f, V(0.200007157f));
  p = fused(p, f, V(-0.24999997f));
  p = fused(p, f, V(0.333333312f));
  const V square = f * f;
  V y = fused(p * square, f, n * -2.12194440e-4f);
  y = fused(V(-0.5f), square, y) + f;
  y = fused(n, V(0.693359375f), y);
  y = x < __builtin_inff() ? y : x;  // infinity and NaN
  y = x > 0.0f ? y : V(-__builtin_inff());
  return x >= 0.0f ? y : V(__builtin_nanf(""));
}
//% end
//% end
//% if uses_sqrt
template <int L>
KILN_INLINE Vec<Real, L> root(Vec<Real, L> x) {
  return __builtin_elementwise_sqrt(x);
}
//% end
//% if uses_rsqrt
template <int L>
KILN_INLINE Vec<Real, L> inverse_root(Vec<Real, L> x) {
  return Real(1) / __builtin_elementwise_sqrt(x);
}
//% end
//% if uses_round
template <int L>
KILN_INLINE Vec<Real, L> nearest(Vec<Real, L> x) {
  return __builtin_elementwise_roundeven(x);
}
//% end
//% if uses_remainder
template <int L>
KILN_INLINE Vec<Real, L> remainder(Vec<Real, L> x, Vec<Real, L> y) {
  return x - y * __builtin_elementwise_floor(x / y);
}
//% end
//% if uses_abs
template <int L>
KILN_INLINE Vec<Real, L> absolute(Vec<Real, L> x) {
  return __builtin_elementwise_abs(x);
}
//% end
//% if uses_fp32 || uses_fp16 || uses_bf16 || uses_fp8_e4m3 || uses_s8
/// Casts go by way of fp32.
template <int L>
KILN_INLINE Vec<float, L> floats(Vec<Real, L> x) {
  return __builtin_convertvector(x, Vec<float, L>);
}
template <int L>
KILN_INLINE Vec<Real, L> reals(Vec<float, L> x) {
  return __builtin_convertvector(x, Vec<Real, L>);
}
//% end
//% if uses_fp32
template <int L>
KILN_INLINE Vec<Real, L> to_fp32(Vec<Real, L> x) {
  return reals<L>(floats<L>(x));
}
//% end
//% if uses_fp16
template <int L>
KILN_INLINE Vec<Real, L> to_fp16(Vec<Real, L> x) {
  return reals<L>(half_to_float<L>(float_to_half<L>(floats<L>(x))));
}
//% end
//% if uses_bf16
/// Denormals too, which an instruction that converts to bf16 flushes.
template <int L>
KILN_INLINE Vec<Real, L> to_bf16(Vec<Real, L> x) {
  const auto bits = bits_of<Vec<u32, L>>(floats<L>(x));
  const auto rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  const auto nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return reals<L>(bits_of<Vec<float, L>>(nan ? bits : rounded));
}
//% end
//% if uses_fp8_e4m3
template <int L>
KILN_INLINE Vec<Real, L> to_e4m3(Vec<Real, L> x) {
  const Vec<u8, L> codes = float_to_e4m3<L>(floats<L>(x));
  return reals<L>(e4m3_to_float<L>(__builtin_convertvector(codes, Vec<i32, L>) << 24));
}
//% end
//% if uses_s8
template <int L>
KILN_INLINE Vec<Real, L> to_s8(Vec<Real, L> x) {
  const auto whole = to_integer<L>(reals<L>(floats<L>(x)), Real(-128), Real(127));
  return __builtin_convertvector(whole, Vec<Real, L>);
}
//% end
//% if uses_min || uses_clamp
template <int L>
KILN_INLINE Vec<Real, L> smaller(Vec<Real, L> x, Vec<Real, L> y) {
  return x < y ? x : (x == x ? y : x);  // NaN stays NaN
}
//% end
//% if uses_max || uses_clamp
template <int L>
KILN_INLINE Vec<Real, L> larger(Vec<Real, L> x, Vec<Real, L> y) {
  return x > y ? x : (x == x ? y : x);
}
//% end
//% if uses_clamp
template <int L>
KILN_INLINE Vec<Real, L> clamped(Vec<Real, L> x, Vec<Real, L> low, Vec<Real, L> high) {
  return smaller<L>(larger<L>(x, low), high);
}
//% end
//% if uses_random
/// Of two numbers of 32 bits one whose bits depend on all of theirs.
template <int L>
KILN_INLINE Vec<u32, L> mixed_bits(Vec<u32, L> x, Vec<Real, L> counter) {
  x ^= __builtin_convertvector(counter, Vec<u32, L>) * 0x9e3779b1u + 0x7f4a7c15u;
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}
/// From 0 to 1, of whole numbers.
template <int L>
KILN_INLINE Vec<Real, L> drawn(Vec<Real, L> seed, Vec<Real, L> x, Vec<Real, L> y) {
  const Vec<u32, L> none = 0;
  const Vec<u32, L> bits = mixed_bits<L>(mixed_bits<L>(mixed_bits<L>(none, seed), x), y);
  return __builtin_convertvector(bits >> 8, Vec<Real, L>) * Real(0x1p-24);
}
//% end
//% if expressed

/// One element.
template <typename T>
KILN_INLINE Real element(const T* from) {
  return to_real<2>(Vec<Raw<T>, 2>(*reinterpret_cast<const Raw<T>*>(from)), T{})[0];
}
/// The same value for all lanes.
template <int L, typename T>
KILN_INLINE Vec<Real, L> same(const T* from) {
  return Vec<Real, L>(element(from));
}
/// `count` elements that lie `stride` apart.
template <int L, typename T>
KILN_INLINE Vec<Real, L> apart(const T* from, i64 stride, int count) {
  Vec<Real, L> x = Real(0);
  for (int i = 0; i < L; ++i)
    if (i < count) x[i] = element(from + i * stride);
  return x;
}
//% if shares
/// Each lane in two.
template <int L, int... I>
KILN_INLINE Vec<Real, L> twice(Vec<Real, L / 2> x, Sequence<int, I...>) {
  return __builtin_shufflevector(x, x, (I / 2)...);
}
/// Of a line, elements of which kShared neighbours from `first` on share each.
template <int L, int kShared, typename T>
KILN_INLINE Vec<Real, L> shared(const T* line, i64 stride, i64 first, int count) {
  if (first / kShared == (first + count - 1) / kShared)
    return same<L>(line + first / kShared * stride);
  if constexpr (kShared == 2 && L > 2)
    if (stride == 1 && first % 2 == 0 && count == L)
      return twice<L>(load_real<L / 2>(line + first / 2, L / 2), Iota<L>{});
  Vec<Real, L> x = Real(0);
  for (int i = 0; i < L; ++i)
    if (i < count) x[i] = element(line + (first + i) / kShared * stride);
  return x;
}
template <int L, int kShared, typename T>
KILN_INLINE void store_shared(T* line, i64 stride, i64 first, Vec<Real, L> x, int count) {
  const auto stored = from_real<L>(x, T{});
  for (int i = 0; i < L; ++i)
    if (i < count && (first + i) % kShared == 0)
      reinterpret_cast<Raw<T>*>(line)[(first + i) / kShared * stride] = stored[i];
}
//% end
//% if outputs || behind
/// `count` elements, and such that lie `stride` apart.
template <int L, typename T>
KILN_INLINE void store_real(T* to, Vec<Real, L> x, int count) {
  store_first<L>(reinterpret_cast<Raw<T>*>(to), from_real<L>(x, T{}), count);
}
//% if uses_fp16 || uses_bf16
/// Of values that the type has: a conversion to bf16 may flush denormals.
template <int L>
KILN_INLINE void store_narrow(Bfloat* to, Vec<Real, L> x, int count) {
  const auto bits = bits_of<Vec<u32, L>>(floats<L>(x)) >> 16;
  store_first<L>(reinterpret_cast<u16*>(to), __builtin_convertvector(bits, Vec<u16, L>), count);
}
template <int L>
KILN_INLINE void store_narrow(Half* to, Vec<Real, L> x, int count) {
  store_real<L>(to, x, count);
}
//% end
template <int L, typename T>
KILN_INLINE void scatter(T* to, i64 stride, Vec<Real, L> x, int count) {
  const auto stored = from_real<L>(x, T{});
  for (int i = 0; i < L; ++i)
    if (i < count) reinterpret_cast<Raw<T>*>(to)[i * stride] = stored[i];
}
//% end
/// The indices of the lanes from the first one's on.
template <int L, int... I>
KILN_INLINE Vec<Real, L> counted(i64 first, Sequence<int, I...>) {
  return Vec<Real, L>{Real(first + I)...};
}
//% end
