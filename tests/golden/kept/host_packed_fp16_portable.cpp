// device:  x86-64
// problem: fp16 N N 33 65 17
// config:  host_packed isa=portable mr=4 nv=2 kc=24 mc=96 nc=128 pack_a=1 pack_b=1 inner=rows parallel=none unroll=1 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0

// ---- parameters ----
using TypeA = Half;               // elements of A
using TypeB = Half;               // elements of B
using TypeD = Half;               // elements of C and D
constexpr int kVectorBytes = 16;  // accumulators of multiply, add
constexpr int kMr = 4;            // rows of the register tile
constexpr int kNv = 2;            // vectors across the register tile
constexpr int kUnroll = 1;        // k steps in the inner loop's body
constexpr int kRowUnit = 4;       // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 8;    // columns are divided among threads at multiples of this
constexpr int kPanelStep = 1;     // rows of a panel of B are a multiple of this
constexpr int kColumnSums = 0;    // rows of column sums behind a panel of B
constexpr u32 kFlip = 0u;         // turns signed bytes of A into unsigned ones
constexpr bool kPackA = true;     // A is copied to strips
constexpr bool kPackB = true;     // B is copied to panels

// ---- cpu/common/vector.h ----
// Vectors of the host kernels: loads, stores, conversions, transposes and the multiply-accumulate
// step. Uses no headers, so that a generated source is self-contained. Lines that begin with `//%`
// are read by the generator, which keeps only the branch that a config takes.

#define KILN_INLINE static inline __attribute__((always_inline))
#define KILN_UNROLL _Pragma("clang loop unroll(full)")

/// What one lane of a packed panel holds, and how many k it covers.
using Acc = float;
using Unit = float;
constexpr int kGroup = 1;
using Real = float;  // alpha, beta and the epilogue
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
  T lanes[L] = {};
  for (int i = 0; i < count; ++i) lanes[i] = from[i];
  return load<Vec<T, L>>(lanes);
}
template <int L, typename T>
KILN_INLINE void store_first(T* to, Vec<T, L> v, int count) {
  if (count >= L) return store(to, v);
  T lanes[L];
  store(lanes, v);
  for (int i = 0; i < count; ++i) to[i] = lanes[i];
}

// --- elements to the epilogue's Real, and back ---------------------------------------------------

template <int L>
KILN_INLINE Vec<float, L> half_to_float(Vec<u16, L> h) {
  Vec<u32, L> wide = __builtin_convertvector(h, Vec<u32, L>);
  Vec<u32, L> magnitude = (wide & 0x7fffu) << 13;
  // The multiply moves the exponent's bias and normalises subnormals; Inf and NaN keep theirs.
  Vec<float, L> scaled = bits_of<Vec<float, L>>(magnitude) * 0x1p112f;
  Vec<u32, L> bits = bits_of<Vec<u32, L>>(scaled);
  bits = (wide & 0x7c00u) == 0x7c00u ? (magnitude | 0x7f800000u) : bits;
  return bits_of<Vec<float, L>>(bits | ((wide & 0x8000u) << 16));
}
template <int L>
KILN_INLINE Vec<u16, L> float_to_half(Vec<float, L> f) {
  Vec<u32, L> bits = bits_of<Vec<u32, L>>(f);
  Vec<u32, L> magnitude = bits & 0x7fffffffu;
  Vec<u32, L> normal = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1u)) >> 13;
  // Adding 0.5 aligns a subnormal's last bit with the float's, rounding to nearest even on the way.
  Vec<u32, L> tiny = bits_of<Vec<u32, L>>(bits_of<Vec<float, L>>(magnitude) + 0.5f) - 0x3f000000u;
  Vec<u32, L> huge = magnitude > 0x7f800000u ? Vec<u32, L>(0x7e00u) : Vec<u32, L>(0x7c00u);
  Vec<u32, L> half = magnitude < 0x38800000u ? tiny : normal;
  half = magnitude >= 0x47800000u ? huge : half;
  return __builtin_convertvector(half | ((bits >> 16) & 0x8000u), Vec<u16, L>);
}
template <int L>
KILN_INLINE Vec<u16, L> float_to_bfloat(Vec<float, L> f) {
  Vec<u32, L> bits = bits_of<Vec<u32, L>>(f);
  Vec<u32, L> rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  Vec<u32, L> quiet = (bits >> 16) | 0x40u;
  rounded = (bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded;
  return __builtin_convertvector(rounded, Vec<u16, L>);
}

template <int L>
KILN_INLINE Vec<Real, L> to_real(Vec<u16, L> raw, Half) {
  return __builtin_convertvector(half_to_float<L>(raw), Vec<Real, L>);
}
template <int L>
KILN_INLINE Vec<Real, L> to_real(Vec<u16, L> raw, Bfloat) {
  return __builtin_convertvector(
      bits_of<Vec<float, L>>(__builtin_convertvector(raw, Vec<u32, L>) << 16), Vec<Real, L>);
}
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
  return to_real<L>(raw, T{});
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
  return load_real<L>(from, columns);
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
  return a * b + c;
}

using AccVec = Vec<Acc, kLanes>;
using UnitVec = Vec<Unit, kLanes>;

/// Ends a step: `acc` is computed before what follows is loaded. Without it the compiler gathers
/// the loads of several unrolled steps in front of their arithmetic and spills them (measured: 120
/// against 165 GFLOP/s).
KILN_INLINE void complete(AccVec& acc) {
  (void)acc;
}

/// acc + a · b in every lane, a and b being units of the left and the right operand.
KILN_INLINE AccVec dot(AccVec acc, UnitVec a, UnitVec b) {
  return fused(a, b, acc);
}
