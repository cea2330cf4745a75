// Names of the element types. No headers are used anywhere, so that a generated source is
// self-contained.
#pragma once

template <typename T, int N>
using Vec = T __attribute__((ext_vector_type(N)));

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;

/// Storage of the 16-bit formats; arithmetic is never done on them directly.
struct Half {
  u16 bits;
};
struct Bfloat {
  u16 bits;
};
//% if fp8_d
/// The same of eight: four are the exponent's, three the mantissa's.
struct Float8 {
  u8 bits;
};
//% end
//% if mx_scales
struct E8m0 {
  u8 bits;
};
//% end
