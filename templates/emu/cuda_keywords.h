// CUDA's keywords and names that need no header there, for a compiler of ordinary C++. Stands
// before everything else of an emulated source. Expects emu/abi.h.
#pragma once

/// Filled in by whoever loads the compiled source.
extern "C" __attribute__((visibility("default"))) const KilnEmuOps* kiln_emu_ops;
const KilnEmuOps* kiln_emu_ops = nullptr;

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
/// Who asks: the same for as long as a function runs, so the compiler need not ask again.
__attribute__((const, noinline)) static const KilnEmuLane* kiln_emu_lane() {
  return kiln_emu_ops->lane();
}
#define threadIdx (kiln_emu_lane()->thread)
#define blockIdx (kiln_emu_lane()->block)
#define blockDim (kiln_emu_lane()->threads)
#define gridDim (kiln_emu_lane()->blocks)

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

static inline void __syncthreads() { kiln_emu_ops->barrier(0, 0, 1); }
static inline void __syncwarp() { kiln_emu_ops->warp_barrier(); }
static inline void __threadfence() { kiln_emu_ops->store_fence(); }
static inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
static inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
static inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
static inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline double __dmul_rn(double x, double y) { return x * y; }
static inline float __fdividef(float x, float y) {
  return __builtin_fabsf(y) > 0x1p126f ? x * 0.0f : x / y;
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)high << 32 | low) >> (shift & 31));
}
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const unsigned long long bytes = (unsigned long long)y << 32 | x;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i) {
    // Three bits of the selector count: prmt.b32 alone spreads signs.
    out |= (unsigned(bytes >> (selector >> i * 4 & 7) * 8) & 255) << i * 8;
  }
  return out;
}
static inline unsigned long long __cvta_generic_to_shared(const void* p) {
  return kiln_emu_ops->shared_address(p);
}
template <typename T>
static inline T kiln_emu_shuffle(T value, int kind, int argument) {
  unsigned words[sizeof(T) / 4];
  __builtin_memcpy(words, &value, sizeof(T));
  for (unsigned& word : words) kiln_emu_ops->shuffle(&word, kind, argument);
  __builtin_memcpy(&value, words, sizeof(T));
  return value;
}
template <typename T>
static inline T __shfl_sync(unsigned, T value, int lane) {
  return kiln_emu_shuffle(value, 0, lane);
}
template <typename T>
static inline T __shfl_xor_sync(unsigned, T value, int mask) {
  return kiln_emu_shuffle(value, 1, mask);
}
/// Of blocks whose warps lie along x.
static inline unsigned __ballot_sync(unsigned, bool holds) {
  unsigned all = holds ? 1u << threadIdx.x % 32 : 0;
  for (int apart = 16; apart > 0; apart /= 2) all |= __shfl_xor_sync(0xffffffff, all, apart);
  return all;
}
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }

static inline unsigned atomicMax(unsigned* to, unsigned x) {
  kiln_emu_ops->before_shared_work();
  unsigned seen = __atomic_load_n(to, __ATOMIC_RELAXED);
  while (x > seen &&
         !__atomic_compare_exchange_n(to, &seen, x, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return seen;
}

// The host's functions under CUDA's overloaded names. Macros, because the plain names already are
// C's functions of double.
static inline float kiln_emu_exp(float x) { return __builtin_expf(x); }
static inline double kiln_emu_exp(double x) { return __builtin_exp(x); }
static inline float kiln_emu_erfc(float x) { return __builtin_erfcf(x); }
static inline double kiln_emu_erfc(double x) { return __builtin_erfc(x); }
#define exp kiln_emu_exp
#define erfc kiln_emu_erfc
#define KILN_EMU_BOTH(name)                                                       \
  static inline float kiln_emu_##name(float x) { return __builtin_##name##f(x); } \
  static inline double kiln_emu_##name(double x) { return __builtin_##name(x); }
KILN_EMU_BOTH(log)
KILN_EMU_BOTH(tanh)
KILN_EMU_BOTH(erf)
KILN_EMU_BOTH(sqrt)
KILN_EMU_BOTH(rint)
KILN_EMU_BOTH(floor)
KILN_EMU_BOTH(fabs)
static inline float kiln_emu_rsqrt(float x) { return 1 / __builtin_sqrtf(x); }
static inline double kiln_emu_rsqrt(double x) { return 1 / __builtin_sqrt(x); }
static inline float kiln_emu_fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline double kiln_emu_fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
#define fma kiln_emu_fma
#define log kiln_emu_log
#define tanh kiln_emu_tanh
#define erf kiln_emu_erf
#define sqrt kiln_emu_sqrt
#define rint kiln_emu_rint
#define floor kiln_emu_floor
#define fabs kiln_emu_fabs
#define rsqrt kiln_emu_rsqrt
#define fabsf __builtin_fabsf
template <typename T>
static inline T min(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
static inline T max(T a, T b) {
  return a < b ? b : a;
}
