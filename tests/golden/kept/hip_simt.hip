// Written by kiln 0.3.0.
// device:  gfx1100
// problem: u8s8 N N 99 98 97 out=s8 epilogue=bias_row+silu
// config:  hip_simt tile_m=64 tile_n=64 tile_k=16 each_m=4 each_n=4 pad=4
// compile: clang++ -x hip --cuda-device-only --no-gpu-bundle-output -nogpuinc -nogpulib --offload-arch=gfx1100 -std=c++17 -O3 kiln_hip_simt_7108af1c9bdaa1d6.hip -o kernel.hsaco

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
};

/// What the driver fills to describe a matrix to the copy engine; 64-byte aligned as it demands.
struct alignas(64) KilnTensorMap {
  unsigned long long words[16];
};

// ---- hip/common/types.h ----
// Names of the element types and the marks of device functions. Attributes instead of the vendor's
// macros, so that Clang alone, without any header, takes the text as hipRTC and hipcc do.

#define KILN_DEVICE static inline __attribute__((device, always_inline))
#define KILN_MEMBER inline __attribute__((device, always_inline))
#define KILN_SHARED static __attribute__((shared))
#define KILN_KERNEL(threads, waves)                              \
  extern "C" __attribute__((global))                             \
  __attribute__((amdgpu_flat_work_group_size(threads, threads))) \
  __attribute__((amdgpu_waves_per_eu(waves))) void
#define KILN_UNROLL _Pragma("unroll")

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

template <typename T, int N>
using Vector = T __attribute__((ext_vector_type(N)));
using U32x4 = u32 __attribute__((ext_vector_type(4)));
using U32x2 = u32 __attribute__((ext_vector_type(2)));
using I32x4 = i32 __attribute__((ext_vector_type(4)));

/// Storage of the small formats; arithmetic is never done on them directly.
struct Half {
  u16 bits;
};
struct Bfloat {
  u16 bits;
};
/// Eight bits: sign, exponent, mantissa. Without −0, infinity and all NaNs but one ("fnuz") the
/// exponent's bias is one more.
template <int Mantissa, bool Fnuz>
struct Float8 {
  u8 bits;
};

template <typename To, typename From>
KILN_DEVICE To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "bits are neither added nor lost");
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}
constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

// ---- parameters ----
using TypeA = u8;                // elements of A
using TypeB = i8;                // elements of B
using TypeD = i8;                // elements of C and D
using Acc = i32;                 // accumulators
using Real = float;              // what the epilogue computes in
constexpr int kTileM = 64;       // rows of D in a block's tile
constexpr int kTileN = 64;       // columns of it
constexpr int kTileK = 16;       // k of one step
constexpr int kEachM = 4;        // rows of a thread
constexpr int kEachN = 4;        // columns of it
constexpr int kPad = 4;          // elements between rows of k in shared memory
constexpr bool kAlongA = true;   // A's rows lie along k
constexpr bool kAlongB = false;  // B's rows lie along k

// ---- hip/common/device.h ----
// What every kernel asks of the device: who am I, and barriers. One small named wrapper each; an
// emulator supplies the same names.

KILN_DEVICE u32 thread_index() { return __builtin_amdgcn_workitem_id_x(); }
KILN_DEVICE u32 block_index() { return __builtin_amdgcn_workgroup_id_x(); }
/// A value that is the same in all lanes, told to the compiler so that it is kept in one place.
KILN_DEVICE u32 uniform(u32 value) { return __builtin_amdgcn_readfirstlane(value); }

/// All threads of the block arrive, and what they wrote to shared memory is there for all. The bare
/// instruction does not wait for writes: hence the fences.
KILN_DEVICE void block_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// ---- hip/common/convert.h ----
// Between stored elements and the epilogue's type (Real). Rounding is to nearest even; integers
// saturate. Expects types.h and the parameters.

KILN_DEVICE Real to_real(float x) { return Real(x); }
KILN_DEVICE Real to_real(double x) { return Real(x); }
KILN_DEVICE Real to_real(i8 x) { return Real(x); }
KILN_DEVICE Real to_real(u8 x) { return Real(x); }
KILN_DEVICE Real to_real(i32 x) { return Real(x); }
KILN_DEVICE Real to_real(Half x) { return Real(bits_as<_Float16>(x.bits)); }
KILN_DEVICE Real to_real(Bfloat x) { return Real(bits_as<float>(u32(x.bits) << 16)); }

KILN_DEVICE float from_real(Real x, float) { return float(x); }
KILN_DEVICE double from_real(Real x, double) { return double(x); }
/// NaN becomes 0, as the instruction has it.
KILN_DEVICE i32 from_real(Real x, i32) {
  const float y = __builtin_rintf(float(x));
  return y >= 0x1p31f ? 0x7fffffff : y <= -0x1p31f ? i32(0x80000000u) : y == y ? i32(y) : 0;
}
KILN_DEVICE i8 from_real(Real x, i8) {
  const i32 y = from_real(x, i32{});
  return i8(y < -128 ? -128 : y > 127 ? 127 : y);
}
KILN_DEVICE u8 from_real(Real x, u8) {
  const i32 y = from_real(x, i32{});
  return u8(y < 0 ? 0 : y > 255 ? 255 : y);
}
KILN_DEVICE Half from_real(Real x, Half) { return Half{bits_as<u16>(_Float16(float(x)))}; }
KILN_DEVICE Bfloat from_real(Real x, Bfloat) {
  const u32 bits = bits_as<u32>(float(x));
  const u32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return Bfloat{u16((bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16) | 0x40 : rounded)};
}

// ---- hip/common/epilogue.h ----
// What happens to an accumulator: alpha, beta·C, then the expression that follows, in Real. Expects
// convert.h, and from the parameters TypeD, Acc and Real.

/// e^x = 2^(x / ln 2). What the product's rounding loses would be multiplied by x: it is put back.
KILN_DEVICE float exponential(float x) {
  if (x < -104.0f) return 0.0f;
  if (x > 89.0f) return __builtin_inff();
  const float high = x * 1.44269502f;
  const float low = __builtin_fmaf(x, 1.44269502f, -high) + x * 1.92596299e-8f;
  return __builtin_exp2f(high) * (1.0f + low * 0.693147182f);
}
/// e^x = 2^n · e^rest with |rest| ≤ ln 2 / 2, where thirteen terms of the series are enough.
KILN_DEVICE double exponential(double x) {
  if (!(x > -745.2)) return x != x ? x : 0.0;
  if (x > 709.8) return __builtin_inf();
  const double n = __builtin_rint(x * 1.4426950408889634);
  // ln 2 in two parts, the first short enough that its product with n is exact.
  const double rest = (x - n * 0.693147180369123816) - n * 1.90821492927058770e-10;
  double sum = 1;
  KILN_UNROLL for (int i = 13; i >= 1; --i) sum = 1 + sum * rest * (1.0 / i);
  // In two steps, so that what lies below the normal range is rounded and not lost.
  const int half = int(n) / 2, other = int(n) - half;
  return sum * bits_as<double>(u64(half + 1023) << 52) * bits_as<double>(u64(other + 1023) << 52);
}

KILN_DEVICE Real silu(Real x) { return x / (Real(1) + exponential(-x)); }

KILN_DEVICE float fused(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
KILN_DEVICE double fused(double x, double y, double z) { return __builtin_fma(x, y, z); }

/// Where results go. Pointers are those of one batch.
struct Output {
  TypeD* d;
  const TypeD* c;  // null when beta == 0: C is then never read
  i64 ldd, ldc;
  i64 rows, columns;
  Real alpha, beta;
  const float* x0;
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
  out.x0 = static_cast<const float*>(args.bias);
  return out;
}

/// What the expression reads, and what it stores beside D.
struct Extras {
  Real x0;
};
/// The expression's value for an element that exists; stores what it stores beside D.
KILN_DEVICE Real expressed(const Output& out, Real v,
                           i64 row, i64 column) {
#pragma clang fp contract(off)
  using Value = Real;
  Extras x;
  x.x0 = to_real(out.x0[row]);
  const Value acc = v;
  v = silu(acc + x.x0);
  return v;
}

/// What is stored at an element that exists.
KILN_DEVICE TypeD finish(const Output& out, Acc sum, i64 row, i64 column) {
  // Every product is rounded by itself: which of them a compiler fuses with an addition differs
  // from kernel to kernel, and the bits of an element must not.
#pragma clang fp contract(off)
  Real x = out.alpha * Real(sum);
  if (out.c) x += out.beta * to_real(out.c[row * out.ldc + column]);
  x = expressed(out, x, row, column);
  return from_real(x, TypeD{});
}
/// Stores an element that exists.
KILN_DEVICE void finish_and_store(const Output& out, Acc sum, i64 row, i64 column) {
  out.d[row * out.ldd + column] = finish(out, sum, row, column);
}

// ---- hip/simt/simt.hip ----
// Tiles of D by ordinary arithmetic, for every type and layout: the fallback, and the path of
// targets without matrix instructions. Elements become Acc on their way into shared memory, which
// holds both tiles as [k][row]. Expects abi.h, types.h, device.h, convert.h, epilogue.h.

constexpr int kThreadsN = kTileN / kEachN, kThreads = kTileM / kEachM * kThreadsN;
constexpr int kPitchM = kTileM + kPad, kPitchN = kTileN + kPad;  // elements

KILN_SHARED Acc shared_a[kTileK * kPitchM];
KILN_SHARED Acc shared_b[kTileK * kPitchN];

/// Rows × kTileK elements that may or may not exist; those that do not are zero.
template <bool AlongRows, int Rows, int Pitch, typename T>
struct Tile {
  static constexpr int kCount = Rows * kTileK / kThreads;
  static_assert(Rows * kTileK % kThreads == 0, "threads share a tile evenly");
  Acc value[kCount];

  static KILN_MEMBER int row_of(int slot) { return AlongRows ? slot / kTileK : slot % Rows; }
  static KILN_MEMBER int k_of(int slot) { return AlongRows ? slot % kTileK : slot / Rows; }

  KILN_MEMBER void load(
      const T* from,
      i64 ld, i64 row, i64 rows, i64 k, i64 ks, int thread) {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const int slot = thread + i * kThreads;
      const i64 r = row + row_of(slot), d = k + k_of(slot);
      value[i] = Acc(0);
      if (r >= rows || d >= ks) continue;
      const T x = AlongRows ? from[r * ld + d] : from[d * ld + r];
      value[i] = Acc(x);
    }
  }
  KILN_MEMBER void store(Acc* to, int thread) const {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const int slot = thread + i * kThreads;
      to[k_of(slot) * Pitch + row_of(slot)] = value[i];
    }
  }
};

KILN_DEVICE void multiply(Acc (&sums)[kEachM][kEachN], int row, int column) {
  KILN_UNROLL for (int k = 0; k < kTileK; ++k) {
    Acc a[kEachM], b[kEachN];
    KILN_UNROLL for (int i = 0; i < kEachM; ++i) a[i] = shared_a[k * kPitchM + row + i];
    KILN_UNROLL for (int j = 0; j < kEachN; ++j) b[j] = shared_b[k * kPitchN + column + j];
    KILN_UNROLL for (int i = 0; i < kEachM; ++i) KILN_UNROLL for (int j = 0; j < kEachN; ++j)
        sums[i][j] += a[i] * b[j];
  }
}

KILN_KERNEL(kThreads, 1) kiln_gemm(KilnGpuArgs args) {
  const int thread = int(thread_index());
  const i64 tiles_m = ceil_div(args.m, kTileM), tiles_n = ceil_div(args.n, kTileN);
  const i64 block = block_index(), batch = block / (tiles_m * tiles_n);
  const i64 in_batch = block % (tiles_m * tiles_n);
  const i64 row = in_batch % tiles_m * kTileM, column = in_batch / tiles_m * kTileN;
  const TypeA* a = static_cast<const TypeA*>(args.a) + batch * args.stride_a;
  const TypeB* b = static_cast<const TypeB*>(args.b) + batch * args.stride_b;
  Tile<kAlongA, kTileM, kPitchM, TypeA> tile_a;
  Tile<kAlongB, kTileN, kPitchN, TypeB> tile_b;
  const int my_row = thread / kThreadsN * kEachM, my_column = thread % kThreadsN * kEachN;
  Acc sums[kEachM][kEachN] = {};
  tile_a.load(a, args.lda, row, args.m, 0, args.k, thread);
  tile_b.load(b, args.ldb, column, args.n, 0, args.k, thread);
  for (i64 k = 0; k < args.k; k += kTileK) {
    tile_a.store(shared_a, thread);
    tile_b.store(shared_b, thread);
    block_barrier();
    if (k + kTileK < args.k) {
      tile_a.load(a, args.lda, row, args.m, k + kTileK, args.k, thread);
      tile_b.load(b, args.ldb, column, args.n, k + kTileK, args.k, thread);
    }
    multiply(sums, my_row, my_column);
    block_barrier();
  }
  const Output out = output_of(args, batch);
  KILN_UNROLL for (int i = 0; i < kEachM; ++i) KILN_UNROLL for (int j = 0; j < kEachN; ++j) {
    const i64 r = row + my_row + i, c = column + my_column + j;
    if (r < out.rows && c < out.columns) finish_and_store(out, sums[i][j], r, c);
  }
}
