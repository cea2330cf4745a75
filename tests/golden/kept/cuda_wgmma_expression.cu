// device:  sm_90a
// problem: bf16 N T 4096 4096 4096 epilogue=t0=acc*x0[m]+x1[n]:bf16;d=where(t0>x2[],tanh(t0),t0/3)*x3[n,m]+m-n;y0[m]=sum(t0*t0);y1[]=logsumexp(t0);y2[m,n]:fp32=t0 align=16
// config:  cuda_wgmma left=128 right=128 stages=6 warpgroups=2 pingpong=0 swap=0 cluster_left=1 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 promote=0

// ---- cuda/common/abi.h ----
// The contract between a generated GPU kernel and whoever launches it: plain C, no headers, so that
// a generated source stays self-contained (this file is pasted into it).

/// One call, in canonical form: D row-major, A either [m,k] (k-major) or [k,m], B either [n,k]
/// (k-major) or [k,n]; which one is a constant of the kernel. Strides and ld count elements. The
/// first parameter of every kernel, by value; tensor maps follow it in the order of GpuLaunch.
struct KilnGpuArgs {
  const void* a;
  const void* b;
  const void* c;  // not read when beta == 0
  void* d;
  const void* bias;
  const void* residual;  // laid out as D
  void* workspace;       // 256-byte aligned
  long long m, n, k, batch;
  long long lda, ldb, ldc, ldd;
  long long stride_a, stride_b, stride_c, stride_d;
  double alpha, beta;
  const void* scale_a;  // as kiln's Scale says, lines being rows of A and columns of B
  const void* scale_b;
  const void* zero_b;  // as kiln's Zero says
  const void* groups;  // an int for each, as kiln's Grouping says
  void* scale_d;  // as kiln's Scale says, lines being rows of D
  const void* zero_a;         // 32-bit integers, as kiln's Scale says
  const void* column_sums_b;  // those of op(B), 32-bit integers
  const void* index_a;  // an int for each row of the product: its row of A, of D
  const void* index_d;
  long long rows_of_a, rows_of_d;
  void* amax_d;  // one fp32
  const void* row_weights;  // an fp32 for each row of the product
  // Of D, to whose rows those of the product are added: `d`, `c` and `beta` are the product's then,
  // which lies in the workspace.
  void* sums;
  const void* sums_c;  // not read when sums_beta == 0
  long long ld_sums, ld_sums_c;
  double sums_beta;
  const void* extra[8];  // the expression's operands, and where their lines and batches begin
  long long extra_ld[8], extra_stride[8];
  // What it stores beside D: for each element of D a value, in the workspace if it is reduced.
  void* outputs[4];
  long long output_ld[4], output_stride[4];
  void* reduced[4];  // what the values in the workspace become
  long long reduced_stride[4];
};

/// What the driver fills to describe a matrix to the copy engine; 64-byte aligned as it demands.
struct alignas(64) KilnTensorMap {
  unsigned long long words[16];
};

// ---- parameters ----
using TypeA = Bfloat;                           // elements of A
using TypeB = Bfloat;                           // elements of B
using TypeD = Bfloat;                           // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 128;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 128;                 // rows of the right operand in it
constexpr int kDepth = 64;                      // k of one stage
constexpr int kStages = 6;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 64;                       // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kChunk = 16;                      // right rows that one store buffer holds
constexpr int kStoreBuffers = 2;                // of each warp
constexpr int kHeld = 8;                        // sums of a thread that are finished together
constexpr int kRightTogether = 16;              // right rows of which lanes make one of the values that are reduced
constexpr int kCopyRegisters = 40;              // of the warps that copy
constexpr int kMultiplyRegisters = 232;         // of the warps that multiply
constexpr int kTurnBarrier = 1;                 // named barriers 1 and 2: whose turn it is
constexpr int kGroupBarrier = 3;                // named barriers from 3 on: one a warpgroup
constexpr int kCounterBytes = 0;                // front of the workspace
constexpr bool kPackA = false;                  // A is copied into the workspace first
constexpr bool kPackB = false;                  // B is copied into the workspace first
constexpr bool kAlongKA = true;                 // A's neighbours run along k
constexpr bool kAlongKB = true;                 // B's neighbours run along k
constexpr bool kSwap = false;                   // left is B: D's tile is computed transposed
constexpr bool kLeftAcrossK = false;            // the left operand's rows are neighbours in memory
constexpr bool kRightAcrossK = false;           // the right operand's rows are neighbours
constexpr u64 kLeftHint = 0x1000000000000000;   // L2 policy: evict first, or normal
constexpr u64 kRightHint = 0x1000000000000000;  // L2 policy: evict last, or normal
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"
#define KILN_WGMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63}"
#define KILN_WGMMA_OPERANDS "%64, %65, p, 1, 1, 0, 0"
#define KILN_WGMMA_ACCUMULATE "66"
#define KILN_WGMMA_TIED(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]), "+f"((d)[4]), "+f"((d)[5]), "+f"((d)[6]), "+f"((d)[7]), \
  "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11]), "+f"((d)[12]), "+f"((d)[13]), "+f"((d)[14]), "+f"((d)[15]), \
  "+f"((d)[16]), "+f"((d)[17]), "+f"((d)[18]), "+f"((d)[19]), "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23]), \
  "+f"((d)[24]), "+f"((d)[25]), "+f"((d)[26]), "+f"((d)[27]), "+f"((d)[28]), "+f"((d)[29]), "+f"((d)[30]), "+f"((d)[31]), \
  "+f"((d)[32]), "+f"((d)[33]), "+f"((d)[34]), "+f"((d)[35]), "+f"((d)[36]), "+f"((d)[37]), "+f"((d)[38]), "+f"((d)[39]), \
  "+f"((d)[40]), "+f"((d)[41]), "+f"((d)[42]), "+f"((d)[43]), "+f"((d)[44]), "+f"((d)[45]), "+f"((d)[46]), "+f"((d)[47]), \
  "+f"((d)[48]), "+f"((d)[49]), "+f"((d)[50]), "+f"((d)[51]), "+f"((d)[52]), "+f"((d)[53]), "+f"((d)[54]), "+f"((d)[55]), \
  "+f"((d)[56]), "+f"((d)[57]), "+f"((d)[58]), "+f"((d)[59]), "+f"((d)[60]), "+f"((d)[61]), "+f"((d)[62]), "+f"((d)[63])
#define KILN_WGMMA_REGISTER "f"
#define KILN_TURN_BRANCHES "turns: .branchtargets t0, t1, t2, t3, t4, t5, t6, t7;\n" \
  "brx.idx %72, turns;\n" \
  "t0: mov.b32 %0, %8; mov.b32 %1, %9; mov.b32 %2, %10; mov.b32 %3, %11; mov.b32 %4, %12; mov.b32 %5, %13; mov.b32 %6, %14; mov.b32 %7, %15;\nbra done;\n" \
  "t1: mov.b32 %0, %16; mov.b32 %1, %17; mov.b32 %2, %18; mov.b32 %3, %19; mov.b32 %4, %20; mov.b32 %5, %21; mov.b32 %6, %22; mov.b32 %7, %23;\nbra done;\n" \
  "t2: mov.b32 %0, %24; mov.b32 %1, %25; mov.b32 %2, %26; mov.b32 %3, %27; mov.b32 %4, %28; mov.b32 %5, %29; mov.b32 %6, %30; mov.b32 %7, %31;\nbra done;\n" \
  "t3: mov.b32 %0, %32; mov.b32 %1, %33; mov.b32 %2, %34; mov.b32 %3, %35; mov.b32 %4, %36; mov.b32 %5, %37; mov.b32 %6, %38; mov.b32 %7, %39;\nbra done;\n" \
  "t4: mov.b32 %0, %40; mov.b32 %1, %41; mov.b32 %2, %42; mov.b32 %3, %43; mov.b32 %4, %44; mov.b32 %5, %45; mov.b32 %6, %46; mov.b32 %7, %47;\nbra done;\n" \
  "t5: mov.b32 %0, %48; mov.b32 %1, %49; mov.b32 %2, %50; mov.b32 %3, %51; mov.b32 %4, %52; mov.b32 %5, %53; mov.b32 %6, %54; mov.b32 %7, %55;\nbra done;\n" \
  "t6: mov.b32 %0, %56; mov.b32 %1, %57; mov.b32 %2, %58; mov.b32 %3, %59; mov.b32 %4, %60; mov.b32 %5, %61; mov.b32 %6, %62; mov.b32 %7, %63;\nbra done;\n" \
  "t7: mov.b32 %0, %64; mov.b32 %1, %65; mov.b32 %2, %66; mov.b32 %3, %67; mov.b32 %4, %68; mov.b32 %5, %69; mov.b32 %6, %70; mov.b32 %7, %71;\n"
#define KILN_TURN_TAKEN(d) "=&f"((d)[0]), "=&f"((d)[1]), "=&f"((d)[2]), "=&f"((d)[3]), "=&f"((d)[4]), "=&f"((d)[5]), "=&f"((d)[6]), "=&f"((d)[7])
#define KILN_TURN_SUMS(d) "f"((d)[0][0]), "f"((d)[0][1]), "f"((d)[0][2]), "f"((d)[0][3]), "f"((d)[0][4]), "f"((d)[0][5]), \
  "f"((d)[0][6]), "f"((d)[0][7]), "f"((d)[0][8]), "f"((d)[0][9]), "f"((d)[0][10]), "f"((d)[0][11]), \
  "f"((d)[0][12]), "f"((d)[0][13]), "f"((d)[0][14]), "f"((d)[0][15]), "f"((d)[0][16]), "f"((d)[0][17]), \
  "f"((d)[0][18]), "f"((d)[0][19]), "f"((d)[0][20]), "f"((d)[0][21]), "f"((d)[0][22]), "f"((d)[0][23]), \
  "f"((d)[0][24]), "f"((d)[0][25]), "f"((d)[0][26]), "f"((d)[0][27]), "f"((d)[0][28]), "f"((d)[0][29]), \
  "f"((d)[0][30]), "f"((d)[0][31]), "f"((d)[0][32]), "f"((d)[0][33]), "f"((d)[0][34]), "f"((d)[0][35]), \
  "f"((d)[0][36]), "f"((d)[0][37]), "f"((d)[0][38]), "f"((d)[0][39]), "f"((d)[0][40]), "f"((d)[0][41]), \
  "f"((d)[0][42]), "f"((d)[0][43]), "f"((d)[0][44]), "f"((d)[0][45]), "f"((d)[0][46]), "f"((d)[0][47]), \
  "f"((d)[0][48]), "f"((d)[0][49]), "f"((d)[0][50]), "f"((d)[0][51]), "f"((d)[0][52]), "f"((d)[0][53]), \
  "f"((d)[0][54]), "f"((d)[0][55]), "f"((d)[0][56]), "f"((d)[0][57]), "f"((d)[0][58]), "f"((d)[0][59]), \
  "f"((d)[0][60]), "f"((d)[0][61]), "f"((d)[0][62]), "f"((d)[0][63])
#define KILN_ACC_IN(x) "f"(x)
#define KILN_ACC_OUT(x) "=f"(x)

// ---- cuda/common/epilogue.h ----
// What happens to a sum: alpha, beta·C, then the expression that follows, in Real. Expects
// convert.h, and from the parameters TypeD, Acc and Real.

/// x / y for y from 1 on, to two units in the last place; 0 beyond 2^126. Without the branch of an
/// exact division the elements of a lane are computed beside each other.
KILN_DEVICE float quotient(float x, float y) { return __fmul_rn(x, near_reciprocal(y)); }
KILN_DEVICE double quotient(double x, double y) { return x / y; }

/// Rounded before anything is added: whether a compiler would fuse alpha · sum with the bias behind
/// it differs from kernel to kernel, and the bits of an element must not. The product beta · C
/// behind it is left to the compiler, which always fuses it: there is one way only.
KILN_DEVICE float product(float x, float y) { return __fmul_rn(x, y); }
KILN_DEVICE double product(double x, double y) { return __dmul_rn(x, y); }

/// 1 / (1 + 2^-x) to some roundoffs of 1: what x lost in the exponent is small beside 1 where it
/// is large.
KILN_DEVICE float logistic(float x) { return near_reciprocal(1.0f + near_exp2(-x)); }
KILN_DEVICE double logistic(double x) { return 1.0 / (1.0 + exp(x * -0.6931471805599453)); }
KILN_DEVICE double tangent(double x) { return tanh(x); }
/// A polynomial where 1 - 2 / (e^2x + 1) would cancel.
KILN_DEVICE float tangent(float x) {
  const float size = fabsf(x), square = x * x;
  float near = -0.00609671416f * square + 0.020997179f;
  near = near * square - 0.0538509096f;
  near = near * square + 0.133327697f;
  near = near * square - 0.333333289f;
  near = near * square * x + x;
  const float far = 1.0f - 2.0f * logistic(-2.88539008f * size);
  return size < 0.625f ? near : x < 0.0f ? -far : far;
}

/// x · y + z, rounded once.
KILN_DEVICE Real fused(Real x, Real y, Real z) { return fma(x, y, z); }

/// An element of a matrix where it is there, else 0.
KILN_DEVICE Real real_if(const float* from, bool there) {
  return Real(bits_to_float(load_if(reinterpret_cast<const u32*>(from), there)));
}
KILN_DEVICE Real real_if(const double* from, bool there) {
  const u64 bits = load_if(reinterpret_cast<const u64*>(from), there);
  return Real(__longlong_as_double(static_cast<long long>(bits)));
}
KILN_DEVICE Real real_if(const Half* from, bool there) {
  return to_real(Half{load_if(reinterpret_cast<const u16*>(from), there)});
}
/// Of the other types of D.
template <typename T>
KILN_DEVICE Real real_if(const T* from, bool there) {
  return there ? to_real(*from) : Real(0);
}
KILN_DEVICE Real real_if(const Bfloat* from, bool there) {
  return to_real(Bfloat{load_if(reinterpret_cast<const u16*>(from), there)});
}

/// Where results go. Pointers are those of one batch.
struct Output {
  TypeD* d;
  const TypeD* c;  // null when beta == 0: C is then never read
  i64 ldd, ldc;
  i64 rows, columns;
  Real alpha, beta;
  const float* x0;
  const Bfloat* x1;
  const float* x2;
  const Bfloat* x3;
  i64 ld3;
  Real* y0;
  i64 ldy0;
  Real* y1;
  i64 ldy1;
  float* y2;
  i64 ldy2;
};

KILN_DEVICE Output output_of(const KilnGpuArgs& args, i64 batch) {
  Output out;
  out.d = static_cast<TypeD*>(args.d) + batch * args.stride_d;
  out.c = args.beta != 0 ? static_cast<const TypeD*>(args.c) + batch * args.stride_c : nullptr;
  out.ldd = args.ldd;
  out.ldc = args.ldc;
  out.rows = args.m;
  out.columns = args.n;
  out.alpha = Real(args.alpha);
  out.beta = Real(args.beta);
  out.x0 = static_cast<const float*>(args.extra[0]);
  out.x1 = static_cast<const Bfloat*>(args.extra[1]);
  out.x2 = static_cast<const float*>(args.extra[2]);
  out.x3 = static_cast<const Bfloat*>(args.extra[3]);
  out.ld3 = args.extra_ld[3];
  out.y0 = static_cast<Real*>(args.outputs[0]) + batch * args.output_stride[0];
  out.ldy0 = args.output_ld[0];
  out.y1 = static_cast<Real*>(args.outputs[1]) + batch * args.output_stride[1];
  out.ldy1 = args.output_ld[1];
  out.y2 = static_cast<float*>(args.outputs[2]) + batch * args.output_stride[2];
  out.ldy2 = args.output_ld[2];
  return out;
}

/// What the expression reads for one element; those outside D read nothing.
struct Extras {
  Real x0;
  Real x1;
  Real x2;
  Real x3;
  Real y0;
  Real y1;
  Real y2;
};
KILN_DEVICE Extras extras_at(const Output& out, i64 row, i64 column) {
  using Value = Real;
  const bool in_row = row < out.rows, in_column = column < out.columns;
  Extras x;
  x.x0 = in_row ? to_real(out.x0[row]) : Value(0);
  x.x1 = in_column ? to_real(out.x1[column]) : Value(0);
  x.x2 = to_real(*out.x2);
  x.x3 = real_if(out.x3 + column * out.ld3 + row, in_row && in_column);
  return x;
}
/// The expression's value for one element; what else is stored is left in `x`.
KILN_DEVICE Real finish(const Output& out, Real v, i64 row, i64 column, Extras& x) {
  using Value = Real;
  const Value acc = v;
  const Value t0 = fused(acc, x.x0, x.x1);
  v = fused((t0 > x.x2 ? tangent(t0) : product(t0, Value(Real(1.0 / 3.0)))), x.x3, Real(row)) - Real(column);
  x.y0 = product(t0, t0);
  x.y1 = t0;
  x.y2 = t0;
  return v;
}
/// Stores matrices beside D.
KILN_DEVICE void store_matrices(const Output& out, i64 row, i64 column, const Extras& x) {
  if (row >= out.rows || column >= out.columns) return;
  out.y2[row * out.ldy2 + column] = from_real(x.y2, float{});
}
/// Leaves in the workspace what is reduced.
KILN_DEVICE void keep_values(const Output& out, i64 row, i64 column, const Extras& x) {
  if (row >= out.rows || column >= out.columns) return;
  out.y0[row * out.ldy0 + column] = x.y0;
  out.y1[row * out.ldy1 + column] = x.y1;
}
KILN_DEVICE void store_beside(const Output& out, i64 row, i64 column, const Extras& x) {
  store_matrices(out, row, column, x);
  keep_values(out, row, column, x);
}
KILN_DEVICE Real finish(const Output& out, Real v, i64 row, i64 column) {
  Extras x = extras_at(out, row, column);
  v = finish(out, v, row, column, x);
  store_beside(out, row, column, x);
  return v;
}

struct TwoDoubles {
  u64 x, y;
};
/// The bits of an element, and of two.
template <typename T>
struct InMemory {
  using One = u16;
  using Two = u32;
};
template <>
struct InMemory<float> {
  using One = u32;
  using Two = u64;
};
template <>
struct InMemory<double> {
  using One = u64;
  using Two = TwoDoubles;
};
template <typename T>
KILN_DEVICE typename InMemory<T>::One bits_if(const T* from, bool there) {
  return load_if(reinterpret_cast<const typename InMemory<T>::One*>(from), there);
}
/// Of two elements that are a word of memory.
template <typename T>
KILN_DEVICE typename InMemory<T>::Two word_at(const T* from) {
  return load_at(reinterpret_cast<const typename InMemory<T>::Two*>(from));
}
KILN_DEVICE TwoDoubles word_at(const double* from) {
  return TwoDoubles{bits_if(from, true), bits_if(from + 1, true)};
}
/// The same of a vector, which is read again for each line: ordinary loads, of which the compiler
/// makes one.
template <typename T>
KILN_DEVICE typename InMemory<T>::One bits_at(const T* from) {
  return *reinterpret_cast<const typename InMemory<T>::One*>(from);
}
template <typename T>
KILN_DEVICE typename InMemory<T>::Two word_of_line(const T* from) {
  return *reinterpret_cast<const typename InMemory<T>::Two*>(from);
}
KILN_DEVICE TwoDoubles word_of_line(const double* from) {
  return TwoDoubles{bits_at(from), bits_at(from + 1)};
}
KILN_DEVICE u32 word_of(u16 x, u16 y) { return u32(x) | u32(y) << 16; }
KILN_DEVICE u64 word_of(u32 x, u32 y) { return u64(x) | u64(y) << 32; }
KILN_DEVICE TwoDoubles word_of(u64 x, u64 y) { return TwoDoubles{x, y}; }

KILN_DEVICE Real real_of_bits(u16 x, Half) { return to_real(Half{x}); }
KILN_DEVICE Real real_of_bits(u16 x, Bfloat) { return to_real(Bfloat{x}); }
KILN_DEVICE Real real_of_bits(u32 x, float) { return Real(bits_to_float(x)); }
KILN_DEVICE Real real_of_bits(u64 x, double) {
  return Real(__longlong_as_double(static_cast<long long>(x)));
}
template <typename T>
KILN_DEVICE void split_word(u32 word, T, Real& x, Real& y) {
  x = real_of_bits(u16(word), T{});
  y = real_of_bits(u16(word >> 16), T{});
}
KILN_DEVICE void split_word(u64 word, float, Real& x, Real& y) {
  x = real_of_bits(u32(word), float{});
  y = real_of_bits(u32(word >> 32), float{});
}
KILN_DEVICE void split_word(const TwoDoubles& word, double, Real& x, Real& y) {
  x = real_of_bits(word.x, double{});
  y = real_of_bits(word.y, double{});
}

template <typename T>
struct alignas(2 * sizeof(T)) Pair {
  T x, y;
};
template <typename T>
KILN_DEVICE void store_pair(T* to, Real x, Real y) {
  *reinterpret_cast<Pair<T>*>(to) = Pair<T>{from_real(x, T{}), from_real(y, T{})};
}
KILN_DEVICE void store_pair(Half* to, Real x, Real y) {
  *reinterpret_cast<u32*>(to) = pack_two(x, y, Half{});
}
KILN_DEVICE void store_pair(Bfloat* to, Real x, Real y) {
  *reinterpret_cast<u32*>(to) = pack_two(x, y, Bfloat{});
}

/// Whether elements 2i and 2i + 1 of each line are words of memory.
template <typename T>
KILN_DEVICE bool in_words(const T* from, i64 ld) {
  return ((reinterpret_cast<u64>(from) | u64(ld) * sizeof(T)) & (2 * sizeof(T) - 1)) == 0;
}
/// Whether that is so of all that is read and stored in pairs.
KILN_DEVICE bool pairs_fit(const Output& out) {
  return out.columns % 2 == 0 &&
         in_words(out.x1, 0) &&
         in_words(out.y2, out.ldy2);
}

/// What is read of matrices and vectors for two elements.
struct Words {
  typename InMemory<float>::One x0;
  typename InMemory<Bfloat>::Two x1;
  typename InMemory<Bfloat>::One x3, next3;
};
/// The second element is kDown below the first and kRight to the right of it. Both are in D, and
/// pairs fit.
template <int kDown, int kRight>
KILN_DEVICE Words words_inside(const Output& out, i64 row, i64 column) {
  constexpr bool first = true, second = true;
  Words w;
  w.x0 = bits_at(out.x0 + row);
  w.x1 = word_of_line(out.x1 + column);
  w.x3 = bits_if(out.x3 + column * out.ld3 + row, first);
  w.next3 = bits_if(out.x3 + (column + kRight) * out.ld3 + (row + kDown), second);
  return w;
}
template <int kDown, int kRight>
KILN_DEVICE Words words_at_edge(const Output& out, i64 row, i64 column) {
  const bool first = row < out.rows && column < out.columns;
  const bool second = row + kDown < out.rows && column + kRight < out.columns;
  Words w;
  w.x0 = bits_if(out.x0 + row, first);
  w.x1 = word_of(bits_if(out.x1 + column, first),
                 bits_if(out.x1 + (column + kRight), second));
  w.x3 = bits_if(out.x3 + column * out.ld3 + row, first);
  w.next3 = bits_if(out.x3 + (column + kRight) * out.ld3 + (row + kDown), second);
  return w;
}
/// What is read of single values for one element.
template <bool Inside>
KILN_DEVICE Extras vectors_at(const Output& out, i64 row, i64 column) {
  using Value = Real;
  const bool in_row = Inside || row < out.rows, in_column = Inside || column < out.columns;
  Extras x;
  x.x2 = to_real(*out.x2);
  return x;
}
/// All that is read for two elements.
template <int kDown, int kRight, bool Inside>
KILN_DEVICE void extras_of_two(const Output& out, const Words& w, i64 row, i64 column, Extras& x,
                               Extras& y) {
  x = vectors_at<Inside>(out, row, column);
  y = vectors_at<Inside>(out, row + kDown, column + kRight);
  x.x0 = y.x0 = real_of_bits(w.x0, float{});
  split_word(w.x1, Bfloat{}, x.x1, y.x1);
  x.x3 = real_of_bits(w.x3, Bfloat{});
  y.x3 = real_of_bits(w.next3, Bfloat{});
}
/// As store_matrices(), of what is not stored in pairs, of an element of D.
KILN_DEVICE void store_alone(const Output& out, i64 row, i64 column, const Extras& x) {
  // None.
}
/// As store_matrices(), of two elements of D, where pairs fit.
template <int kDown, int kRight>
KILN_DEVICE void store_two(const Output& out, i64 row, i64 column, const Extras& x,
                           const Extras& y) {
  store_alone(out, row, column, x);
  store_alone(out, row + kDown, column + kRight, y);
  store_pair(out.y2 + row * out.ldy2 + column, x.y2, y.y2);
}

constexpr int kReducing = 512;  // threads of a block
constexpr int kChains = kReducing / 32;  // of a column

KILN_DEVICE Real infinity() { return Real(bits_to_float(0x7f800000)); }

struct Sum {
  KILN_DEVICE Real of_none() { return Real(0); }
  KILN_DEVICE Real of_two(Real x, Real y) { return x + y; }
  KILN_DEVICE Real term(Real x, Real) { return x; }
};
struct Largest {
  KILN_DEVICE Real of_none() { return -infinity(); }
  KILN_DEVICE Real of_two(Real x, Real y) { return x > y ? x : (x == x ? y : x); }
  KILN_DEVICE Real term(Real x, Real) { return x; }
};
struct Smallest {
  KILN_DEVICE Real of_none() { return infinity(); }
  KILN_DEVICE Real of_two(Real x, Real y) { return x < y ? x : (x == x ? y : x); }
  KILN_DEVICE Real term(Real x, Real) { return x; }
};
/// Of e^x as shares of the largest one's.
struct Exponentials : Sum {
  KILN_DEVICE Real term(Real x, Real largest) { return Real(exp(x - largest)); }
};
struct LogSumExp {
  KILN_DEVICE Real of_none() { return -infinity(); }
};

/// Elements of a line of values, `step` apart.
struct Line {
  const Real* values;
  i64 count, step;
};

/// Of a line's elements `first`, `first` + `apart` and so on.
template <typename R>
KILN_DEVICE Real chain(const Line& line, int first, int apart, Real largest) {
  Real all = R::of_none();
  // Some loads on their way; all of them would be much code.
  _Pragma("unroll 4") for (i64 i = first; i < line.count; i += apart)
    all = R::of_two(all, R::term(line.values[i * line.step], largest));
  return all;
}

/// How the threads of a warp reduce one line: all of them get the result.
struct WholeWarp {
  static constexpr int kThreads = 32;
  template <typename R>
  KILN_DEVICE Real of(const Line& line, Real largest) {
    Real all = chain<R>(line, int(threadIdx.x) % 32, 32, largest);
    _Pragma("unroll") for (int apart = 16; apart > 0; apart /= 2)
      all = R::of_two(all, __shfl_xor_sync(0xffffffff, all, apart));
    return all;
  }
};
/// How the block's threads reduce one line: all threads get the result.
struct WholeBlock {
  static constexpr int kThreads = kReducing;
  template <typename R>
  KILN_DEVICE Real of(const Line& line, Real largest) {
    const int thread = int(threadIdx.x);
    Real all = chain<R>(line, thread, kReducing, largest);
    __shared__ Real of_warp[kReducing / 32];
    _Pragma("unroll") for (int apart = 16; apart > 0; apart /= 2)
      all = R::of_two(all, __shfl_xor_sync(0xffffffff, all, apart));
    if (thread % 32 == 0) of_warp[thread / 32] = all;
    __syncthreads();
    all = R::of_none();
    _Pragma("unroll") for (int warp = 0; warp < kReducing / 32; ++warp)
      all = R::of_two(all, of_warp[warp]);
    __syncthreads();
    return all;
  }
};

/// How lanes that lie kFirst and its doubles below kEnd apart reduce what each of them has.
template <int kFirst, int kEnd>
struct Lanes {
  template <typename R, int kCount>
  KILN_DEVICE Real of(const Real (&some)[kCount], Real largest) {
    Real all = R::term(some[0], largest);
    _Pragma("unroll") for (int i = 1; i < kCount; ++i)
      all = R::of_two(all, R::term(some[i], largest));
    _Pragma("unroll") for (int apart = kFirst; apart < kEnd; apart *= 2)
      all = R::of_two(all, __shfl_xor_sync(0xffffffff, all, apart));
    return all;
  }
};

template <typename R, typename Threads>
struct Reduced {
  template <typename Some>
  KILN_DEVICE Real of(const Some& line) {
    return Threads::template of<R>(line, Real(0));
  }
};
template <typename Threads>
struct Reduced<LogSumExp, Threads> {
  template <typename Some>
  KILN_DEVICE Real of(const Some& line) {
    const Real largest = Threads::template of<Largest>(line, Real(0));
    const bool finite = largest - largest == Real(0);
    const Real sum = Threads::template of<Exponentials>(line, finite ? largest : Real(0));
    return finite ? largest + Real(log(sum)) : largest;
  }
};

KILN_DEVICE void wait_for_previous_grid();

/// How many matrices have rows of their own: groups of rows share one.
KILN_DEVICE i64 matrices_of(const KilnGpuArgs& args) {
  return args.batch;
}
/// The rows of one that may be of a group.
KILN_DEVICE i64 rows_of(const KilnGpuArgs& args, i64 matrix) {
  return args.m;
}
KILN_DEVICE Real* values_of(const KilnGpuArgs& args, int i, i64 batch) {
  return static_cast<Real*>(args.outputs[i]) + batch * args.output_stride[i];
}
template <typename T>
KILN_DEVICE void store_reduced(const KilnGpuArgs& args, int i, i64 batch, i64 at, Real x) {
  static_cast<T*>(args.reduced[i])[batch * args.reduced_stride[i] + at] = from_real(x, T{});
}

using RowTeam = WholeWarp;
template <typename R, typename T, typename Team = RowTeam>
KILN_DEVICE void reduce_row(const KilnGpuArgs& args, int i, i64 batch, i64 row) {
  const Line line{values_of(args, i, batch) + row * args.output_ld[i], args.output_ld[i], 1};
  const Real x = Reduced<R, Team>::of(line);
  if (threadIdx.x % Team::kThreads == 0) store_reduced<T>(args, i, batch, row, x);
}
constexpr int kMostOfWarp = 256;  // values of a row; of more a block makes one
/// Calls f(batch, row) for the rows of this thread's team, `batch` being the group where rows are
/// those of groups.
template <typename Team, typename F>
KILN_DEVICE void for_rows(const KilnGpuArgs& args, i64 batch, F&& f) {
  constexpr int kTeams = kReducing / Team::kThreads;
  const i64 rows = rows_of(args, batch);
  for (i64 row = i64(blockIdx.x) * kTeams + threadIdx.x / Team::kThreads; row < rows;
       row += i64(gridDim.x) * kTeams) {
    f(batch, row);
  }
}
template <typename R, typename T>
KILN_DEVICE void reduce_rows(const KilnGpuArgs& args, i64 batch, int i) {
  if (args.output_ld[i] > kMostOfWarp) {
    for_rows<WholeBlock>(args, batch,
                         [&](i64 of, i64 row) { reduce_row<R, T, WholeBlock>(args, i, of, row); });
    return;
  }
  for_rows<RowTeam>(args, batch, [&](i64 of, i64 row) { reduce_row<R, T>(args, i, of, row); });
}
/// Rows, each into its first value.
template <typename R, typename T>
KILN_DEVICE void reduce_all(const KilnGpuArgs& args, i64 batch, int i) {
  for_rows<WholeBlock>(args, batch, [&](i64 of, i64 row) {
    const i64 ld = args.output_ld[i];
    Real* const values = values_of(args, i, of) + row * ld;
    const Real x = Reduced<R, WholeBlock>::of(Line{values, ld, 1});
    if (threadIdx.x == 0) *values = x;
  });
}

/// blockIdx.y is the output.
extern "C" __global__ void __launch_bounds__(kReducing)
    kiln_reduce(const __grid_constant__ KilnGpuArgs args) {
  wait_for_previous_grid();
  const int output = int(blockIdx.y);
  for (i64 batch = blockIdx.z; batch < matrices_of(args); batch += gridDim.z) {
    if (output == 0) reduce_rows<Sum, float>(args, batch, 0);
    if (output == 1) reduce_all<LogSumExp, float>(args, batch, 1);
  }
}

/// What is made of rows becomes what is made of all of them: a block has a batch.
template <typename R, typename T>
KILN_DEVICE void reduce_rest(const KilnGpuArgs& args, i64 batch, int i) {
  const Line line{values_of(args, i, batch), args.m, args.output_ld[i]};
  const Real x = Reduced<R, WholeBlock>::of(line);
  if (threadIdx.x == 0) store_reduced<T>(args, i, batch, 0, x);
}

extern "C" __global__ void __launch_bounds__(kReducing)
    kiln_reduce_all(const __grid_constant__ KilnGpuArgs args) {
  wait_for_previous_grid();
  const i64 batch = blockIdx.x;
  const int output = int(blockIdx.y);
  if (output == 1) reduce_rest<LogSumExp, float>(args, batch, 1);
}

// ---- cuda/wgmma/roll_ptx.h ----
// The sums of one turn. The macros KILN_TURN… hold what only text can give: a branch for each turn.

/// Registers have no numbers at run time, and a compiler that sees all cases chooses between them
/// sum by sum.
KILN_DEVICE void take_sums(Acc (&some)[kHeld], const Acc (&sums)[kSubtiles][kSums], int turn) {
  asm volatile("{\n" KILN_TURN_BRANCHES "done:\n}"
               : KILN_TURN_TAKEN(some)
               : KILN_TURN_SUMS(sums), "r"(turn)
               : "memory");
}
/// Keeps the compiler from making a value anew in each turn.
KILN_DEVICE void keep_in_register(float& x) { asm volatile("" : "+f"(x)); }

// ---- cuda/wgmma/store.h ----
// A warp's sums to D: finished in registers a chunk at a time, then through swizzled buffers of its
// own in shared memory and the copy engine, or coalesced stores, or straight from registers. Warps
// never wait for each other here. Expects epilogue.h, hopper_ptx.h, store_ptx.h.

/// Element (row of left, row of right) of a tile as (row, column) of D.
KILN_DEVICE i64 row_of(i64 left, i64 right) { return kSwap ? right : left; }
KILN_DEVICE i64 column_of(i64 left, i64 right) { return kSwap ? left : right; }

KILN_DEVICE Real real_of(float x) { return x; }
KILN_DEVICE float kept(Real x) { return x; }
KILN_DEVICE Real first_real(float sum) { return sum; }

constexpr int kTurns = kSubtiles * kSums / kHeld;

/// What one turn sees.
namespace of_turn {
constexpr int kSums = kHeld;
constexpr int kPart = kSums;
/// Sums that are finished together: enough loads in flight, few registers beside the sums.
constexpr int kTogether = kPart % 16 == 0 ? 16 : kPart % 8 == 0 ? 8 : 4;

/// The elements of a matrix like D under sums [i, i + kTogether); zero outside. `left`, `right`: of
/// sum 0.
KILN_DEVICE void load_under(Real (&x)[kTogether],
                            const TypeD* from,
                            i64 ld, const Output& out, i64 left, i64 right, int i) {
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    const i64 row = row_of(l, r), column = column_of(l, r);
    x[e] = row < out.rows && column < out.columns ? to_real(from[row * ld + column]) : Real(0);
  }
}

static_assert(kTogether * 2 == kRightTogether);

/// Leaves in the workspace what lanes make together of neighbours in a line of D: `value(e)` is
/// that of sum i + e. kOfRow: a line is a row.
template <typename R, bool kOfRow, typename F>
KILN_DEVICE void keep_together(Real* to, i64 ld, const Output& out, i64 left, i64 right, int i,
                               F&& value) {
  const int lane = int(threadIdx.x) & 31;
  const auto term = [&](int e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    return row_of(l, r) < out.rows && column_of(l, r) < out.columns ? value(e) : R::of_none();
  };
  const i64 lines = kOfRow ? out.rows : out.columns, length = kOfRow ? out.columns : out.rows;
  const auto keep = [&](i64 line, i64 first, int count, Real all) {
    if (line < lines && first < length)
      to[kOfRow ? line * ld + first / count : first / count * ld + line] = all;
  };
  if constexpr (kOfRow != kSwap) {
    const i64 first = right - lane % 4 * 2 + i / 4 * 8;
    _Pragma("unroll") for (int half = 0; half < 2; ++half) {
      Real some[kTogether / 2];
      _Pragma("unroll") for (int g = 0; g < kTogether / 4; ++g)
        _Pragma("unroll") for (int odd = 0; odd < 2; ++odd)
          some[g * 2 + odd] = term(g * 4 + half * 2 + odd);
      const Real all = Reduced<R, Lanes<1, 4>>::of(some);
      if (lane % 4 == 0) keep(left + half * 8, first, kRightTogether, all);
    }
  } else {
    const i64 first = left - lane / 4;
    _Pragma("unroll") for (int g = 0; g < kTogether / 4; ++g)
      _Pragma("unroll") for (int odd = 0; odd < 2; ++odd) {
        const Real some[2] = {term(g * 4 + odd), term(g * 4 + odd + 2)};
        const Real all = Reduced<R, Lanes<4, 32>>::of(some);
        if (lane < 4) keep(right + (i / 4 + g) * 8 + odd, first, 16, all);
      }
  }
}

/// What the expression reads of matrices for sums [i, i + kTogether).
KILN_DEVICE void load_words(Words (&words)[kTogether / 2], const Output& out, i64 left, i64 right,
                            int i, bool in_pairs) {
  constexpr int kDown = kSwap ? 1 : 0, kRight = kSwap ? 0 : 1;
  if (in_pairs) {
    _Pragma("unroll") for (int e = 0; e < kTogether; e += 2) {
      const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8;
      words[e / 2] = words_inside<kDown, kRight>(out, row_of(l, r), column_of(l, r));
    }
  } else {
    _Pragma("unroll") for (int e = 0; e < kTogether; e += 2) {
      const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8;
      words[e / 2] = words_at_edge<kDown, kRight>(out, row_of(l, r), column_of(l, r));
    }
  }
}
template <bool Inside>
KILN_DEVICE void make_extras(Extras (&extras)[kTogether], const Words (&words)[kTogether / 2],
                             const Output& out, i64 left, i64 right, int i) {
  _Pragma("unroll") for (int e = 0; e < kTogether; e += 2) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8;
    extras_of_two<kSwap ? 1 : 0, kSwap ? 0 : 1, Inside>(out, words[e / 2], row_of(l, r),
                                                        column_of(l, r), extras[e], extras[e + 1]);
  }
}

/// Stores what the expression left of sums [i, i + kTogether), beside D or in the workspace.
KILN_DEVICE void store_extras(const Extras (&extras)[kTogether], const Output& out, i64 left,
                              i64 right, int i, bool in_pairs) {
  keep_together<Sum, true>(out.y0, out.ldy0, out, left, right, i,
                          [&](int e) { return extras[e].y0; });
  keep_together<LogSumExp, true>(out.y1, out.ldy1, out, left, right, i,
                          [&](int e) { return extras[e].y1; });
  if (in_pairs) {
    _Pragma("unroll") for (int e = 0; e < kTogether; e += 2) {
      const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8;
      store_two<kSwap ? 1 : 0, kSwap ? 0 : 1>(out, row_of(l, r), column_of(l, r), extras[e],
                                              extras[e + 1]);
    }
    return;
  }
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    store_matrices(out, row_of(l, r), column_of(l, r), extras[e]);
  }
}

/// alpha, beta·C and the rest for sums [i, i + kTogether), in place.
KILN_DEVICE void finish_sums(Acc (&sums)[kSums], const Output& out, i64 left, i64 right,
                             const Words (&words)[kTogether / 2], bool inside, bool in_pairs,
                             int i) {
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e)
    sums[i + e] = kept(product(first_real(sums[i + e]), out.alpha));
  if (out.c) {
    Real c[kTogether];
    load_under(c, out.c, out.ldc, out, left, right, i);
    _Pragma("unroll") for (int e = 0; e < kTogether; ++e)
      sums[i + e] = kept(real_of(sums[i + e]) + out.beta * c[e]);
  }
  Extras extras[kTogether];
  if (inside)
    make_extras<true>(extras, words, out, left, right, i);
  else
    make_extras<false>(extras, words, out, left, right, i);
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    sums[i + e] = kept(finish(out, real_of(sums[i + e]), row_of(l, r), column_of(l, r), extras[e]));
  }
  store_extras(extras, out, left, right, i, in_pairs);
  // Otherwise loads of later sums move up here, and sums already fill the registers.
  compiler_barrier();
}

KILN_DEVICE TypeD stored(Acc sum, bool exact) {
  return from_real(real_of(sum), TypeD{});
}

constexpr int kPitch = (kSwap ? 16 : kChunk) * int(sizeof(TypeD));  // bytes of a buffer's row

KILN_DEVICE u32 swizzled(int row, int unit) { return swizzled_byte(row, unit, kPitch); }

}  // namespace of_turn

/// A warp's sums of a turn, 16 left rows by 2 * kHeld right rows of D, into its buffer: `word(i)`
/// is what of sums i and i + 1.
template <typename F>
KILN_DEVICE void fill_with_pairs(u32 buffer, int lane, F&& word) {
  constexpr int kPitch = (kSwap ? 16 : kHeld * 2) * 2;
  _Pragma("unroll") for (int g = 0; g < kHeld / 4; g += kHeld == 4 ? 1 : 2) {
    const int i = g * 4;
    const int row = lane & 15;
    if constexpr (kHeld == 4)
      stmatrix_x2(buffer + swizzled_byte(row, g, kPitch), word(i), word(i + 2));
    else
      stmatrix_x4(buffer + swizzled_byte(row, g + (lane >> 4), kPitch), word(i), word(i + 2),
                  word(i + 4), word(i + 6));
  }
}

/// A warp's part of a tile: its first element, and whether all of it is in D, in words of memory.
struct WarpTile {
  i64 left0, right0;
  bool inside, in_pairs;
};
KILN_DEVICE WarpTile warp_tile(const Output& out, const Work& work, u32 row_offset, int thread) {
  WarpTile at;
  at.left0 = i64(work.left) * kLeftTile + row_offset + thread / 32 * 16;
  at.right0 = i64(work.right) * kRightTile;
  at.inside = at.left0 + (kSubtiles * 64 - 48) <= (kSwap ? out.columns : out.rows) &&
              at.right0 + kRightTile <= (kSwap ? out.rows : out.columns);
  at.in_pairs = at.inside && pairs_fit(out);
  return at;
}
KILN_DEVICE void load_turn(Words (&words)[kHeld / 2], const Output& out, const WarpTile& at,
                           int turn, int lane) {
  of_turn::load_words(words, out, at.left0 + turn / (kSums / kHeld) * 64 + lane / 4,
                      at.right0 + turn % (kSums / kHeld) * (kHeld * 2) + lane % 4 * 2, 0,
                      at.in_pairs);
}

/// One warpgroup's part of a tile.
KILN_DEVICE void store_tile(
    const Acc (&sums)[kSubtiles][kSums],
    const Work& work, const KilnGpuArgs& args, const KilnTensorMap* map_d, u32 buffers,
    u32 row_offset, int group, int thread) {
  Output out = output_of(args, work.batch);
  keep_in_register(out.alpha);
  const int warp = thread / 32, lane = thread & 31;
  const WarpTile at = warp_tile(out, work, row_offset, thread);
  const bool exact = false;
  const u32 mine = buffers + u32(group * 4 + warp) * kStoreBuffers * kBufferBytes;
  constexpr int kUnrolled = 1;
  // What the next turn needs of matrices is on its way while this one computes.
  Words next[kHeld / 2];
  load_turn(next, out, at, 0, lane);
  _Pragma("unroll kUnrolled") for (int turn = 0; turn < kTurns; ++turn) {
    const i64 left = at.left0 + turn / (kSums / kHeld) * 64;
    const i64 right = at.right0 + turn % (kSums / kHeld) * (kHeld * 2);
    Acc some[kHeld];
    take_sums(some, sums, turn);
    Words words[kHeld / 2];
    _Pragma("unroll") for (int e = 0; e < kHeld / 2; ++e) words[e] = next[e];
    if (turn + 1 < kTurns) load_turn(next, out, at, turn + 1, lane);
    of_turn::finish_sums(some, out, left + lane / 4, right + lane % 4 * 2, words, at.inside,
                         at.in_pairs, 0);
    const u32 here = mine + u32(turn % kStoreBuffers) * kBufferBytes;
    // An odd number of turns leaves the first buffer to the last store of the tile before.
    if (lane == 0) {
      if (turn == 0)
        tma_store_wait_read<0>();
      else
        tma_store_wait_read<kStoreBuffers - 1>();
    }
    __syncwarp();
    fill_with_pairs(here, lane, [&](int i) {
      return pack_two(real_of(some[i]), real_of(some[i + 1]), TypeD{});
    });
    fence_async_shared();
    __syncwarp();
    if (lane == 0) {
      tma_store_3d(map_d, here, int(column_of(left, right)), int(row_of(left, right)), work.batch);
      tma_store_commit();
    }
  }
}
