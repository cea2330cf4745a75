// Names of the element types and the mark of device functions. No headers are used anywhere, so
// that a generated source is self-contained.
#pragma once

#define KILN_DEVICE static __device__ __forceinline__
// A kernel takes what it needs of the shared parts; the rest is no mistake.
#pragma nv_diag_suppress 177

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

/// Storage of the small formats; arithmetic is never done on them directly.
struct Half {
  u16 bits;
};
struct Bfloat {
  u16 bits;
};
struct Float8E4 {
  u8 bits;
};
struct Float8E5 {
  u8 bits;
};
//% if mx_scales
struct E8m0 {
  u8 bits;
};
//% end

static __device__ constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }
