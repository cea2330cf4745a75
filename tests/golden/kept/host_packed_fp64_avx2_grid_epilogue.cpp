// device:  x86-64-v3
// problem: fp64 T N 500 400 300 epilogue=bias_row+gelu_erf+residual
// config:  host_packed isa=avx2 mr=4 nv=3 kc=256 mc=96 nc=768 pack_a=1 pack_b=1 inner=rows parallel=grid unroll=4 prefetch=0 stream_d=0 fetch_a=0 fetch_b=0

// ---- parameters ----
using TypeA = double;             // elements of A
using TypeB = double;             // elements of B
using TypeD = double;             // elements of C and D
constexpr int kVectorBytes = 32;  // accumulators of vfmadd231pd
constexpr int kMr = 4;            // rows of the register tile
constexpr int kNv = 3;            // vectors across the register tile
constexpr int kUnroll = 4;        // k steps in the inner loop's body
constexpr int kRowUnit = 4;       // rows are divided among threads at multiples of this
constexpr int kColumnUnit = 12;   // columns are divided among threads at multiples of this
constexpr int kPanelStep = 1;     // rows of a panel of B are a multiple of this
constexpr int kColumnSums = 0;    // rows of column sums behind a panel of B
constexpr u32 kFlip = 0u;         // turns signed bytes of A into unsigned ones
constexpr bool kPackA = true;     // A is copied to strips
constexpr bool kPackB = true;     // B is copied to panels

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
  const Real* x0;
  const TypeD* x1;
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
  out.x0 = static_cast<const Real*>(args.bias);
  out.x1 = static_cast<const TypeD*>(args.residual) + batch * args.stride_d;
  out.partial = {};
  return out;
}

/// Whether accumulators hold the first and the last of k.
struct Pass {
  bool first, last;
};

template <int L>
KILN_INLINE Vec<double, L> exponential(Vec<double, L> x) {
  Vec<double, L> y;
  for (int i = 0; i < L; ++i) y[i] = __builtin_exp(x[i]);
  return y;
}

template <int L>
KILN_INLINE Vec<double, L> gelu_erf(Vec<double, L> x) {
  Vec<double, L> y;
  for (int i = 0; i < L; ++i) y[i] = 0.5 * x[i] * __builtin_erfc(-0.70710678118654752 * x[i]);
  return y;
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
    const Value x0 = same<L>(out.x0 + row);
    const Value x1 = load_real<L>(out.x1 + row * out.ldd + column, columns);
    const Value acc = v;
    v = gelu_erf(acc + x0) + x1;
  }
  store_first<L>(reinterpret_cast<Raw<TypeD>*>(d), from_real<L>(v, TypeD{}), columns);
}
