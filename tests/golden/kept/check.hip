
// ---- hip/check/device.h ----
// What templates/cuda/check/check.cu asks of the device, for AMD GPUs: CUDA's words by Clang's own
// means, so that the text needs no header. Expects types.h, and from the parameters kCheckThreads,
// the threads of a block, all in a row.

#define __global__ \
  __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(kCheckThreads, kCheckThreads)))
#define __shared__ static __attribute__((shared))
#define __grid_constant__

struct CheckPlace {
  u32 x, y, z;
};
KILN_DEVICE CheckPlace check_thread() { return {__builtin_amdgcn_workitem_id_x(), 0, 0}; }
KILN_DEVICE CheckPlace check_block() {
  return {__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
          __builtin_amdgcn_workgroup_id_z()};
}
KILN_DEVICE CheckPlace check_grid() {
  return {__builtin_amdgcn_grid_size_x() / kCheckThreads, __builtin_amdgcn_grid_size_y(),
          __builtin_amdgcn_grid_size_z()};
}
KILN_DEVICE CheckPlace check_block_size() { return {kCheckThreads, 1, 1}; }
#define threadIdx check_thread()
#define blockIdx check_block()
#define gridDim check_grid()
#define blockDim check_block_size()

/// The bare instruction does not wait for writes to shared memory: hence the fences.
KILN_DEVICE void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
KILN_DEVICE void atomicAdd(u64* to, u64 value) {
  __hip_atomic_fetch_add(to, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
KILN_DEVICE void atomicMin(u64* to, u64 value) {
  __hip_atomic_fetch_min(to, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
KILN_DEVICE void atomicMax(u64* to, u64 value) {
  __hip_atomic_fetch_max(to, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

KILN_DEVICE float __int_as_float(int bits) { return bits_as<float>(bits); }
KILN_DEVICE int __float_as_int(float x) { return bits_as<int>(x); }
KILN_DEVICE long long __double_as_longlong(double x) { return bits_as<long long>(x); }
KILN_DEVICE float half_to_float(u16 bits) { return float(bits_as<_Float16>(bits)); }
KILN_DEVICE u16 float_to_half(float x) { return bits_as<u16>(_Float16(x)); }
KILN_DEVICE float fabsf(float x) { return __builtin_fabsf(x); }
KILN_DEVICE float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
KILN_DEVICE float rintf(float x) { return __builtin_rintf(x); }
KILN_DEVICE float ldexpf(float x, int exponent) { return __builtin_ldexpf(x, exponent); }
/// The exponent of a finite x that is not zero.
KILN_DEVICE int ilogbf(float x) { return __builtin_amdgcn_frexp_expf(x) - 1; }
KILN_DEVICE double fabs(double x) { return __builtin_fabs(x); }
KILN_DEVICE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
KILN_DEVICE double rint(double x) { return __builtin_rint(x); }
KILN_DEVICE double fmin(double a, double b) { return a < b ? a : b; }
KILN_DEVICE double fmax(double a, double b) { return a > b ? a : b; }
KILN_DEVICE bool isfinite(double x) { return __builtin_fabs(x) < __builtin_inf(); }

/// 2^n · e^rest with |rest| ≤ ln 2 / 2, where fifteen terms of the series are enough.
KILN_DEVICE double exp(double x) {
  if (x != x) return x;
  if (x < -745.2) return 0;
  if (x > 709.8) return __builtin_inf();
  const double n = rint(x * 1.4426950408889634);
  // ln 2 in two parts, the first short enough that its product with n is exact.
  const double rest = (x - n * 0.693147180369123816) - n * 1.90821492927058770e-10;
  double sum = 1;
  for (int i = 14; i >= 1; --i) sum = 1 + sum * rest / i;
  return __builtin_ldexp(sum, int(n));
}
/// Near 0 by Lambert's continued fraction: what is left of e^2x - 1 would be too little.
KILN_DEVICE double tanh(double x) {
  if (x != x) return x;
  if (fabs(x) > 20) return x < 0 ? -1 : 1;
  if (fabs(x) < 0.7) {
    double below = 29;
    for (int i = 27; i >= 1; i -= 2) below = i + x * x / below;
    return x / below;
  }
  const double e = exp(2 * x);
  return (e - 1) / (e + 1);
}
KILN_DEVICE double sqrt(double x) { return __builtin_sqrt(x); }
/// log(m · 2^e) = e · ln 2 + 2 · atanh((m - 1) / (m + 1)), m from √½ to √2.
KILN_DEVICE double log(double x) {
  if (x != x || x == __builtin_inf()) return x;
  if (x <= 0) return x == 0 ? -__builtin_inf() : __builtin_nan("");
  int exponent = 0;
  for (; x > 1.4142135623730951; x *= 0.5) ++exponent;
  for (; x < 0.70710678118654752; x *= 2) --exponent;
  const double s = (x - 1) / (x + 1);
  double sum = 0;
  for (int i = 31; i >= 3; i -= 2) sum = (sum + 2.0 / i) * s * s;
  return exponent * 0.69314718055994531 + (2 * s + sum * s);
}
/// 2/√π · e^(-x²) · Σ 2ⁿ x^(2n+1) / (1·3·…·(2n+1)): all terms have one sign, none cancel.
KILN_DEVICE double erf(double x) {
  if (fabs(x) > 6) return x < 0 ? -1 : 1;
  double term = x, sum = x;
  for (int n = 1; n < 200 && fabs(term) > 1e-18 * fabs(sum); ++n) {
    term *= 2 * x * x / (2 * n + 1);
    sum += term;
  }
  return 1.1283791670955126 * exp(-x * x) * sum;
}
/// Where 1 - erf(x) would cancel, Laplace's continued fraction.
KILN_DEVICE double erfc(double x) {
  if (!(x > 1)) return 1 - erf(x);
  if (x > 28) return 0;
  double below = x;
  for (int i = 160; i >= 1; --i) below = x + i * 0.5 / below;
  return 0.56418958354775629 * exp(-x * x) / below;
}
