// Written by kiln 0.3.0.
// device:  x86-64-v4
// problem: bf16 N T 128 512 512
// config:  host_amx isa=amx mt=2 nt=2 kc=512 nc=512 swap=0 copy_left=0 parallel=none
// compile: clang++ -std=c++20 -O3 -ffp-contract=off -fno-exceptions -fno-rtti -fno-math-errno -Wno-psabi -march=x86-64-v4 -mprefer-vector-width=512 -mavx512bf16 -mavx512vnni -mamx-tile -mamx-bf16 -mamx-int8 -shared -fPIC kiln_host_amx_9d3032a9a0f9fee5.cpp -o kernel.so

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
using TypeA = Bfloat;             // elements of A
using TypeB = Bfloat;             // elements of B
using TypeD = Bfloat;             // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of tdpbf16ps
constexpr int kMt = 2;            // tiles of 16 rows in a block of accumulators
constexpr int kNt = 2;            // tiles of 16 columns in it
constexpr int kNv = 2;            // vectors across it
constexpr int kPanelStep = 16;    // rows of a panel of the right operand are a multiple of this
constexpr int kColumnSums = 0;    // rows of column sums behind a panel
constexpr int kRowUnit = 32;      // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 32;   // columns are divided among threads at multiples of this

// ---- cpu/common/vector.h ----
// Vectors of the host kernels: loads, stores, conversions, transposes and the multiply-accumulate
// step. Uses no headers, so that a generated source is self-contained. Lines that begin with `//%`
// are read by the generator, which keeps only the branch that a config takes.

#define KILN_INLINE static inline __attribute__((always_inline))
#define KILN_UNROLL _Pragma("clang loop unroll(full)")

/// What one lane of a packed panel holds, and how many k it covers.
using Acc = float;
using Unit = u32;  // two bf16 of consecutive k
constexpr int kGroup = 2;
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
  return bits_of<Vec<u32, L>>(raw);
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
  Vec<u32, L> unit = u32(0);
  KILN_UNROLL
  for (int g = 0; g < kGroup; ++g) {
    if (g >= rows) break;
    auto row = load_first<L>(reinterpret_cast<const Raw<T>*>(from) + g * stride, columns);
    unit |= __builtin_convertvector(row, Vec<u32, L>) << (16 * g);
  }
  return unit;
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
}

/// acc + a · b in every lane, a and b being units of the left and the right operand.
KILN_INLINE AccVec dot(AccVec acc, UnitVec a, UnitVec b) {
  using Pairs = Vec<__bf16, kLanes * 2>;
  return __builtin_ia32_dpbf16ps_512(acc, bits_of<Pairs>(a), bits_of<Pairs>(b));
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

/// The elements of both vectors in turns.
template <typename V, int... I>
KILN_INLINE auto zip(V a, V b, Sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (I / 2 + I % 2 * int(sizeof...(I) / 2))...);
}

/// kGroup rows of kGroup * kLanes columns as kGroup vectors of units side by side; `rows` and
/// `columns` of them exist. A fourth of the instructions of load_across, a unit.
template <typename T>
KILN_INLINE void load_panels(UnitVec (&units)[kGroup], const T* from, i64 ld, i64 rows,
                             int columns) {
  constexpr int kColumns = kGroup * kLanes;
  Vec<Raw<T>, kColumns> row[kGroup];
  KILN_UNROLL
  for (int g = 0; g < kGroup; ++g)
    row[g] = g < rows
                 ? load_first<kColumns>(reinterpret_cast<const Raw<T>*>(from) + g * ld, columns)
                 : Vec<Raw<T>, kColumns>(Raw<T>(0));
  const auto all = zip(row[0], row[1], Iota<2 * kColumns>{});
  __builtin_memcpy(units, &all, sizeof units);
}

/// The same from a source whose columns lie side by side.
template <typename T>
__attribute__((noinline)) static void pack_panels_across(Unit* to, const T* from, i64 ld, i64 width,
                                                         i64 k) {
  // Rows of the source are often pages apart: each visit reads several lines where there are as
  // many columns.
  constexpr int kColumns = kGroup * kLanes, kTogether = kColumns < 64 ? 64 / kColumns : 1;
  const i64 pitch = panel_units(k), groups = (k + kGroup - 1) / kGroup;
  Unit* panels = to;
  for (i64 j0 = 0; j0 < width; j0 += kTogether * kColumns, panels += kTogether * kGroup * pitch) {
    for (i64 g = 0; g < groups; ++g) {
      KILN_UNROLL
      for (int t = 0; t < kTogether; ++t) {
        const i64 j = j0 + t * kColumns;
        if (j >= width) break;
        UnitVec units[kGroup];
        load_panels(units, from + g * kGroup * ld + j, ld, k - g * kGroup,
                    int(smaller(width - j, kColumns)));
        KILN_UNROLL
        for (int s = 0; s < kGroup; ++s)
          if (j + s * kLanes < width)
            store(panels + (t * kGroup + s) * pitch + g * kLanes, units[s]);
      }
    }
  }
  end_panels(to, width, k);
}

// ---- cpu/amx/amx.h ----
// Tile registers: named wrappers of AMX's instructions. Tile numbers are constants of the code.
// Expects types.h.

constexpr int kTileRows = 16;
constexpr int kTileBytes = 64;  // of one row

/// Memory image that ldtilecfg reads; see Intel's SDM, "TILECFG".
struct alignas(64) TileConfig {
  u8 palette = 1, start_row = 0, reserved[14] = {};
  u16 row_bytes[16] = {};
  u8 rows[16] = {};
};

/// All eight tiles are 16 rows of 64 bytes for as long as this lives.
struct TileSession {
  TileSession() {
    TileConfig config;
    for (int t = 0; t < 8; ++t) {
      config.row_bytes[t] = kTileBytes;
      config.rows[t] = kTileRows;
    }
    __builtin_ia32_tile_loadconfig(&config);
  }
  ~TileSession() { __builtin_ia32_tilerelease(); }
};

template <int T>
KILN_INLINE void tile_zero() {
  __builtin_ia32_tilezero(T);
}
template <int T>
KILN_INLINE void tile_load(const void* from, i64 row_bytes) {
  __builtin_ia32_tileloadd64(T, from, static_cast<unsigned long long>(row_bytes));
}
template <int T>
KILN_INLINE void tile_store(void* to, i64 row_bytes) {
  __builtin_ia32_tilestored64(T, to, static_cast<unsigned long long>(row_bytes));
}
/// Accumulates left · right, left being rows of consecutive k, right units across its columns.
template <int Sum, int Left, int Right>
KILN_INLINE void tile_dot() {
  __builtin_ia32_tdpbf16ps(Sum, Left, Right);
}

// ---- cpu/amx/tile.h ----
// The product of tiles: kMt × kNt tile registers of accumulators over a block of k.
// Expects vector.h, epilogue.h, panels.h, amx.h and the parameters.

constexpr int kStep = kTileBytes / int(sizeof(Unit)) * kGroup;  // k of one tile row
constexpr int kHeight = kMt * kTileRows;

using Left = TypeA;

/// Rows of the left operand over a block of k: `row_bytes` apart, k contiguous.
struct LeftStrip {
  const void* data;
  i64 row_bytes;
};

template <int N, int Row, int... I>
KILN_INLINE void dots_of_row(Sequence<int, I...>) {
  (tile_dot<Row * N + I, kMt * kNt + Row, kMt * kNt + kMt + I>(), ...);
}
template <int... I>
KILN_INLINE void load_left(const char* at, i64 row_bytes, Sequence<int, I...>) {
  (tile_load<kMt * kNt + I>(at + I * kTileRows * row_bytes, row_bytes), ...);
}
template <int... I>
KILN_INLINE void load_right(const Unit* const (&panels)[kNt], i64 offset, Sequence<int, I...>) {
  (tile_load<kMt * kNt + kMt + I>(panels[I] + offset, kLanes * sizeof(Unit)), ...);
}
template <int... I>
KILN_INLINE void dots(Sequence<int, I...>) {
  (dots_of_row<kNt, I>(Iota<kNt>{}), ...);
}
template <int... I>
KILN_INLINE void zero_sums(Sequence<int, I...>) {
  (tile_zero<I>(), ...);
}
template <int... I>
KILN_INLINE void store_sums(Acc (*to)[kNr], Sequence<int, I...>) {
  (tile_store<I>(&to[I / kNt * kTileRows][I % kNt * kLanes], sizeof(to[0])), ...);
}

/// Panels of the right operand over a block of k, `pitch` units apart.
struct RightPanels {
  const Unit* data;
  i64 pitch;
};

/// One block of kHeight × kNr accumulators over k; `height` × `width` of them exist.
__attribute__((noinline)) static void tile(const LeftStrip& left, const RightPanels& right, i64 k,
                                           const Output& where, i64 row, i64 column, int height,
                                           int width, Pass pass) {
  // A copy that stores to D cannot alias.
  const Output out = where;
  const Unit* panels[kNt];
  KILN_UNROLL
  for (int j = 0; j < kNt; ++j)  // in place of one that does not exist, the first is read
    panels[j] = right.data + (j * kLanes < width ? j * right.pitch : 0);
  zero_sums(Iota<kMt * kNt>{});
  for (i64 at = 0; at < k; at += kStep) {
    load_right(panels, at / kGroup * kLanes, Iota<kNt>{});
    load_left(static_cast<const char*>(left.data) + at * i64(sizeof(Left)), left.row_bytes,
              Iota<kMt>{});
    dots(Iota<kMt>{});
  }
  alignas(64) Acc sums[kHeight][kNr];
  store_sums(sums, Iota<kMt * kNt>{});
  for (int i = 0; i < height; ++i)
    for (int j = 0; j < width; j += kLanes)
      finish<kLanes>(out, load<AccVec>(&sums[i][j]), row + i, column + j, width - j, pass);
}

// ---- cpu/amx/copies.h ----
// Copies of both operands: the left one's rows, k padded, and the right one's panels. With `thirds`
// both are fp32, copied as three parts of bf16.
// Expects pack.h, panels.h, share.h, tile.h and the parameters.

/// Copies `height` rows of the left operand, both ends padded with zeros to whole tiles.
static void copy_left(char* to, const Left* from, i64 ld, int height, i64 k) {
  const i64 row_bytes = round_up(k, kStep) * i64(sizeof(Left));
  for (int r = 0; r < kHeight; ++r) {
    const i64 bytes = r < height ? k * i64(sizeof(Left)) : 0;
    __builtin_memcpy(to + r * row_bytes, from + (r < height ? r : 0) * ld, bytes);
    __builtin_memset(to + r * row_bytes + bytes, 0, row_bytes - bytes);
  }
}

KILN_INLINE const Left* left_at(const KilnArgs& args, i64 row, i64 k) {
  const auto* from = static_cast<const TypeA*>(args.a);
  const i64 ld = args.lda;
  return from + row * ld + k;
}

/// Packs `width` columns of the right operand.
KILN_INLINE void pack_right(Unit* to, const KilnArgs& args, i64 k0, i64 column, i64 width, i64 k) {
  const auto* from = static_cast<const TypeB*>(args.b);
  const i64 ld = args.ldb;
  pack_panels_along(to, from + column * ld + k0, ld, width, k);
}

// ---- cpu/amx/memory.h ----
// What a thread keeps in the workspace: copies of operands, and accumulators.
// Expects abi.h, share.h, panels.h, tile.h and the parameters.

struct Memory {
  char* left;
  Unit* right;
  Acc* partial;
};
constexpr i64 kLine = 64;
KILN_INLINE i64 right_columns(const KilnArgs& args) {
  return args.n;
}
KILN_INLINE i64 bytes_of_left(const KilnArgs& args) {
  return kHeight * round_up(smaller(args.division.kc, args.k), kStep) * i64(sizeof(Left));
}
KILN_INLINE i64 bytes_of_right(const KilnArgs& args) {
  return round_up(panels_units(smaller(args.division.nc, right_columns(args)),
                               smaller(args.division.kc, args.k)) *
                      i64(sizeof(Unit)),
                  kLine);
}
KILN_INLINE i64 bytes_of_partial(const KilnArgs& args) {
  return args.k > args.division.kc ? round_up(args.m * args.n * i64(sizeof(Acc)), kLine) : 0;
}
KILN_INLINE i64 bytes_of_thread(const KilnArgs& args) {
  return bytes_of_left(args) + bytes_of_right(args) + bytes_of_partial(args);
}
KILN_INLINE Memory thread_memory(const KilnArgs& args, int thread) {
  char* base = static_cast<char*>(args.workspace) + thread * bytes_of_thread(args);
  return {base, reinterpret_cast<Unit*>(base + bytes_of_left(args)),
          reinterpret_cast<Acc*>(base + bytes_of_left(args) + bytes_of_right(args))};
}

// ---- cpu/amx/blocks.h ----
// With `mc`: blocks of mc rows of the left operand and nc columns of the right one. Their
// accumulators stay in L2 over all of k, tile by tile, and a block of k of both operands' copies
// beside them; a strip of kHeight rows over that k stays in L1. Every copy is made once.
// Expects tile.h, copies.h, memory.h.

// ---- cpu/amx/amx.cpp ----
// Tile kernel: kMt × kNt tile registers of accumulators. The left operand's rows are read where
// they lie, or copied, k padded, where they cannot be; the right operand is packed in panels, 16
// rows of which are one tile.
// Expects abi.h, share.h, tile.h, copies.h, memory.h and, with `mc`, blocks.h.

static void multiply(const KilnArgs& args, const Memory& memory, const Output& out, Range rows,
                     Range columns, Range ks) {
  if (rows.begin == rows.end || columns.begin == columns.end) return;
  const Range lefts = rows, rights = columns;
  const i64 left_ld = args.lda;
  const i64 nc = args.division.nc, kc = args.division.kc;
  for (i64 j0 = rights.begin; j0 < rights.end; j0 += nc) {
    const i64 j1 = smaller(j0 + nc, rights.end);
    for (i64 k0 = ks.begin; k0 < ks.end || k0 == ks.begin; k0 += kc) {
      const i64 k = smaller(kc, ks.end - k0);
      const Pass pass{k0 == ks.begin, k0 + kc >= ks.end};
      pack_right(memory.right, args, k0, j0, j1 - j0, k);
      for (i64 i = lefts.begin; i < lefts.end; i += kHeight) {
        const int height = int(smaller(kHeight, lefts.end - i));
        LeftStrip left;
        left = {left_at(args, i, k0), left_ld * i64(sizeof(Left))};
        if (height < kHeight || k % kStep != 0) {
          copy_left(memory.left, left_at(args, i, k0), left_ld, height, k);
          left = {memory.left, round_up(k, kStep) * i64(sizeof(Left))};
        }
        for (i64 j = j0; j < j1; j += kNr) {
          const RightPanels right{memory.right + panels_units(j - j0, k), panel_units(k)};
          tile(left, right, k, out, i, j, height, int(smaller(kNr, j1 - j)), pass);
        }
      }
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
  TileSession tiles;
  for (i64 batch = work.batches.begin; batch < work.batches.end; ++batch) {
    args.a = static_cast<const TypeA*>(all->a) + batch * args.stride_a;
    args.b = static_cast<const TypeB*>(all->b) + batch * args.stride_b;
    Output out = output_of(args, batch);
    out.partial = {memory.partial, args.n, 0, 0};
    multiply(args, memory, out, work.rows, work.columns, work.ks);
  }
}
