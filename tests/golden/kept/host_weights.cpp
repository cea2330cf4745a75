// Written by kiln 0.3.0.
// device:  x86-64-v4
// problem: bf16_uint4 N T 1 4096 4096 group=128 scale_type=bf16 zero=int
// config:  host_weights isa=avx512 pairs=0 mr=1 nr=4 ahead=1 parallel=n
// compile: clang++ -std=c++20 -O3 -ffp-contract=off -fno-exceptions -fno-rtti -fno-math-errno -Wno-psabi -march=x86-64-v4 -mprefer-vector-width=512 -shared -fPIC kiln_host_weights_ddc25074d9b57810.cpp -o kernel.so

// ---- cpu/common/abi.h ----
// The contract between a generated host kernel and whoever calls it: plain C, no headers, so that a
// generated source stays self-contained (this file is pasted into it).

extern "C" {

/// What is divided among threads: batches, rows of D, columns, both, or k.
enum KilnParallel : int {
  kilnParallelNone,  // thread 0 does all work
  kilnParallelBatch,
  kilnParallelM,
  kilnParallelN,
  kilnParallelGrid,
  kilnParallelK
};

/// How a config divides its work. Arguments, so that configs that differ in these alone are one
/// binary; a kernel reads those that its family has.
struct KilnDivision {
  long long mc, nc, kc;  // rows, columns and k of a cache block
  int inner_columns;     // the innermost loop over tiles goes over columns, not over rows
  int parallel;          // a KilnParallel
};

/// One call, in canonical form: D row-major, A either [m,k] (k-major) or [k,m], B either [n,k]
/// (k-major) or [k,n]; which one is a constant of the kernel. Strides and ld count elements.
struct KilnArgs {
  const void* a;
  const void* b;  // panels (panels.h) when the kernel takes a packed B
  const void* c;  // not read when beta == 0
  void* d;
  const void* bias;
  const void* residual;  // laid out as D
  long long m, n, k, batch;
  long long lda, ldb, ldc, ldd;
  long long stride_a, stride_b, stride_c, stride_d;
  double alpha, beta;
  KilnDivision division;
  void* workspace;    // kiln_workspace_bytes() bytes, 64-byte aligned, shared by the threads
  unsigned* barrier;  // 4 words, zero before their first use; kernels leave them fit for the next
  // What D = alpha·A·B + beta·C is followed by, read by kernels that take any epilogue.
  int bias_kind, activation, adds_residual;
  const void* scale_a;  // as kiln's Scale says, lines being rows of A and columns of B
  const void* scale_b;
  const void* zero_b;  // as kiln's Zero says
};

/// Values of bias_kind and activation: those of kiln::Bias and kiln::Activation. 0 is none.
enum {
  kBiasPerRow = 1,
  kBiasPerColumn = 2,
  kActivationRelu = 1,
  kActivationGeluTanh = 2,
  kActivationGeluErf = 3,
  kActivationSilu = 4
};

/// What every kernel object exports, by these names.
using KilnGemmFn = void (*)(const KilnArgs* args, int thread, int threads);  // "kiln_gemm"
// Behind it where an expression reduces, one after the other: "kiln_reduce", "kiln_reduce_rest",
// "kiln_behind". Those that have nothing to do are missing.
using KilnWorkspaceFn = long long (*)(const KilnArgs* args, int threads);  // "kiln_workspace_bytes"
/// One call on one thread of a kernel whose sizes are all constants: its operands, in registers. A
/// kernel without it is called with KilnArgs. "kiln_direct"
using KilnDirectFn = void (*)(const void* a, const void* b, const void* c, void* d,
                              const void* bias, const void* residual, double alpha, double beta);
/// How many of `threads` threads have something to do; a kernel without it uses them all.
using KilnThreadsFn = int (*)(const KilnArgs* args, int threads);  // "kiln_threads"
}

// ---- cpu/common/types.h ----
// Names of the element types. No headers are used anywhere, so that a generated source is
// self-contained.

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

// ---- parameters ----
using TypeA = Bfloat;             // elements of A
using TypeB = u8;                 // elements of B
using TypeD = Bfloat;             // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of vfmadd231ps
using TypeScale = Bfloat;         // scales of B
using TypeZero = u8;              // its zero points
constexpr int kCodeBits = 4;      // bits of an element of B
constexpr int kGroupK = 128;      // elements along k that share a scale
constexpr int kMr = 1;            // rows of A in the tile
constexpr int kNr = 4;            // columns of B in the tile
constexpr int kRowUnit = 1;       // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 4;    // columns are divided among threads at multiples of this

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
  return __builtin_masked_load(first_lanes<L>(count, Iota<L>{}), from, Vec<T, L>(T(0)));
}
template <int L, typename T>
KILN_INLINE void store_first(T* to, Vec<T, L> v, int count) {
  if (count >= L) return store(to, v);
  __builtin_masked_store(first_lanes<L>(count, Iota<L>{}), v, to);
}

// --- elements to the epilogue's Real, and back ---------------------------------------------------

template <int L>
KILN_INLINE Vec<float, L> half_to_float(Vec<u16, L> h) {
  return __builtin_convertvector(bits_of<Vec<_Float16, L>>(h), Vec<float, L>);
}
template <int L>
KILN_INLINE Vec<u16, L> float_to_half(Vec<float, L> f) {
  return bits_of<Vec<u16, L>>(__builtin_convertvector(f, Vec<_Float16, L>));
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
  return __builtin_elementwise_fma(a, b, c);
}

using AccVec = Vec<Acc, kLanes>;
using UnitVec = Vec<Unit, kLanes>;

/// Ends a step: `acc` is computed before what follows is loaded. Without it the compiler gathers
/// the loads of several unrolled steps in front of their arithmetic and spills them (measured: 120
/// against 165 GFLOP/s).
KILN_INLINE void complete(AccVec& acc) {
  __asm__ volatile("" : "+v"(acc) : : "memory");
}

/// acc + a · b in every lane, a and b being units of the left and the right operand.
KILN_INLINE AccVec dot(AccVec acc, UnitVec a, UnitVec b) {
  return fused(a, b, acc);
}

// ---- cpu/common/epilogue.h ----
// From accumulators to D: alpha, beta·C, the expression that follows, rounding — in that order.
// Expects vector.h, lines.h where D is streamed, and from the parameters: TypeD.

/// Partial accumulators of earlier k, where D's type would round them: that of element (row,
/// column) of D lies at (row - row0, column - column0).
struct Partial {
  Acc* sums;
  i64 ld, row0, column0;
  Acc* at(i64 row, i64 column) const { return sums + (row - row0) * ld + (column - column0); }
};

/// Where results go. Pointers are those of one batch.
struct Output {
  TypeD* d;
  const TypeD* c;         // null when beta == 0: C is then never read
  const TypeD* residual;  // laid out as D
  const Real* bias;
  i64 ldd, ldc;
  Real alpha, beta;
  Partial partial;
};

KILN_INLINE Output output_of(const KilnArgs& args, i64 batch) {
  Output out;
  out.d = static_cast<TypeD*>(args.d) + batch * args.stride_d;
  out.c = args.beta != 0 ? static_cast<const TypeD*>(args.c) + batch * args.stride_c : nullptr;
  out.residual =
      static_cast<const TypeD*>(args.residual) + (args.residual ? batch * args.stride_d : 0);
  out.bias = static_cast<const Real*>(args.bias);
  out.ldd = args.ldd;
  out.ldc = args.ldc;
  out.alpha = Real(args.alpha);
  out.beta = Real(args.beta);
  out.partial = {};
  return out;
}

/// Whether accumulators hold the first and the last of k.
struct Pass {
  bool first, last;
};

/// Finishes L accumulators of one row: `columns` of them exist, the first at (row, column).
template <int L>
KILN_INLINE void finish(const Output& out, Vec<Acc, L> sum, i64 row, i64 column, int columns,
                        Pass pass) {
  TypeD* d = out.d + row * out.ldd + column;
  if (!pass.first) sum += load_first<L>(out.partial.at(row, column), columns);
  if (!pass.last) return store_first<L>(out.partial.at(row, column), sum, columns);
  Vec<Real, L> v = __builtin_convertvector(sum, Vec<Real, L>) * out.alpha;
  if (out.c) v += out.beta * load_real<L>(out.c + row * out.ldc + column, columns);
  store_first<L>(reinterpret_cast<Raw<TypeD>*>(d), from_real<L>(v, TypeD{}), columns);
}

// ---- cpu/common/share.h ----
// How work is divided among threads, and the reduction of split-K. Expects epilogue.h and the units
// of division that apply: kRowUnit, kColumnUnit, kKUnit.

KILN_INLINE i64 round_up(i64 size, i64 unit) { return (size + unit - 1) / unit * unit; }
KILN_INLINE i64 smaller(i64 a, i64 b) { return a < b ? a : b; }

struct Range {
  i64 begin, end;
};
/// Part `part` of `parts` of [0, size), divided at multiples of `unit`.
KILN_INLINE Range share(i64 size, i64 unit, int part, int parts) {
  const i64 units = (size + unit - 1) / unit;
  return {smaller(units * part / parts * unit, size),
          smaller(units * (part + 1) / parts * unit, size)};
}

/// What one thread does of a problem. A batch, a row or a column belongs to one thread; only with
/// split-K do threads work on the same elements, each on its own part of k.
struct Work {
  Range batches, rows, columns, ks;
};

extern "C" int kiln_threads(const KilnArgs* args, int threads) {
  i64 parts = 1;
  switch (args->division.parallel) {
    case kilnParallelBatch:
      parts = args->batch;
      break;
    case kilnParallelM:
      parts = (args->m + kRowUnit - 1) / kRowUnit;
      break;
    case kilnParallelN:
      parts = (args->n + kColumnUnit - 1) / kColumnUnit;
      break;
    case kilnParallelGrid:
      parts = threads;
      break;
  }
  return parts < 1 ? 1 : int(smaller(parts, threads));
}

KILN_INLINE Work work_of(const KilnArgs& args, int thread, int threads) {
  Work work{{0, args.batch}, {0, args.m}, {0, args.n}, {0, args.k}};
  if (threads == 1) return work;
  switch (args.division.parallel) {
    case kilnParallelBatch:
      work.batches = share(args.batch, 1, thread, threads);
      break;
    case kilnParallelM:
      work.rows = share(args.m, kRowUnit, thread, threads);
      break;
    case kilnParallelN:
      work.columns = share(args.n, kColumnUnit, thread, threads);
      break;
    case kilnParallelGrid: {
      // The most square grid of all threads: down × across.
      int across = 1;
      for (int c = 1; c <= threads; ++c)
        if (threads % c == 0 && args.n * i64(threads / c) >= args.m * i64(c)) across = c;
      const int down = threads / across;
      work.rows = share(args.m, kRowUnit, thread % down, down);
      work.columns = share(args.n, kColumnUnit, thread / down, across);
      break;
    }
    default:
      if (thread != 0) work.batches.end = 0;
  }
  return work;
}

// ---- cpu/common/lanes.h ----
// Reduction across the lanes of a vector. Expects vector.h.

template <int L>
KILN_INLINE Acc add_lanes(Vec<Acc, L> v) {
  if constexpr (L == 2) {
    return v[0] + v[1];
  } else {
    using HalfVec = Vec<Acc, L / 2>;
    HalfVec halves[2];
    __builtin_memcpy(halves, &v, sizeof v);
    return add_lanes<L / 2>(halves[0] + halves[1]);
  }
}

constexpr int lanes_for(int columns) {
  int lanes = 2;
  while (lanes < columns) lanes *= 2;
  return lanes;
}

// ---- cpu/weights/weights.cpp ----
// Few rows of A times weights of four or eight bits that are k-major: vectors run along k, codes
// become numbers in registers, and a tile of kMr × kNr accumulators is reduced across its lanes at
// the end. A vector of B holds kChunk codes, those of a lane side by side; slice j is the j-th code
// of every lane, and A's elements are arranged the same way first. The sum of a chunk is scaled,
// then added. Expects abi.h, vector.h, epilogue.h, share.h, lanes.h and the parameters.

/// Codes in one element of the vectors that slices are taken from.
constexpr int kSlices = 8 * int(sizeof(Unit)) / kGroup / kCodeBits;
constexpr int kChunk = kLanes * kGroup * kSlices;
constexpr int kGroupsOfChunk = 1;

// --- codes to numbers
// ------------------------------------------------------------------------------

using Codes = Vec<u32, kLanes>;

template <int... I>
KILN_INLINE AccVec numbers_of_codes(Sequence<int, I...>) {
  return AccVec{float(I)...};
}

/// Slice J of a chunk; an index has four bits.
template <int J>
KILN_INLINE UnitVec slice(Codes codes, AccVec table) {
  return __builtin_ia32_permvarsf512(table, bits_of<Vec<int, kLanes>>(codes >> (J * kCodeBits)));
}

// --- scales and zero points
// ------------------------------------------------------------------------

/// Groups of a column, whole chunks and vectors of them.
KILN_INLINE i64 groups_of(i64 k) {
  return k / kGroupK;
}
KILN_INLINE i64 padded_groups(i64 k) {
  return round_up(round_up(groups_of(k), kGroupsOfChunk), kLanes);
}

/// `groups` numbers of any type as fp32, zeros behind them.
template <typename T>
static void read_numbers(float* to, const T* from, i64 groups, i64 padded) {
  for (i64 g = 0; g < padded; g += kLanes)
    store(to + g, load_real<kLanes>(from + g, int(g < groups ? smaller(groups - g, kLanes) : 0)));
}

/// Zero points of four bits, of which `first` is the first.
static void read_zeros(float* to, const void* zeros, i64 first, i64 groups, i64 padded) {
  const u8* bytes = static_cast<const u8*>(zeros);
  for (i64 g = 0; g < groups; ++g) {
    const i64 at = first + g;
    const int code = bytes[at / 2] >> (at % 2 * 4) & 15;
    to[g] = float(code);
  }
  for (i64 g = groups; g < padded; ++g) to[g] = 0;
}

template <typename V, int... I>
KILN_INLINE AccVec spread(V few, Sequence<int, I...>) {
  return __builtin_shufflevector(few, few, (I * kGroupsOfChunk / kLanes)...);
}
/// The numbers of a chunk's groups, one a lane.
KILN_INLINE AccVec of_chunk(const float* numbers, i64 chunk) {
  return AccVec(numbers[chunk / (kGroupK / kChunk)]);
}

/// What a tile reads of one column.
struct Column {
  const u8* codes;
  const float* scales;
  const float* zeros;
};

// --- A
// ---------------------------------------------------------------------------------------------

KILN_INLINE i64 chunks_of(i64 k) { return (k + kChunk - 1) / kChunk; }

template <int J, typename V, int... I>
KILN_INLINE auto every(V all, Sequence<int, I...>) {
  return __builtin_shufflevector(all, all, (I * kSlices + J)...);
}
/// The slices of a chunk of A, a vector of another row apart.
template <int J = 0>
KILN_INLINE void arrange(UnitVec* to, Vec<Raw<TypeA>, kChunk> all) {
  to[J * kMr] = units_along<kLanes, TypeA>(every<J>(all, Iota<kLanes * kGroup>{}));
  if constexpr (J + 1 < kSlices) arrange<J + 1>(to, all);
}

KILN_INLINE Vec<Raw<TypeA>, kChunk> chunk_of_a(const TypeA* from, i64 ld, i64 count) {
  (void)ld;
  return load_first<kChunk>(reinterpret_cast<const Raw<TypeA>*>(from), int(smaller(count, kChunk)));
}

/// All rows as [rows / kMr][chunks][kSlices][kMr] vectors, zeros beyond m and k.
static void arrange_rows(UnitVec* to, const KilnArgs& args) {
  const i64 chunks = chunks_of(args.k);
  for (i64 row = 0; row < round_up(args.m, kMr); ++row) {
    UnitVec* at = to + row / kMr * kMr * chunks * kSlices + row % kMr;
    for (i64 chunk = 0; chunk < chunks; ++chunk, at += kSlices * kMr) {
      const i64 k = chunk * kChunk;
      const TypeA* from = static_cast<const TypeA*>(args.a) + row * args.lda + k;
      arrange(at, row < args.m ? chunk_of_a(from, args.lda, args.k - k)
                               : Vec<Raw<TypeA>, kChunk>(Raw<TypeA>(0)));
    }
  }
}

// --- the tile
// --------------------------------------------------------------------------------------

/// Products of slice J and those after it, added to `part`.
template <int J = 0, typename... Table>
KILN_INLINE void add_slices(AccVec (&part)[kMr], const UnitVec* a, Codes codes, AccVec zero,
                            Table... table) {
  UnitVec b = slice<J>(codes, table...);
  KILN_UNROLL
  for (int i = 0; i < kMr; ++i) part[i] = dot(part[i], a[J * kMr + i], b);
  if constexpr (J + 1 < kSlices) add_slices<J + 1>(part, a, codes, zero, table...);
}

/// kMr rows of A, arranged, by kNr columns; missing columns repeat the last one.
__attribute__((noinline)) static void tile(const UnitVec* a, const Column (&columns_of_b)[kNr],
                                           i64 pitch, i64 k, const Output& where, i64 row,
                                           i64 column, int rows, int columns) {
  const Output out = where;  // a copy that stores to D cannot alias
  AccVec acc[kMr][kNr];
  KILN_UNROLL
  for (int i = 0; i < kMr; ++i) {
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) acc[i][j] = AccVec(Acc(0));
  }
  Column from[kNr];
  KILN_UNROLL
  for (int j = 0; j < kNr; ++j) from[j] = columns_of_b[j];

  auto step = [&](i64 chunk, auto codes_at) __attribute__((always_inline)) {
    const UnitVec* of_a = a + chunk * kSlices * kMr;
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) {
      const Codes codes = bits_of<Codes>(codes_at(from[j].codes + chunk * kVectorBytes));
      AccVec part[kMr];
      KILN_UNROLL
      for (int i = 0; i < kMr; ++i) part[i] = AccVec(Acc(0));
      const AccVec zero = of_chunk(from[j].zeros, chunk);
      add_slices(part, of_a, codes, zero, numbers_of_codes(Iota<kLanes>{}) - zero);
      const AccVec scale = of_chunk(from[j].scales, chunk);
      KILN_UNROLL
      for (int i = 0; i < kMr; ++i) acc[i][j] = fused(part[i], scale, acc[i][j]);
    }
  };
  using Bytes = Vec<u8, kVectorBytes>;
  const i64 whole = k / kChunk;
#pragma clang loop unroll(disable) vectorize(disable)
  for (i64 chunk = 0; chunk < whole; ++chunk) {
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j)
      __builtin_prefetch(from[j].codes + kNr * pitch + chunk * kVectorBytes);
    step(chunk, [](const u8* at) { return load<Bytes>(at); });
  }
  if (k % kChunk)
    step(whole, [&](const u8* at) {
      return load_first<kVectorBytes>(at, int((k % kChunk * kCodeBits + 7) / 8));
    });
  (void)pitch;

  KILN_UNROLL
  for (int i = 0; i < kMr; ++i) {
    if (i >= rows) break;
    Vec<Acc, lanes_for(kNr)> total = Acc(0);
    KILN_UNROLL
    for (int j = 0; j < kNr; ++j) total[j] = add_lanes<kLanes>(acc[i][j]);
    finish<lanes_for(kNr)>(out, total, row + i, column, columns, {true, true});
  }
}

/// What one thread keeps in the workspace: A arranged, scales and zero points of a tile's columns.
KILN_INLINE i64 bytes_of_a(const KilnArgs& args) {
  return round_up(args.m, kMr) * chunks_of(args.k) * kSlices * i64(sizeof(UnitVec));
}
KILN_INLINE i64 bytes_of_thread(const KilnArgs& args) {
  return round_up(bytes_of_a(args) + 2 * kNr * padded_groups(args.k) * i64(sizeof(float)), 64);
}

extern "C" long long kiln_workspace_bytes(const KilnArgs* args, int threads) {
  return bytes_of_thread(*args) * threads;
}

static void multiply(const KilnArgs& args, char* own, const Output& out, i64 batch, Range columns) {
  UnitVec* const a = reinterpret_cast<UnitVec*>(own);
  float* const scales = reinterpret_cast<float*>(own + bytes_of_a(args));
  const i64 groups = groups_of(args.k), padded = padded_groups(args.k);
  const i64 pitch = args.ldb * kCodeBits / 8;
  float* const zeros = scales + kNr * padded;
  arrange_rows(a, args);
  for (i64 j = columns.begin; j < columns.end; j += kNr) {
    const int width = int(smaller(kNr, columns.end - j));
    Column from[kNr];
    for (int c = 0; c < kNr; ++c) {
      const int at = c < width ? c : width - 1;
      const i64 first = (batch * args.n + j + at) * groups;
      from[c].codes = static_cast<const u8*>(args.b) + (j + at) * pitch;
      from[c].scales = scales + at * padded;
      from[c].zeros = zeros + at * padded;
      if (c != at) continue;
      read_numbers(scales + c * padded, static_cast<const TypeScale*>(args.scale_b) + first, groups,
                   padded);
      read_zeros(zeros + c * padded, args.zero_b, first, groups, padded);
    }
    for (i64 i = 0; i < args.m; i += kMr)
      tile(a + i * chunks_of(args.k) * kSlices, from, pitch, args.k, out, i, j,
           int(smaller(kMr, args.m - i)), width);
  }
}

extern "C" void kiln_gemm(const KilnArgs* all, int thread, int threads) {
  KilnArgs args = *all;
  const Work work = work_of(args, thread, threads);
  char* const own = static_cast<char*>(args.workspace) + thread * bytes_of_thread(args);
  for (i64 batch = work.batches.begin; batch < work.batches.end; ++batch) {
    args.a = static_cast<const TypeA*>(all->a) + batch * args.stride_a;
    args.b = static_cast<const u8*>(all->b) + batch * args.stride_b * kCodeBits / 8;
    if (work.columns.begin < work.columns.end)
      multiply(args, own, output_of(args, batch), batch, work.columns);
  }
}
