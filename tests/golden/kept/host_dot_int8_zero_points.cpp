// device:  x86-64-v4
// problem: int8 N T 4 4096 2048 out=bf16 scale=line gate=silu zero_a=line
// config:  host_dot isa=avx512 mr=2 nr=4 kc=0 mc=0 parallel=none prefetch=0

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
  const void* groups;  // not read: a kernel is called for each group
  void* scale_d;  // of no kernel that is generated
  const void* zero_a;         // 32-bit integers, as kiln's Scale says
  const void* column_sums_b;  // those of op(B), 32-bit integers
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

// ---- parameters ----
using TypeA = i8;                 // elements of A
using TypeB = i8;                 // elements of B
using TypeD = Bfloat;             // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of vpdpbusd
constexpr int kMr = 2;            // rows of A in the tile
constexpr int kNr = 4;            // rows of B^T in the tile
constexpr int kRowUnit = 2;       // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 2;    // columns are divided among threads at multiples of this

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
  i64 columns;  // of D
  const float* scale_a;  // one a row, or one
  const float* scale_b;  // one a column of op(B), or one
  const u32* zero_a;         // one a row, or one
  const u32* column_sums_b;  // of op(B)
  Partial partial;
  // None.
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
  out.columns = args.n;
  out.scale_a = static_cast<const float*>(args.scale_a) + batch * args.m;
  out.scale_b = static_cast<const float*>(args.scale_b) + batch * 2 * args.n;
  out.zero_a = static_cast<const u32*>(args.zero_a) + batch * args.m;
  out.column_sums_b = static_cast<const u32*>(args.column_sums_b) + batch * 2 * args.n;
  // None.
  out.partial = {};
  return out;
}

/// Whether accumulators hold the first and the last of k.
struct Pass {
  bool first, last;
};

/// Sums of one row of D with its scale and those of `columns` columns of op(B), from `column` on;
/// before that without what A's zero point added.
template <int L>
KILN_INLINE Vec<Real, L> scaled(const Output& out, Vec<Acc, L> sum, i64 row, i64 column,
                                int columns) {
  // As unsigned numbers, which may wrap on the way to what fits.
  const u32 zero = out.zero_a[row];
  const auto of_zero = load_first<L>(out.column_sums_b + column, columns) * zero;
  sum = bits_of<Vec<Acc, L>>(bits_of<Vec<u32, L>>(sum) - of_zero);
  Vec<Real, L> x = __builtin_convertvector(sum, Vec<Real, L>);
  x *= out.scale_a[row];
  x *= load_first<L>(out.scale_b + column, columns);
  return x;
}

/// e^x to about 1 ulp: 2^n times a polynomial in the rest, |rest| ≤ ln 2 / 2.
template <int L>
KILN_INLINE Vec<float, L> exponential(Vec<float, L> x) {
  Vec<float, L> clamped = __builtin_elementwise_min(
      __builtin_elementwise_max(x, Vec<float, L>(-104.0f)), Vec<float, L>(89.0f));
  Vec<float, L> n = __builtin_elementwise_roundeven(clamped * 1.44269504f);
  using V = Vec<float, L>;
  V r = fused(n, V(-0.693359375f), clamped);  // ln 2 in two parts: the first is exact times n
  r = fused(n, V(2.12194440e-4f), r);
  V p = fused(r, V(1.0f / 5040), V(1.0f / 720));
  p = fused(p, r, V(1.0f / 120));
  p = fused(p, r, V(1.0f / 24));
  p = fused(p, r, V(1.0f / 6));
  p = fused(p, r, V(0.5f));
  p = fused(p * r, r, r) + 1.0f;
  // Two factors, because n reaches beyond the exponents of normal floats at both ends.
  Vec<i32, L> whole = __builtin_convertvector(n, Vec<i32, L>), half = whole >> 1;
  auto power = [](Vec<i32, L> e) { return bits_of<Vec<float, L>>((e + 127) << 23); };
  Vec<float, L> y = p * power(half) * power(whole - half);
  return x == x ? y : x;
}

template <int L>
KILN_INLINE Vec<Real, L> silu(Vec<Real, L> x) {
  return x / (Real(1) + exponential<L>(-x));
}

/// One element.
template <typename T>
KILN_INLINE Real element(const T* from) {
  return to_real<2>(Vec<Raw<T>, 2>(*reinterpret_cast<const Raw<T>*>(from)), T{})[0];
}
/// The same value for all lanes.
template <int L, typename T>
KILN_INLINE Vec<Real, L> same(const T* from) {
  return Vec<Real, L>(element(from));
}
/// `count` elements that lie `stride` apart.
template <int L, typename T>
KILN_INLINE Vec<Real, L> apart(const T* from, i64 stride, int count) {
  Vec<Real, L> x = Real(0);
  for (int i = 0; i < L; ++i)
    if (i < count) x[i] = element(from + i * stride);
  return x;
}
/// The indices of the lanes from the first one's on.
template <int L, int... I>
KILN_INLINE Vec<Real, L> counted(i64 first, Sequence<int, I...>) {
  return Vec<Real, L>{Real(first + I)...};
}

/// Finishes L elements of one row of D: `columns` of them exist, the first at (row, column). `low`
/// and `high` are the accumulators of both factors, in the order of the columns of op(B). Those of
/// earlier k lie side by side, two vectors for one of D.
template <int L>
KILN_INLINE void finish_gated(const Output& out, Vec<Acc, L> low, Vec<Acc, L> high, i64 row,
                              i64 column, int columns, Pass pass) {
  const auto waiting = [&](int which) { return out.partial.at(row, 2 * column) + which * L; };
  if (!pass.first) {
    low += load<Vec<Acc, L>>(waiting(0));
    high += load<Vec<Acc, L>>(waiting(1));
  }
  if (!pass.last) {
    store(waiting(0), low);
    return store(waiting(1), high);
  }
  Vec<Real, L> first = scaled<L>(out, low, row, column, columns) * out.alpha;
  Vec<Real, L> second = scaled<L>(out, high, row, out.columns + column, columns) * out.alpha;
  Vec<Real, L> v = first;
  {
    using Value = Vec<Real, L>;
    // None.
    const Value acc0 = v;
    const Value acc1 = second;
    v = silu(acc0) * acc1;
  }
  TypeD* d = out.d + row * out.ldd + column;
  store_first<L>(reinterpret_cast<Raw<TypeD>*>(d), from_real<L>(v, TypeD{}), columns);
}
