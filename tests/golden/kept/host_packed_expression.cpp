// device:  x86-64-v4
// problem: bf16 N T 1024 1024 1024 epilogue=t0=acc*x0[m]+x1[n]:bf16;d=where(t0>x2[],tanh(t0),t0/3)*x3[n,m]+m-n;y0[m]=sum(t0*t0);y1[n,m]:fp32=t0
// config:  host_packed isa=avx512 mr=8 nv=3 kc=384 mc=96 nc=96 pack_a=1 pack_b=1 inner=rows parallel=none unroll=4 prefetch=0 stream_d=0 fetch_a=1 fetch_b=2

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
  const void* extra[8];  // the expression's operands, and where their lines and batches begin
  long long extra_ld[8], extra_stride[8];
  // What it stores beside D: for each element of D a value, in the caller's memory if it is
  // reduced.
  void* outputs[4];
  long long output_ld[4], output_stride[4];
  long long reduced_stride[4];  // of what those values become
  void* reduced[4];
  long long first_row;  // of a group that shares D with others: D's row that is its first
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
using TypeA = Bfloat;             // elements of A
using TypeB = Bfloat;             // elements of B
using TypeD = Bfloat;             // elements of C and D
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
  i64 first_row;
  const float* x0;
  const Bfloat* x1;
  const float* x2;
  const Bfloat* x3;
  i64 ld3;
  Real* y0;
  i64 ldy0;
  float* y1;
  i64 ldy1;
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
  out.first_row = args.first_row;
  out.x0 = static_cast<const float*>(args.extra[0]);
  out.x1 = static_cast<const Bfloat*>(args.extra[1]);
  out.x2 = static_cast<const float*>(args.extra[2]);
  out.x3 = static_cast<const Bfloat*>(args.extra[3]);
  out.ld3 = args.extra_ld[3];
  out.y0 = static_cast<Real*>(args.outputs[0]) + batch * args.output_stride[0];
  out.ldy0 = args.output_ld[0];
  out.y1 = static_cast<float*>(args.outputs[1]) + batch * args.output_stride[1];
  out.ldy1 = args.output_ld[1];
  out.partial = {};
  return out;
}

/// Whether accumulators hold the first and the last of k.
struct Pass {
  bool first, last;
};

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

/// x · P(x²) / Q(x²), fitted where tanh is not 1 yet; 3 ulp.
template <int L>
KILN_INLINE Vec<float, L> tangent(Vec<float, L> x) {
  using V = Vec<float, L>;
  const V y = __builtin_elementwise_min(__builtin_elementwise_max(x, V(-8.8f)), V(8.8f));
  const V z = y * y;
  V p = fused(z, V(1.37160567e-8f), V(2.08664605e-5f));
  p = fused(p, z, V(0.00351112126f));
  p = fused(p, z, V(0.133940786f));
  p = fused(p, z, V(1.0f));
  V q = fused(z, V(7.92337687e-7f), V(0.000331110612f));
  q = fused(q, z, V(0.0259359907f));
  q = fused(q, z, V(0.46727398f));
  q = fused(q, z, V(1.0f));
  const V all = __builtin_elementwise_min(__builtin_elementwise_max(y * p / q, V(-1.0f)), V(1.0f));
  return x == x ? all : x;
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
/// `count` elements, and such that lie `stride` apart.
template <int L, typename T>
KILN_INLINE void store_real(T* to, Vec<Real, L> x, int count) {
  store_first<L>(reinterpret_cast<Raw<T>*>(to), from_real<L>(x, T{}), count);
}
template <int L, typename T>
KILN_INLINE void scatter(T* to, i64 stride, Vec<Real, L> x, int count) {
  const auto stored = from_real<L>(x, T{});
  for (int i = 0; i < L; ++i)
    if (i < count) reinterpret_cast<Raw<T>*>(to)[i * stride] = stored[i];
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
  if (!pass.first) sum += load_first<L>(out.partial.at(row, column), columns);
  if (!pass.last) return store_first<L>(out.partial.at(row, column), sum, columns);
  Vec<Real, L> v = __builtin_convertvector(sum, Vec<Real, L>) * out.alpha;
  if (out.c) v += out.beta * load_real<L>(out.c + row * out.ldc + column, columns);
  if (pass.last) {
    using Value = Vec<Real, L>;
    const Value x0 = same<L>(out.x0 + row);
    const Value x1 = load_real<L>(out.x1 + column, columns);
    const Value x2 = same<L>(out.x2);
    const Value x3 = apart<L>(out.x3 + column * out.ld3 + row, out.ld3, columns);
    const Value acc = v;
    const Value t0 = fused(acc, x0, x1);
    v = fused((t0 > x2 ? tangent(t0) : t0 / Value(Real(3.0))), x3, Value(Real(row + out.first_row))) - counted<L>(column, Iota<L>{});
    store_real<L>(out.y0 + row * out.ldy0 + column, t0 * t0, columns);
    scatter<L>(out.y1 + column * out.ldy1 + row, out.ldy1, t0, columns);
  }
  store_first<L>(reinterpret_cast<Raw<TypeD>*>(d), from_real<L>(v, TypeD{}), columns);
}

constexpr int kReducedLanes = kVectorBytes / int(sizeof(Real));
constexpr int kReducedChains = 8;  // of vectors, beside one another
using ReducedVec = Vec<Real, kReducedLanes>;

KILN_INLINE Real infinity() { return Real(__builtin_inf()); }

struct Sum {
  KILN_INLINE Real of_none() { return Real(0); }
  template <typename V>
  KILN_INLINE V of_two(V x, V y) {
    return x + y;
  }
  /// What is combined of a value; `absent` stands for a lane that has none.
  KILN_INLINE ReducedVec term(ReducedVec x, Real) { return x; }
  KILN_INLINE Real absent() { return Real(0); }
};
struct Largest : Sum {
  KILN_INLINE Real of_none() { return -infinity(); }
  template <typename V>
  KILN_INLINE V of_two(V x, V y) {
    return x > y ? x : (x == x ? y : x);
  }
  KILN_INLINE Real absent() { return -infinity(); }
};
struct Smallest : Sum {
  KILN_INLINE Real of_none() { return infinity(); }
  template <typename V>
  KILN_INLINE V of_two(V x, V y) {
    return x < y ? x : (x == x ? y : x);
  }
  KILN_INLINE Real absent() { return infinity(); }
};

/// The first `count` lanes, and `absent` in the others.
template <typename R>
KILN_INLINE ReducedVec present(ReducedVec x, int count) {
  const ReducedVec lane = counted<kReducedLanes>(0, Iota<kReducedLanes>{});
  return lane < Real(count) ? x : ReducedVec(R::absent());
}

/// What becomes of vectors that `load(i)` gives, i from 0 below `count`: each kReducedChains-th of
/// them is of one chain.
template <typename R, typename Load>
KILN_INLINE ReducedVec chained(i64 count, Real largest, Load&& load) {
  ReducedVec chain[kReducedChains];
  for (ReducedVec& each : chain) each = ReducedVec(R::of_none());
  i64 i = 0;
  for (; i + kReducedChains <= count; i += kReducedChains)
    for (int c = 0; c < kReducedChains; ++c)
      chain[c] = R::of_two(chain[c], R::term(load(i + c), largest));
  for (int c = 0; i + c < count; ++c) chain[c] = R::of_two(chain[c], R::term(load(i + c), largest));
  ReducedVec all = chain[0];
  for (int c = 1; c < kReducedChains; ++c) all = R::of_two(all, chain[c]);
  return all;
}

/// Neighbours: one line.
struct AlongLine {
  const Real* values;
  i64 count;
  template <typename R>
  __attribute__((always_inline)) Real of(Real largest) const {
    const i64 whole = count / kReducedLanes;
    const int left = int(count % kReducedLanes);
    ReducedVec lanes = chained<R>(
        whole, largest, [&](i64 i) __attribute__((always_inline)) {
          return load_real<kReducedLanes>(values + i * kReducedLanes, kReducedLanes);
        });
    if (left > 0) {
      const ReducedVec last = load_real<kReducedLanes>(values + whole * kReducedLanes, left);
      lanes = R::of_two(lanes, R::term(present<R>(last, left), largest));
    }
    Real all = R::of_none();
    for (int l = 0; l < kReducedLanes; ++l) all = R::of_two(all, Real(lanes[l]));
    return all;
  }
};

template <typename R>
struct Reduced {
  KILN_INLINE Real of(const AlongLine& line) { return line.of<R>(Real(0)); }
};

/// A thread's part of a call.
struct Reducing {
  const KilnArgs& call;
  i64 batch, line;
  Real* values(int i) const {
    return static_cast<Real*>(call.outputs[i]) + batch * call.output_stride[i];
  }
  template <typename T>
  void store(int i, i64 at, Real x) const {
    T* const to = static_cast<T*>(call.reduced[i]) + batch * call.reduced_stride[i] + at;
    store_real<2>(to, Vec<Real, 2>(x), 1);
  }
};

template <typename R, typename T>
KILN_INLINE void reduce_rows(const Reducing& in, int i) {
  const AlongLine row{in.values(i) + in.line * in.call.output_ld[i], in.call.n};
  in.store<T>(i, in.line, Reduced<R>::of(row));
}
/// A row into its first value.
template <typename R, typename T>
KILN_INLINE void reduce_all(const Reducing& in, int i) {
  Real* const values = in.values(i) + in.line * in.call.output_ld[i];
  *values = Reduced<R>::of(AlongLine{values, in.call.n});
}
/// What is made of rows becomes what is made of all.
template <typename R, typename T>
static void reduce_rest(const Reducing& in, int i) {
  Real* const values = in.values(i);
  for (i64 row = 1; row < in.call.m; ++row) values[row] = values[row * in.call.output_ld[i]];
  in.store<T>(i, 0, Reduced<R>::of(AlongLine{values, in.call.m}));
}

/// Threads have rows, then vectors of columns. Where all is reduced of rows, what is made of that
/// follows row by row.
extern "C" void kiln_reduce(const KilnArgs* call, int thread, int threads) {
  const i64 rows = call->batch * call->m;
  for (i64 any = rows * thread / threads; any < rows * (thread + 1) / threads; ++any) {
    const Reducing args{*call, any / call->m, any % call->m};
    reduce_rows<Sum, float>(args, 0);
  }
}
