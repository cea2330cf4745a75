// Names of the element types and the marks of device functions. Attributes instead of the vendor's
// macros, so that Clang alone, without any header, takes the text as hipRTC and hipcc do.
#pragma once

#define KILN_DEVICE static inline __attribute__((device, always_inline))
#define KILN_MEMBER inline __attribute__((device, always_inline))
#define KILN_SHARED static __attribute__((shared))
#define KILN_KERNEL(threads, waves)                              \
  extern "C" __attribute__((global))                             \
  __attribute__((amdgpu_flat_work_group_size(threads, threads))) \
  __attribute__((amdgpu_waves_per_eu(waves))) void
#define KILN_UNROLL _Pragma("unroll")

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

template <typename T, int N>
using Vector = T __attribute__((ext_vector_type(N)));
using U32x4 = u32 __attribute__((ext_vector_type(4)));
using U32x2 = u32 __attribute__((ext_vector_type(2)));
using I32x4 = i32 __attribute__((ext_vector_type(4)));

/// Storage of the small formats; arithmetic is never done on them directly.
struct Half {
  u16 bits;
};
struct Bfloat {
  u16 bits;
};
/// Eight bits: sign, exponent, mantissa. Without −0, infinity and all NaNs but one ("fnuz") the
/// exponent's bias is one more.
template <int Mantissa, bool Fnuz>
struct Float8 {
  u8 bits;
};

template <typename To, typename From>
KILN_DEVICE To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "bits are neither added nor lost");
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}
constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }
