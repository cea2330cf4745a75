// device:  x86-64-v4
// problem: fp32 N N 1024 1024 1024 epilogue=relu amax=1
// config:  host_packed isa=avx512 mr=4 nv=3 kc=384 mc=96 nc=96 pack_a=1 pack_b=1 inner=rows parallel=m unroll=4 prefetch=0 stream_d=0 fetch_a=1 fetch_b=2

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
  const void* index_a;  // not read: a kernel is called with rows in order
  const void* index_d;
  const void* row_weights;
  void* amax_d;  // one fp32, raised to the largest magnitude of D: the caller clears it
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
using TypeA = float;              // elements of A
using TypeB = float;              // elements of B
using TypeD = float;              // elements of C and D
constexpr int kVectorBytes = 64;  // accumulators of vfmadd231ps
constexpr int kMr = 4;            // rows of the register tile
constexpr int kNv = 3;            // vectors across the register tile
constexpr int kUnroll = 4;        // k steps in the inner loop's body
constexpr int kRowUnit = 4;       // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 48;   // columns are divided among threads at multiples of this
constexpr int kPanelStep = 1;     // rows of a panel of B are a multiple of this
constexpr int kColumnSums = 0;    // rows of column sums behind a panel of B
constexpr u32 kFlip = 0u;         // turns signed bytes of A into unsigned ones
constexpr bool kPackA = true;     // A is copied to strips
constexpr bool kPackB = true;     // B is copied to panels
constexpr int kFetchA = 1;        // lines of A's next rows that 8 steps fetch ahead
constexpr int kFetchB = 2;        // lines of B's next block that 8 steps fetch ahead

// ---- cpu/common/amax.h ----
// The largest magnitude of D, which all threads raise. Expects vector.h.

template <int L, int... I>
KILN_INLINE Vec<u32, L> first_of(Vec<u32, L> x, int count, Sequence<int, I...>) {
  return Vec<i32, L>{I...} < Vec<i32, L>(count) ? x : Vec<u32, L>(0u);
}

/// Raises the largest magnitude of D by L values, of which `columns` exist. Bits of floats without
/// their sign are ordered as magnitudes are, those of NaN above all. Threads share the word, which
/// hardly any value raises once some were seen.
template <int L>
KILN_INLINE void raise_amax(u32* amax, Vec<Real, L> v, int columns) {
  auto bits = bits_of<Vec<u32, L>>(__builtin_convertvector(v, Vec<float, L>)) & 0x7fffffffu;
  if (columns < L) bits = first_of<L>(bits, columns, Iota<L>{});
  const u32 largest = __builtin_reduce_max(bits);
  u32 seen = __atomic_load_n(amax, __ATOMIC_RELAXED);
  while (largest > seen && !__atomic_compare_exchange_n(amax, &seen, largest, true,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
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
  u32* amax;  // bits of the largest magnitude of D
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
  out.amax = static_cast<u32*>(args.amax_d);
  // None.
  out.partial = {};
  return out;
}

/// Whether accumulators hold the first and the last of k.
struct Pass {
  bool first, last;
};

template <int L>
KILN_INLINE Vec<Real, L> relu(Vec<Real, L> x) {
  return x < Real(0) ? Vec<Real, L>(Real(0)) : x;  // NaN stays NaN
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
  if (pass.last) {
    using Value = Vec<Real, L>;
    // None.
    const Value acc = v;
    v = relu(acc);
  }
  if (pass.last) raise_amax<L>(out.amax, v, columns);
  store_first<L>(reinterpret_cast<Raw<TypeD>*>(d), from_real<L>(v, TypeD{}), columns);
}
