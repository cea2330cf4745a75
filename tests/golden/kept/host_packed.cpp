// Written by kiln 0.3.0.
// device:  x86-64-v4
// problem: fp32 N N 1024 1024 1024
// config:  host_packed isa=avx512 mr=8 nv=3 kc=384 mc=96 nc=96 pack_a=1 pack_b=1 inner=rows parallel=none unroll=4 prefetch=0 stream_d=0 fetch_a=1 fetch_b=2
// compile: clang++ -std=c++20 -O3 -ffp-contract=off -fno-exceptions -fno-rtti -fno-math-errno -Wno-psabi -march=x86-64-v4 -mprefer-vector-width=512 -shared -fPIC kiln_host_packed_db5a73478727beb5.cpp -o kernel.so

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
using TypeA = float;              // elements of A
using TypeB = float;              // elements of B
using TypeD = float;              // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of vfmadd231ps
constexpr int kMr = 8;            // rows of the register tile
constexpr int kNv = 3;            // vectors across the register tile
constexpr int kUnroll = 4;        // k steps in the inner loop's body
constexpr int kRowUnit = 8;       // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 48;   // columns are divided among threads at multiples of this
constexpr int kPanelStep = 1;     // rows of a panel of B are a multiple of this
constexpr int kColumnSums = 0;    // rows of column sums behind a panel of B
constexpr u32 kFlip = 0u;         // turns signed bytes of A into unsigned ones
constexpr bool kPackA = true;     // A is copied to strips
constexpr bool kPackB = true;     // B is copied to panels
constexpr int kFetchA = 1;        // lines of A's next rows that 8 steps fetch ahead
constexpr int kFetchB = 2;        // lines of B's next block that 8 steps fetch ahead

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
  Vec<Real, L> v = __builtin_convertvector(sum, Vec<Real, L>) * out.alpha;
  if (!pass.first)
    v += load_real<L>(d, columns);
  else if (out.c)
    v += out.beta * load_real<L>(out.c + row * out.ldc + column, columns);
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

// ---- cpu/common/pack.h ----
// Packing: a strip of W rows or columns becomes [k / kGroup][W] units, in the order a tile reads
// them. Expects vector.h and share.h.

/// Smallest power of two of at least W lanes, no wider than a vector.
template <int W>
constexpr int block_lanes() {
  int lanes = 2;
  while (lanes < W && lanes < kLanes) lanes *= 2;
  return lanes;
}

/// A block narrower than its vector is stored whole, in ascending k: what spills over is
/// overwritten by the next row, so a packed buffer ends with kLanes spare units.
template <int W, int P>
KILN_INLINE void store_block(Unit* to, Vec<Unit, P> units, int column) {
  if constexpr (W <= P || W % P == 0)
    store(to + column, units);
  else
    store_first<P>(to + column, units, W - column);
}

/// From a source whose k lies contiguous: `from[j * ld + k]`, j < width ≤ W.
template <int W, u32 Flip, typename T>
__attribute__((noinline)) static void pack_along(Unit* to, const T* from, i64 ld, int width,
                                                 i64 k) {
  constexpr int P = block_lanes<W>();
  const i64 groups = (k + kGroup - 1) / kGroup;
  for (i64 g = 0; g < groups; g += P) {
    const T* at = from + g * kGroup;
    const i64 left = k - g * kGroup;
    const auto live = first_lanes<P * kGroup>(int(smaller(left, P * kGroup)), Iota<P * kGroup>{});
    for (int j = 0; j < W; j += P) {
      Vec<Unit, P> rows[P];
      // Rows that do not exist repeat the last one: what is made of them is dropped.
      const auto row = [&](int r) { return at + smaller(j + r, width - 1) * ld; };
      KILN_UNROLL
      for (int r = 0; r < P; ++r)
        rows[r] = units_along<P, T>(__builtin_masked_load(
            live, reinterpret_cast<const Raw<T>*>(row(r)), Vec<Raw<T>, P * kGroup>(Raw<T>(0))));
      transpose<P>(rows);
      KILN_UNROLL
      for (int r = 0; r < P; ++r) {
        if (g + r >= groups) break;
        if constexpr (Flip != 0) rows[r] ^= Flip;
        store_block<W, P>(to + (g + r) * W, rows[r], j);
      }
    }
  }
}

/// From a source whose panel dimension lies contiguous: `from[k * ld + j]`, j < width. Several
/// strips of W, `pitch` units apart, are filled side by side: rows of the source are often pages
/// apart, and each visit should find more than one strip's share there.
template <int W, u32 Flip, typename T>
__attribute__((noinline)) static void pack_across(Unit* to, const T* from, i64 ld, i64 width, i64 k,
                                                  i64 pitch) {
  constexpr int P = block_lanes<W>();
  constexpr int kTogether = W < 32 ? 64 / W : 1;
  const i64 groups = (k + kGroup - 1) / kGroup;
  for (i64 j0 = 0; j0 < width; j0 += kTogether * W, to += kTogether * pitch) {
    const i64 rest = width - j0;
    for (i64 g = 0; g < groups; ++g) {
      const T* row = from + g * kGroup * ld + j0;
      KILN_UNROLL
      for (int s = 0; s < kTogether; ++s) {
        if (s * W >= rest) break;
        Unit* at = to + s * pitch + g * W;
        KILN_UNROLL
        for (int j = 0; j < W; j += P) {
          const int left = int(rest) - s * W - j;
          Vec<Unit, P> units = load_across<P>(row + s * W + j, ld, k - g * kGroup, left);
          if constexpr (Flip != 0) units ^= Flip;
          // The next strip begins behind the last row and may hold something already.
          if (W % P != 0 && g + 1 == groups)
            store_first<P>(at + j, units, W - j);
          else
            store_block<W, P>(at, units, j);
        }
      }
    }
  }
}

// ---- cpu/common/panels.h ----
// Panels of B: one vector of columns over k, a row of units for each kGroup of k, zeros where k
// ends early, anything where columns do, and behind them the sums of the columns where kColumnSums
// says so. They are packed here, a block of k at a time, or lie over all of k in a B that was
// packed once for every m (generator/families/cpu/common/packed_layout.h). Expects pack.h, share.h,
// kNv, kPanelStep, kColumnSums.

constexpr int kNr = kNv * kLanes;
/// Rows of units in a panel: a multiple of kPanelStep.
KILN_INLINE i64 panel_groups(i64 k) { return round_up((k + kGroup - 1) / kGroup, kPanelStep); }
/// Units that a panel takes, a row of column sums included.
KILN_INLINE i64 panel_units(i64 k) { return (panel_groups(k) + kColumnSums) * kLanes; }
/// Units that the panels of so many columns take.
KILN_INLINE i64 panels_units(i64 columns, i64 k) {
  return (columns + kLanes - 1) / kLanes * panel_units(k);
}

/// What follows the units of k in the panels of `width` columns: zeros and column sums.
static void end_panels(Unit* to, i64 width, i64 k) {
  const i64 rows = (k + kGroup - 1) / kGroup, groups = panel_groups(k);
  for (i64 j = 0; j < width; j += kLanes, to += panel_units(k)) {
    for (i64 g = rows; g < groups; ++g) store(to + g * kLanes, UnitVec(Unit(0)));
  }
}

/// Packs `width` columns over k from a source that is k-major.
template <typename T>
__attribute__((noinline)) static void pack_panels_along(Unit* to, const T* from, i64 ld, i64 width,
                                                        i64 k) {
  for (i64 j = 0; j < width; j += kLanes)
    pack_along<kLanes, 0>(to + panels_units(j, k), from + j * ld, ld,
                          int(smaller(kLanes, width - j)), k);
  end_panels(to, width, k);
}

/// The same from a source whose columns lie side by side.
template <typename T>
__attribute__((noinline)) static void pack_panels_across(Unit* to, const T* from, i64 ld, i64 width,
                                                         i64 k) {
  pack_across<kLanes, 0>(to, from, ld, width, k, panel_units(k));
  end_panels(to, width, k);
}

// ---- cpu/common/decode.h ----
// Panels of B from weights of four or eight bits: codes become numbers, less zero points and times
// scales, while they are packed. Expects panels.h, kCodeBits, TypeScale and, unless whole columns
// share a scale, kGroupK, of which blocks of k hold whole ones or which hold whole runs.

// ---- cpu/packed/ahead.h ----
// Lines of memory that are read soon, fetched a few at a time while tiles compute: what no hardware
// prefetcher can know, since the next block of an operand begins on other pages.

/// A block of a matrix on its way into L2, row by row.
struct Ahead {
  const char *at, *begin, *end;  // the next line; the row it is of
  i64 pitch, rows;               // rows that are left, this one included
};

KILN_INLINE Ahead piece(const void* first, i64 pitch, i64 row_bytes, i64 rows) {
  const char* begin = static_cast<const char*>(first);
  return {begin, begin, begin + row_bytes, pitch, rows};
}

/// The same few instructions each time: a count that changed would be mispredicted (measured: 12 %
/// at kc = 1024). So lines beyond a row's end may be fetched, and once the block is complete its
/// last row is fetched again, from L2.
template <int Lines>
KILN_INLINE void fetch(Ahead& next) {
  KILN_UNROLL
  for (int line = 0; line < Lines; ++line) __builtin_prefetch(next.at + line * 64, 0, 2);
  next.at += Lines * 64;
  if (__builtin_expect(next.at >= next.end, 0)) {
    const i64 step = next.rows > 1 ? next.pitch : 0;
    next.rows -= 1;
    next.begin += step;
    next.end += step;
    next.at = next.begin;
  }
}

// ---- cpu/packed/transposed.h ----
// What computes D^T: the call with its operands exchanged, and tiles that are transposed while they
// are stored in D. Expects epilogue.h, pack.h, share.h and, from the parameters, kFinishLanes.

// ---- cpu/packed/operand.h ----
// Where a tile reads: rows of A and columns of B, packed or as the caller left them, by units of
// kGroup elements of k. Expects abi.h, vector.h, panels.h, ahead.h and the parameters.

/// What is read after the current tiles, of A and of B.
struct Next {
  Ahead a;
  Ahead b;
};

/// The operands of one tile: A's rows and B's columns, packed or where the caller left them.
struct Operand {
  const Unit* a;  // [k / kGroup][kMr]
  const Unit* b;  // kNv panels
  i64 b_pitch;    // bytes from one to the next
  Next* next;
};

/// Rows of units of panels that lie beside one another, one k step of each. Two bases and a pitch
/// reach six panels: a register for each would leave too few for the rows of an unpacked A, and the
/// compiler would compute the addresses anew in each step (measured: half the speed at kNv = 6).
template <int N, bool Ragged>
struct PanelRows {
  const char *first, *fourth;
  const char* last;  // of a ragged tile, which may have a panel less than N
  i64 pitch;

  __attribute__((always_inline)) PanelRows(const Unit* at, i64 bytes_apart, int columns)
      : first(reinterpret_cast<const char*>(at)), pitch(bytes_apart) {
    fourth = first + 3 * pitch;
    last = first + (columns - 1) / kLanes * pitch;
    __asm__("" : "+r"(fourth), "+r"(pitch));
  }
  __attribute__((always_inline)) const char* of(int j) const {
    if (Ragged && j == N - 1) return last;
    return j < 3 ? first + j * pitch : fourth + (j - 3) * pitch;
  }
  __attribute__((always_inline)) void advance() {
    first += sizeof(UnitVec);
    fourth += sizeof(UnitVec);
    last += sizeof(UnitVec);
  }
};

// ---- cpu/packed/tile.h ----
// The register tile of kMr rows by kNv vectors: whole, and where rows or columns are left over.
// Expects operand.h, epilogue.h, decode.h, transposed.h.

constexpr int kStepsPerFetch = 8;
/// What a tile lacks: nothing, columns of its last vector, or rows, columns and perhaps that
/// vector.
enum class Lacks { nothing, columns, both };

/// One register tile: M rows by N vectors over k. A ragged tile, which may lack both, skips missing
/// rows, by branches that are predicted. There are some of each width, so they are short: their
/// loop is not unrolled (no difference in speed) and finish() is not repeated.
template <int M, int N, Lacks What>
__attribute__((noinline)) static void tile(const Operand& operands, i64 k, const Output& where,
                                           i64 row, i64 column, int rows, int columns, Pass pass) {
  constexpr bool kRagged = What == Lacks::both, kMasked = What != Lacks::nothing;
  const Operand in = operands;  // copies that stores to D cannot alias
  const Output out = where;
  AccVec acc[M][N];
  KILN_UNROLL
  for (int j = 0; j < N; ++j) {
    AccVec start = AccVec(Acc(0));
    KILN_UNROLL
    for (int i = 0; i < M; ++i) acc[i][j] = start;
  }
  PanelRows<N, kRagged> right(in.b, in.b_pitch, columns);

  auto step = [&](i64 g, i64 count) __attribute__((always_inline)) {
    UnitVec b[N];
    KILN_UNROLL
    for (int j = 0; j < N; ++j) {
      b[j] = load<UnitVec>(right.of(j));
    }
    right.advance();
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      if (kRagged && i >= rows) continue;
      UnitVec a = UnitVec(in.a[g * kMr + i]);
      KILN_UNROLL
      for (int j = 0; j < N; ++j) acc[i][j] = dot(acc[i][j], a, b[j]);
      KILN_UNROLL
      for (int j = 0; j < N; ++j) complete(acc[i][j]);
    }
  };
  const i64 whole = k / kGroup;
  i64 g = 0;
  // Fetches are spread over the steps: all at once they would hold every fill buffer while the
  // first steps wait for B (measured for D alone: 12 % at n = 1024, kc = 384).
  const i64 fetches = whole / kStepsPerFetch;
  for (i64 i = 0; i < fetches; ++i) {
    fetch<kFetchA>(in.next->a);
    fetch<kFetchB>(in.next->b);
    KILN_UNROLL
    for (int j = 0; j < N; ++j)
      if (!kRagged && i < M) __builtin_prefetch(out.d + (row + i) * out.ldd + column + j * kLanes, 1);
#pragma clang loop unroll_count(kRagged ? 1 : kUnroll) vectorize(disable)
    for (int s = 0; s < kStepsPerFetch; ++s) step(g++, kGroup);
  }
#pragma clang loop unroll(disable) vectorize(disable)
  for (; g < whole; ++g) step(g, kGroup);

  if constexpr (kRagged) {
    AccVec sums[M][N];  // a copy: indexed at run time, accumulators would not stay in registers
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      KILN_UNROLL
      for (int j = 0; j < N; ++j) sums[i][j] = acc[i][j];
    }
#pragma clang loop unroll(disable)
    for (int i = 0; i < rows; ++i) {
#pragma clang loop unroll(disable)
      for (int j = 0; j * kLanes < columns; ++j)
        finish<kLanes>(out, sums[i][j], row + i, column + j * kLanes, columns - j * kLanes, pass);
    }
  } else {
    KILN_UNROLL
    for (int i = 0; i < M; ++i) {
      KILN_UNROLL
      for (int j = 0; j < N; ++j)
        finish<kLanes>(out, acc[i][j], row + i, column + j * kLanes,
                       kMasked && j == N - 1 ? columns - j * kLanes : kLanes, pass);
    }
  }
}

/// A ragged tile of as many vectors as the columns need or one more, N at most: a tile for each
/// number of vectors would take a fifth longer to compile.
template <int N>
KILN_INLINE void ragged_tile(const Operand& in, i64 k, const Output& out, i64 row, i64 column,
                             int rows, int columns, Pass pass) {
  constexpr int kNarrower = N > 2 ? N - 2 : 1;
  if constexpr (N > 1)
    if (columns <= kNarrower * kLanes)
      return ragged_tile<kNarrower>(in, k, out, row, column, rows, columns, pass);
  tile<kMr, N, Lacks::both>(in, k, out, row, column, rows, columns, pass);
}

KILN_INLINE void any_tile(const Operand& in, i64 k, const Output& out, i64 row, i64 column,
                          int rows, int columns, Pass pass) {
  if (rows == kMr && columns == kNr)
    return tile<kMr, kNv, Lacks::nothing>(in, k, out, row, column, rows, columns, pass);
  ragged_tile<kNv>(in, k, out, row, column, rows, columns, pass);
}

// ---- cpu/packed/memory.h ----
// Where a thread reads A and B, and what it keeps in the workspace. Expects abi.h, share.h,
// panels.h and the parameters.

KILN_INLINE const TypeA* a_at(const KilnArgs& args, i64 row, i64 k) {
  return static_cast<const TypeA*>(args.a) + row * args.lda + k;
}

KILN_INLINE const TypeB* b_at(const KilnArgs& args, i64 k, i64 column) {
  return static_cast<const TypeB*>(args.b) + k * args.ldb + column;
}

/// What one thread keeps in the workspace, in bytes; see thread_memory().
struct Memory {
  Unit* a;
  Unit* b;
  Acc* partial;
};
constexpr i64 kLine = 64;
KILN_INLINE i64 bytes_of_a(const KilnArgs& args) {
  return kPackA ? round_up((smaller(args.division.mc, round_up(args.m, kMr)) *
                                (smaller(args.division.kc, args.k) / kGroup + 1) +
                            kLanes) *
                               i64(sizeof(Unit)),
                           kLine)
                : 0;
}
KILN_INLINE i64 bytes_of_b(const KilnArgs& args) {
  return kPackB ? round_up(panels_units(smaller(args.division.nc, args.n),
                                        smaller(args.division.kc, args.k)) *
                               i64(sizeof(Unit)),
                           kLine)
                : 0;
}
/// Partial accumulators that later k is added to, where D's type would round them.
KILN_INLINE i64 bytes_of_partial(const KilnArgs& args) {
  return 0;
}
KILN_INLINE i64 bytes_of_thread(const KilnArgs& args) {
  return bytes_of_a(args) + bytes_of_b(args) + bytes_of_partial(args);
}
KILN_INLINE Memory thread_memory(const KilnArgs& args, int thread) {
  char* base = static_cast<char*>(args.workspace) + thread * bytes_of_thread(args);
  return {reinterpret_cast<Unit*>(base), reinterpret_cast<Unit*>(base + bytes_of_a(args)),
          reinterpret_cast<Acc*>(base + bytes_of_a(args) + bytes_of_b(args))};
}

// ---- cpu/packed/packed.cpp ----
// Packed macro-kernel: blocks of k, n and m around a register tile. Expects share.h, pack.h,
// tile.h, memory.h.

/// Rows of A from `row` over k, no more than `count` of them.
KILN_INLINE Ahead rows_ahead(const KilnArgs& args, i64 row, i64 count, i64 last, i64 k0, i64 k) {
  const i64 size = sizeof(TypeA), rows = smaller(count, last - row);
  if (rows <= 0) return piece(a_at(args, 0, k0), 0, 1, 1);
  return piece(a_at(args, row, k0), args.lda * size, k * size, rows);
}
/// The block of B after the one at (k0, j): the next along k or, after the last, along n.
KILN_INLINE Ahead piece_ahead(const KilnArgs& args, Range columns, Range ks, i64 j, i64 k0) {
  const KilnDivision& blocks = args.division;
  if ((k0 += blocks.kc) >= ks.end) {
    k0 = ks.begin;
    j += blocks.nc;
  }
  if (j >= columns.end) return piece(args.b, 0, 1, 1);
  const i64 size = sizeof(TypeB), k = smaller(blocks.kc, ks.end - k0);
  const i64 width = smaller(blocks.nc, columns.end - j);
  const TypeB* b = static_cast<const TypeB*>(args.b);
  return piece(b + k0 * args.ldb + j, args.ldb * size, width * size, k);
}

/// Multiplies one block of A (rows) with one block of B (columns) over k.
static void block(const KilnArgs& args, const Memory& memory,
                  const Output& out,
                  Range rows,
                  i64 last_row, Next& next,
                  Range columns, i64 k0, i64 k, Pass pass) {
  for (i64 i = rows.begin; i < rows.end; i += kMr)
    pack_along<kMr, kFlip>(memory.a + (i - rows.begin) * ((k + kGroup - 1) / kGroup),
                           a_at(args, i, k0), args.lda, int(smaller(kMr, rows.end - i)), k);
  next.a = rows_ahead(args, rows.end, args.division.mc, last_row, k0, k);
  auto one = [&](i64 i, i64 j) __attribute__((always_inline)) {
    Operand in;
    in.next = &next;
    in.a = memory.a + (i - rows.begin) * ((k + kGroup - 1) / kGroup);
    in.b = memory.b + panels_units(j - columns.begin, k);
    in.b_pitch = panel_units(k) * i64(sizeof(Unit));
    any_tile(in, k, out, i, j, int(smaller(kMr, rows.end - i)), int(smaller(kNr, columns.end - j)),
             pass);
  };
  // Both orders in one loop: the call of a tile is long, and stands here once.
  const bool inner_columns = args.division.inner_columns != 0;
  for (i64 i = rows.begin, j = columns.begin; i < rows.end && j < columns.end;) {
    one(i, j);
    if (inner_columns) {
      if ((j += kNr) < columns.end) continue;
      j = columns.begin;
      i += kMr;
    } else {
      if ((i += kMr) < rows.end) continue;
      i = rows.begin;
      j += kNr;
    }
  }
}

/// One batch: everything that one thread does of it.
static void multiply(const KilnArgs& args, const Memory& memory, Output out, Range rows,
                     Range columns, Range ks) {
  if (rows.begin == rows.end) return;
  const i64 mc = args.division.mc, nc = args.division.nc, kc = args.division.kc;
  for (i64 j = columns.begin; j < columns.end; j += nc) {
    const Range block_columns{j, smaller(j + nc, columns.end)};
    for (i64 k0 = ks.begin; k0 < ks.end || k0 == ks.begin; k0 += kc) {
      const i64 k = smaller(kc, ks.end - k0);
      const Pass pass{k0 == ks.begin, k0 + kc >= ks.end};
      pack_panels_across(memory.b, b_at(args, k0, j), args.ldb, block_columns.end - j, k);
      Next next;
      next.b = piece_ahead(args, columns, ks, j, k0);
      for (i64 i = rows.begin; i < rows.end; i += mc)
        block(args, memory, out, {i, smaller(i + mc, rows.end)},
              rows.end, next,
              block_columns, k0, k, pass);
    }
  }
}

extern "C" long long kiln_workspace_bytes(const KilnArgs* args, int threads) {
  return bytes_of_thread(*args) * threads;
}

extern "C" void kiln_gemm(const KilnArgs* all, int thread, int threads) {
  KilnArgs args = *all;
  const Memory memory = thread_memory(args, thread);
  const Work work = work_of(args, thread, threads);
  for (i64 batch = work.batches.begin; batch < work.batches.end; ++batch) {
    args.a = static_cast<const TypeA*>(all->a) + batch * args.stride_a;
    args.b = static_cast<const TypeB*>(all->b) + batch * args.stride_b;
    Output out = output_of(args, batch);
    multiply(args, memory, out, work.rows,
             work.columns, work.ks);
  }
}
