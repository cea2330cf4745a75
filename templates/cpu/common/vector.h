// Vectors of the host kernels: loads, stores, conversions, transposes and the multiply-accumulate
// step. Uses no headers, so that a generated source is self-contained. Lines that begin with `//%`
// are read by the generator, which keeps only the branch that a config takes.
#pragma once

#define KILN_INLINE static inline __attribute__((always_inline))
#define KILN_UNROLL _Pragma("clang loop unroll(full)")

/// What one lane of a packed panel holds, and how many k it covers.
//% if kind == f32
using Acc = float;
using Unit = float;
constexpr int kGroup = 1;
//% end
//% if kind == f64
using Acc = double;
using Unit = double;
constexpr int kGroup = 1;
//% end
//% if kind == bf16
using Acc = float;
using Unit = u32;  // two bf16 of consecutive k
constexpr int kGroup = 2;
//% end
//% if kind == vnni
using Acc = i32;
using Unit = u32;  // four bytes of consecutive k
constexpr int kGroup = 4;
//% end
//% if kind == s16
using Acc = i32;
using Unit = u32;  // two bytes of consecutive k, each widened to 16 bits
constexpr int kGroup = 2;
//% end
//% if kind == s32
using Acc = i32;
using Unit = i32;  // one byte, widened: no integer dot product in this instruction set
constexpr int kGroup = 1;
//% end
//% if kind == f64
using Real = double;  // alpha, beta and the epilogue
//% else
using Real = float;  // alpha, beta and the epilogue
//% end
constexpr int kLanes = kVectorBytes / int(sizeof(Acc));

template <typename T, T... I>
struct Sequence {};
template <int N>
using Iota = __make_integer_seq<Sequence, int, N>;

template <typename V>
KILN_INLINE V load(const void* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
template <typename V>
KILN_INLINE void store(void* to, V v) {
  __builtin_memcpy(to, &v, sizeof v);
}
template <typename To, typename From>
KILN_INLINE To bits_of(From v) {
  static_assert(sizeof(To) == sizeof(From), "a bit copy keeps its size");
  To to;
  __builtin_memcpy(&to, &v, sizeof to);
  return to;
}

template <typename T>
struct RawOf {
  using type = T;
};
template <>
struct RawOf<Half> {
  using type = u16;
};
template <>
struct RawOf<Bfloat> {
  using type = u16;
};
//% if fp8_d
template <>
struct RawOf<Float8> {
  using type = u8;
};
//% end
template <typename T>
using Raw = typename RawOf<T>::type;

template <int L, int... I>
KILN_INLINE Vec<bool, L> first_lanes(int count, Sequence<int, I...>) {
  return __builtin_convertvector(Vec<i32, L>{I...} < Vec<i32, L>(count), Vec<bool, L>);
}

/// L elements of which only the first `count` exist; the others read as zero.
template <int L, typename T>
KILN_INLINE Vec<T, L> load_first(const T* from, int count) {
  if (count >= L) return load<Vec<T, L>>(from);
  //% if masks
  return __builtin_masked_load(first_lanes<L>(count, Iota<L>{}), from, Vec<T, L>(T(0)));
  //% else
  T lanes[L] = {};
  for (int i = 0; i < count; ++i) lanes[i] = from[i];
  return load<Vec<T, L>>(lanes);
  //% end
}
template <int L, typename T>
KILN_INLINE void store_first(T* to, Vec<T, L> v, int count) {
  if (count >= L) return store(to, v);
  //% if lone_column
  // Where a mask is a constant of one lane, Clang 22 stores that lane alone, and 4 bytes of it
  // whatever its type.
  if (count == 1) asm("" : "+r"(count));
  //% end
  //% if masks
  __builtin_masked_store(first_lanes<L>(count, Iota<L>{}), v, to);
  //% else
  T lanes[L];
  store(lanes, v);
  for (int i = 0; i < count; ++i) to[i] = lanes[i];
  //% end
}

// --- elements to the epilogue's Real, and back ---------------------------------------------------

template <int L>
KILN_INLINE Vec<float, L> half_to_float(Vec<u16, L> h) {
  //% if f16c
  return __builtin_convertvector(bits_of<Vec<_Float16, L>>(h), Vec<float, L>);
  //% else
  Vec<u32, L> wide = __builtin_convertvector(h, Vec<u32, L>);
  Vec<u32, L> magnitude = (wide & 0x7fffu) << 13;
  // The multiply moves the exponent's bias and normalises subnormals; Inf and NaN keep theirs.
  Vec<float, L> scaled = bits_of<Vec<float, L>>(magnitude) * 0x1p112f;
  Vec<u32, L> bits = bits_of<Vec<u32, L>>(scaled);
  bits = (wide & 0x7c00u) == 0x7c00u ? (magnitude | 0x7f800000u) : bits;
  return bits_of<Vec<float, L>>(bits | ((wide & 0x8000u) << 16));
  //% end
}
template <int L>
KILN_INLINE Vec<u16, L> float_to_half(Vec<float, L> f) {
  //% if f16c
  return bits_of<Vec<u16, L>>(__builtin_convertvector(f, Vec<_Float16, L>));
  //% else
  Vec<u32, L> bits = bits_of<Vec<u32, L>>(f);
  Vec<u32, L> magnitude = bits & 0x7fffffffu;
  Vec<u32, L> normal = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1u)) >> 13;
  // Adding 0.5 aligns a subnormal's last bit with the float's, rounding to nearest even on the way.
  Vec<u32, L> tiny = bits_of<Vec<u32, L>>(bits_of<Vec<float, L>>(magnitude) + 0.5f) - 0x3f000000u;
  Vec<u32, L> huge = magnitude > 0x7f800000u ? Vec<u32, L>(0x7e00u) : Vec<u32, L>(0x7c00u);
  Vec<u32, L> half = magnitude < 0x38800000u ? tiny : normal;
  half = magnitude >= 0x47800000u ? huge : half;
  return __builtin_convertvector(half | ((bits >> 16) & 0x8000u), Vec<u16, L>);
  //% end
}
template <int L>
KILN_INLINE Vec<u16, L> float_to_bfloat(Vec<float, L> f) {
  //% if kind == bf16 && isa == avx512
  // One instruction; it flushes denormals, as the products of such a kernel do.
  if constexpr (L < 16) {
    Vec<float, 16> wide = 0.0f;
    __builtin_memcpy(&wide, &f, sizeof f);
    const Vec<u16, 16> all = float_to_bfloat<16>(wide);
    Vec<u16, L> first;
    __builtin_memcpy(&first, &all, sizeof first);
    return first;
  } else {
    return bits_of<Vec<u16, L>>(__builtin_convertvector(f, Vec<__bf16, L>));
  }
  //% else
  Vec<u32, L> bits = bits_of<Vec<u32, L>>(f);
  Vec<u32, L> rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  Vec<u32, L> quiet = (bits >> 16) | 0x40u;
  rounded = (bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded;
  return __builtin_convertvector(rounded, Vec<u16, L>);
  //% end
}

//% if codes == e4m3 || fp8_d || uses_fp8_e4m3
/// Numbers of codes (e4m3) in the top bytes of lanes: exponent and mantissa are moved to fp32's
/// place, and a product puts the bias right, of denormals too. Without kNan a NaN's code is 480.
template <int L, bool kNan = true>
KILN_INLINE Vec<float, L> e4m3_to_float(Vec<i32, L> top) {
  const auto number = bits_of<Vec<float, L>>((top >> 4) & i32(0x87f00000u)) * 0x1p120f;
  if constexpr (!kNan) return number;
  return (top & 0x7f000000) == 0x7f000000 ? Vec<float, L>(__builtin_nanf("")) : number;
}
//% end
//% if fp8_d || uses_fp8_e4m3
/// The nearest code, ties to even; what is larger than 448 becomes 448.
template <int L>
KILN_INLINE Vec<u8, L> float_to_e4m3(Vec<float, L> f) {
  Vec<u32, L> bits = bits_of<Vec<u32, L>>(f);
  Vec<u32, L> magnitude = bits & 0x7fffffffu;
  Vec<u32, L> normal = ((magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20) - (120u << 3);
  // Adding 2^14 aligns a denormal's last bit with the float's, rounding to nearest even on the way.
  Vec<u32, L> tiny =
      bits_of<Vec<u32, L>>(bits_of<Vec<float, L>>(magnitude) + 0x1p14f) - 0x46800000u;
  Vec<u32, L> code = magnitude < 0x3c800000u ? tiny : normal;
  code = code > 0x7eu ? Vec<u32, L>(0x7eu) : code;
  code = magnitude > 0x7f800000u ? Vec<u32, L>(0x7fu) : code;
  return __builtin_convertvector(code | ((bits >> 24) & 0x80u), Vec<u8, L>);
}
//% end
template <int L>
KILN_INLINE Vec<Real, L> to_real(Vec<u16, L> raw, Half) {
  return __builtin_convertvector(half_to_float<L>(raw), Vec<Real, L>);
}
template <int L>
KILN_INLINE Vec<Real, L> to_real(Vec<u16, L> raw, Bfloat) {
  return __builtin_convertvector(
      bits_of<Vec<float, L>>(__builtin_convertvector(raw, Vec<u32, L>) << 16), Vec<Real, L>);
}
//% if fp8_d
template <int L>
KILN_INLINE Vec<Real, L> to_real(Vec<u8, L> raw, Float8) {
  return e4m3_to_float<L>(__builtin_convertvector(raw, Vec<i32, L>) << 24);
}
template <int L>
KILN_INLINE Vec<u8, L> from_real(Vec<Real, L> v, Float8) {
  return float_to_e4m3<L>(v);
}
//% end
template <int L, typename T>
KILN_INLINE Vec<Real, L> to_real(Vec<T, L> raw, T) {
  return __builtin_convertvector(raw, Vec<Real, L>);
}

template <int L>
KILN_INLINE Vec<u16, L> from_real(Vec<Real, L> v, Half) {
  return float_to_half<L>(__builtin_convertvector(v, Vec<float, L>));
}
template <int L>
KILN_INLINE Vec<u16, L> from_real(Vec<Real, L> v, Bfloat) {
  return float_to_bfloat<L>(__builtin_convertvector(v, Vec<float, L>));
}
template <int L>
KILN_INLINE Vec<float, L> from_real(Vec<Real, L> v, float) {
  return __builtin_convertvector(v, Vec<float, L>);
}
template <int L>
KILN_INLINE Vec<double, L> from_real(Vec<Real, L> v, double) {
  return __builtin_convertvector(v, Vec<double, L>);
}
/// Integers round to nearest even and saturate; NaN becomes 0.
template <int L>
KILN_INLINE Vec<i32, L> to_integer(Vec<Real, L> v, Real low, Real high) {
  v = v == v ? v : Vec<Real, L>(Real(0));
  v = __builtin_elementwise_min(__builtin_elementwise_max(v, Vec<Real, L>(low)),
                                Vec<Real, L>(high));
  return __builtin_convertvector(__builtin_elementwise_roundeven(v), Vec<i32, L>);
}
template <int L>
KILN_INLINE Vec<i32, L> from_real(Vec<Real, L> v, i32) {
  // 2147483520 is the largest float below 2^31; a larger value would wrap in the conversion.
  Vec<i32, L> exact = to_integer<L>(v, Real(-2147483648.0), Real(2147483520.0));
  return v >= Real(2147483648.0) ? Vec<i32, L>(2147483647) : exact;
}
template <int L>
KILN_INLINE Vec<i8, L> from_real(Vec<Real, L> v, i8) {
  return __builtin_convertvector(to_integer<L>(v, Real(-128), Real(127)), Vec<i8, L>);
}
template <int L>
KILN_INLINE Vec<u8, L> from_real(Vec<Real, L> v, u8) {
  return __builtin_convertvector(to_integer<L>(v, Real(0), Real(255)), Vec<u8, L>);
}

template <int L, typename T>
KILN_INLINE Vec<Real, L> load_real(const T* from, int count) {
  return to_real<L>(load_first<L>(reinterpret_cast<const Raw<T>*>(from), count), T{});
}

// --- elements to units
// -----------------------------------------------------------------------------

/// L * kGroup elements that follow each other along k, as L units.
template <int L, typename T>
KILN_INLINE Vec<Unit, L> units_along(Vec<Raw<T>, L * kGroup> raw) {
  //% if kind == f32 || kind == f64
  return to_real<L>(raw, T{});
  //% end
  //% if kind == bf16
  return bits_of<Vec<u32, L>>(raw);
  //% end
  //% if kind == vnni
  return bits_of<Vec<u32, L>>(raw);
  //% end
  //% if kind == s16
  return bits_of<Vec<u32, L>>(__builtin_convertvector(raw, Vec<i16, L * 2>));
  //% end
  //% if kind == s32
  return __builtin_convertvector(raw, Vec<i32, L>);
  //% end
}
template <int L, typename T>
KILN_INLINE Vec<Unit, L> load_units(const T* from) {
  return units_along<L, T>(load<Vec<Raw<T>, L * kGroup>>(from));
}
/// The same where only `count` (≥ 0) elements exist.
template <int L, typename T>
KILN_INLINE Vec<Unit, L> load_units(const T* from, i64 count) {
  if (count >= L * kGroup) return load_units<L>(from);
  return units_along<L, T>(
      load_first<L * kGroup>(reinterpret_cast<const Raw<T>*>(from), int(count)));
}

/// One unit whose elements lie `stride` apart in memory, `count` (≥ 1) of them existing.
template <typename T>
KILN_INLINE Unit gather_unit(const T* from, i64 stride, i64 count) {
  Raw<T> raw[kGroup] = {};
  KILN_UNROLL
  for (int g = 0; g < kGroup; ++g)
    if (g < count) raw[g] = reinterpret_cast<const Raw<T>*>(from)[g * stride];
  Vec<Raw<T>, kGroup* 2> pair = Raw<T>(0);  // a one-lane vector would not be a vector
  KILN_UNROLL
  for (int g = 0; g < kGroup; ++g) pair[g] = raw[g];
  return units_along<2, T>(pair)[0];
}

/// L units side by side across the panel: element g of each comes from the g-th row of `stride`.
template <int L, typename T>
KILN_INLINE Vec<Unit, L> load_across(const T* from, i64 stride, i64 rows, int columns) {
  //% if kind == f32 || kind == f64
  return load_real<L>(from, columns);
  //% end
  //% if kind == s32
  return __builtin_convertvector(load_first<L>(from, columns), Vec<i32, L>);
  //% end
  //% if kind == bf16 || kind == vnni || kind == s16
  Vec<u32, L> unit = u32(0);
  KILN_UNROLL
  for (int g = 0; g < kGroup; ++g) {
    if (g >= rows) break;
    auto row = load_first<L>(reinterpret_cast<const Raw<T>*>(from) + g * stride, columns);
    //% if kind == bf16
    unit |= __builtin_convertvector(row, Vec<u32, L>) << (16 * g);
    //% end
    //% if kind == vnni
    unit |= __builtin_convertvector(bits_of<Vec<u8, L>>(row), Vec<u32, L>) << (8 * g);
    //% end
    //% if kind == s16
    unit |= (bits_of<Vec<u32, L>>(__builtin_convertvector(row, Vec<i32, L>)) & 0xffffu) << (16 * g);
    //% end
  }
  return unit;
  //% end
}

// --- transposes
// ------------------------------------------------------------------------------------

template <int S, typename V, int... I>
KILN_INLINE V even_blocks(V a, V b, Sequence<int, I...>) {
  return __builtin_shufflevector(a, b, ((I & S) ? int(sizeof...(I)) + I - S : I)...);
}
template <int S, typename V, int... I>
KILN_INLINE V odd_blocks(V a, V b, Sequence<int, I...>) {
  return __builtin_shufflevector(a, b, ((I & S) ? int(sizeof...(I)) + I : I + S)...);
}
/// Transposes N rows of N units in place, exchanging blocks of S, S/2, … 1.
template <int N, int S = N / 2>
KILN_INLINE void transpose(Vec<Unit, N> (&rows)[N]) {
  KILN_UNROLL
  for (int i = 0; i < N; ++i) {
    if (i & S) continue;
    auto a = rows[i], b = rows[i + S];
    rows[i] = even_blocks<S>(a, b, Iota<N>{});
    rows[i + S] = odd_blocks<S>(a, b, Iota<N>{});
  }
  if constexpr (S > 1) transpose<N, S / 2>(rows);
}

// --- multiply-accumulate
// ---------------------------------------------------------------------------

/// a · b + c, rounded once where the target has an instruction for that. Nothing else is fused (the
/// flags say so): what a compiler fuses differs from tile to tile, and the bits of an element must
/// not.
template <typename V>
KILN_INLINE V fused(V a, V b, V c) {
  //% if fma
  return __builtin_elementwise_fma(a, b, c);
  //% else
  return a * b + c;
  //% end
}

using AccVec = Vec<Acc, kLanes>;
using UnitVec = Vec<Unit, kLanes>;

/// Ends a step: `acc` is computed before what follows is loaded. Without it the compiler gathers
/// the loads of several unrolled steps in front of their arithmetic and spills them (measured: 120
/// against 165 GFLOP/s).
KILN_INLINE void complete(AccVec& acc) {
  //% if isa == avx512
  __asm__ volatile("" : "+v"(acc) : : "memory");
  //% end
  //% if isa == avx2
  __asm__ volatile("" : "+x"(acc) : : "memory");
  //% end
  //% if isa == portable
  (void)acc;
  //% end
}

/// acc + a · b in every lane, a and b being units of the left and the right operand.
KILN_INLINE AccVec dot(AccVec acc, UnitVec a, UnitVec b) {
  //% if kind == f32 || kind == f64
  return fused(a, b, acc);
  //% end
  //% if kind == s32
  return acc + a * b;
  //% end
  //% if kind == bf16
  using Pairs = Vec<__bf16, kLanes * 2>;
  return __builtin_ia32_dpbf16ps_512(acc, bits_of<Pairs>(a), bits_of<Pairs>(b));
  //% end
  //% if kind == vnni && unsigned_a
  return __builtin_ia32_vpdpbusd512(acc, bits_of<Vec<u8, 64>>(a), bits_of<Vec<char, 64>>(b));
  //% end
  //% if kind == vnni && !unsigned_a
  return __builtin_ia32_vpdpbusd512(acc, bits_of<Vec<u8, 64>>(b), bits_of<Vec<char, 64>>(a));
  //% end
  //% if kind == s16 && isa == avx512
  return acc + __builtin_ia32_pmaddwd512(bits_of<Vec<i16, 32>>(a), bits_of<Vec<i16, 32>>(b));
  //% end
  //% if kind == s16 && isa == avx2
  return acc + __builtin_ia32_pmaddwd256(bits_of<Vec<i16, 16>>(a), bits_of<Vec<i16, 16>>(b));
  //% end
}
