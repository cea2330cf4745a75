// Written by kiln 0.3.0.
// device:  sm_90a
// problem: fp32 N N 16 16 16 batch=10000 align=16
// config:  cuda_small products=4 lanes_m=4 lanes_n=4 depth=4 matrix=0 copy=async width=16 stages=2 store=direct turns=0 resident=6
// compile: nvcc -cubin --gpu-architecture=sm_90a --std=c++17 -o kernel.cubin kiln_cuda_small_a28a3fe328ba7951.cu

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

// ---- cuda/common/types.h ----
// Names of the element types and the mark of device functions. No headers are used anywhere, so
// that a generated source is self-contained.

#define KILN_DEVICE static __device__ __forceinline__
// A kernel takes what it needs of the shared parts; the rest is no mistake.
#pragma nv_diag_suppress 177

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

/// Storage of the small formats; arithmetic is never done on them directly.
struct Half {
  u16 bits;
};
struct Bfloat {
  u16 bits;
};
struct Float8E4 {
  u8 bits;
};
struct Float8E5 {
  u8 bits;
};

static __device__ constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

// ---- parameters ----
using TypeA = float;              // elements of A
using TypeB = float;              // elements of B
using TypeD = float;              // elements of C and D
using Acc = float;                // accumulators
using Real = float;               // what the epilogue computes in
constexpr int kM = 16;            // rows of D
constexpr int kN = 16;            // columns of D
constexpr int kK = 16;            // columns of op(A)
constexpr int kProducts = 4;      // of a block at once
constexpr int kLanesM = 4;        // lanes of a product along its rows
constexpr int kLanesN = 4;        // lanes of it along its columns
constexpr int kThreadM = 4;       // rows of a lane's accumulators
constexpr int kThreadN = 4;       // columns of them
constexpr int kRunM = 1;          // rows that a lane has side by side
constexpr int kRunN = 4;          // columns that it has side by side
constexpr int kDepth = 4;         // steps of k whose factors are read together
constexpr int kUnroll = 4;        // times that the loop's body holds them
constexpr int kThreads = 64;      // of a block
constexpr int kResident = 6;      // blocks of a unit at once
constexpr int kWidth = 16;        // bytes of A and B copied at once
constexpr int kStages = 2;        // groups of products in shared memory
constexpr bool kAlongKA = true;   // neighbours run along k
constexpr bool kDenseA = true;    // lines and products are adjacent in memory
constexpr bool kFlatA = false;    // a block's products are copied as one run
constexpr int kPitchA = 16;       // elements between lines in shared memory
constexpr int kApartA = 256;      // elements between products there
constexpr bool kAlongKB = false;  // neighbours run along k
constexpr bool kDenseB = true;    // lines and products are adjacent in memory
constexpr bool kFlatB = false;    // a block's products are copied as one run
constexpr int kPitchB = 16;       // elements between lines in shared memory
constexpr int kApartB = 256;      // elements between products there
constexpr int kStoreWidth = 4;    // elements of D that a lane stores at once
constexpr int kVectorA = 4;       // elements of A read from shared memory at once
constexpr int kVectorB = 4;       // elements of B read from it at once

// ---- cuda/common/convert_ptx.h ----
// Conversions of one instruction, on the bits of small floats. Rounding is to nearest even. Of two
// values in a register the first is in the low half. Expects types.h.

KILN_DEVICE float half_to_float(u16 bits) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(bits));
  return y;
}
KILN_DEVICE u16 float_to_half(float x) {
  u16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
KILN_DEVICE u32 floats_to_halves(float low, float high) {
  u32 y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
/// Saturates; NaN becomes 0.
KILN_DEVICE i32 float_to_int(float x) {
  i32 y;
  asm("cvt.rni.s32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}
KILN_DEVICE u16 float_to_bfloat(float x) {
  u16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
KILN_DEVICE u32 floats_to_bfloats(float low, float high) {
  u32 y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

// ---- cuda/common/convert.h ----
// Between stored elements and the type that sums are finished in (Real). Rounding is to nearest
// even; integers saturate. Expects convert_ptx.h and the parameters.

KILN_DEVICE float bits_to_float(u32 bits) { return __int_as_float(int(bits)); }
KILN_DEVICE u32 float_to_bits(float x) { return u32(__float_as_int(x)); }

KILN_DEVICE Real to_real(float x, float) { return Real(x); }
KILN_DEVICE Real to_real(double x, double) { return Real(x); }
KILN_DEVICE Real to_real(i8 x, i8) { return Real(x); }
KILN_DEVICE Real to_real(u8 x, u8) { return Real(x); }
KILN_DEVICE Real to_real(i32 x, i32) { return Real(x); }
KILN_DEVICE Real to_real(Bfloat x, Bfloat) { return Real(bits_to_float(u32(x.bits) << 16)); }
KILN_DEVICE Real to_real(Half x, Half) { return Real(half_to_float(x.bits)); }
template <typename T>
KILN_DEVICE Real to_real(T x) {
  return to_real(x, T{});
}

KILN_DEVICE float from_real(Real x, float) { return float(x); }
KILN_DEVICE double from_real(Real x, double) { return double(x); }
KILN_DEVICE i32 from_real(Real x, i32) { return float_to_int(float(x)); }
KILN_DEVICE i8 from_real(Real x, i8) {
  const i32 y = from_real(x, i32{});
  return i8(y < -128 ? -128 : y > 127 ? 127 : y);
}
KILN_DEVICE u8 from_real(Real x, u8) {
  const i32 y = from_real(x, i32{});
  return u8(y < 0 ? 0 : y > 255 ? 255 : y);
}
KILN_DEVICE Half from_real(Real x, Half) { return Half{float_to_half(float(x))}; }
KILN_DEVICE Bfloat from_real(Real x, Bfloat) {
  return Bfloat{float_to_bfloat(float(x))};
}

/// Two neighbours in one register, the first in the low half.
KILN_DEVICE u32 pack_two(Real low, Real high, Half) {
  return floats_to_halves(float(low), float(high));
}
KILN_DEVICE u32 pack_two(Real low, Real high, Bfloat) {
  return floats_to_bfloats(float(low), float(high));
}

// ---- cuda/common/epilogue.h ----
// What happens to a sum: alpha, beta·C, then the expression that follows, in Real. Expects
// convert.h, and from the parameters TypeD, Acc and Real.

/// Rounded before anything is added: whether a compiler would fuse alpha · sum with the bias behind
/// it differs from kernel to kernel, and the bits of an element must not. The product beta · C
/// behind it is left to the compiler, which always fuses it: there is one way only.
KILN_DEVICE float product(float x, float y) { return __fmul_rn(x, y); }
KILN_DEVICE double product(double x, double y) { return __dmul_rn(x, y); }

/// Where results go. Pointers are those of one batch.
struct Output {
  TypeD* d;
  const TypeD* c;  // null when beta == 0: C is then never read
  // Nothing reads these two: stored kernels, which are known by their tokens, have them.
  const TypeD* residual;
  const Real* bias;
  i64 ldd, ldc;
  i64 rows, columns;
  Real alpha, beta;
};

KILN_DEVICE Output output_of(const KilnGpuArgs& args, i64 batch) {
  Output out;
  out.d = static_cast<TypeD*>(args.d) + batch * args.stride_d;
  out.c = args.beta != 0 ? static_cast<const TypeD*>(args.c) + batch * args.stride_c : nullptr;
  out.residual = static_cast<const TypeD*>(args.residual) + batch * args.stride_d;
  out.bias = static_cast<const Real*>(args.bias);
  out.ldd = args.ldd;
  out.ldc = args.ldc;
  out.rows = args.m;
  out.columns = args.n;
  out.alpha = Real(args.alpha);
  out.beta = Real(args.beta);
  return out;
}

KILN_DEVICE Real finish(const Output& out, Real x, i64 row, i64 column) { return x; }

// ---- cuda/common/ampere_ptx.h ----
// The instructions since Turing and Ampere that kernels are built on, one small named wrapper each:
// copies to shared memory that the copying warp does not wait for, loads of matrices. Addresses are
// 32-bit ones of shared memory.

KILN_DEVICE u32 shared_address(const void* p) { return u32(__cvta_generic_to_shared(p)); }
/// The compiler forgets what it knows of x, so that what follows from it is worked out here and not
/// kept from where it was worked out before.
KILN_DEVICE void forget(int& x) { asm volatile("" : "+r"(x)); }

/// 16 bytes: the first `valid` from memory, zeros behind them.
KILN_DEVICE void cp_async_16(u32 to, const void* from, int valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(valid)
               : "memory");
}
KILN_DEVICE void cp_async_8(u32 to, const void* from, int valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}
KILN_DEVICE void cp_async_4(u32 to, const void* from, int valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}
KILN_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Until at most `Pending` of this thread's groups of copies are on their way.
template <int Pending>
KILN_DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

/// Four 8×8 matrices of 16-bit elements; lanes 8i to 8i+7 give the rows of matrix i.
KILN_DEVICE void ldmatrix_x4(u32 (&r)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
/// The same, each matrix transposed.
KILN_DEVICE void ldmatrix_x4_trans(u32 (&r)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
KILN_DEVICE void load_shared_words(u32 (&r)[4], u32 from) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
KILN_DEVICE void load_shared_one(u32& r, u32 from) {
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(r) : "r"(from) : "memory");
}
KILN_DEVICE void load_shared_two(u32 (&r)[2], u32 from) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(from) : "memory");
}
KILN_DEVICE void store_shared_words(u32 to, const u32 (&r)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(r[0]), "r"(r[1]),
               "r"(r[2]), "r"(r[3])
               : "memory");
}

// ---- cuda/common/grid_ptx.h ----
// Grids that overlap with the one before and the one behind, since Hopper.

/// Waits until the grid that this one was launched behind has finished and its memory is visible.
KILN_DEVICE void wait_for_previous_grid() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/// Lets the grid behind this one start before this one ends.
KILN_DEVICE void let_next_grid_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// ---- cuda/small/copy.h ----
// Operands of a block's products on their way from memory to shared memory, where they keep the
// type and the order that they have in memory. Expects types.h, ampere_ptx.h, and from the
// parameters the shape.

/// Elements that are read or written at once.
template <typename T, int Count>
struct alignas(Count * sizeof(T)) Some {
  T x[Count];
};

/// One operand. `Flat`: the products of a block are one run in memory and in shared memory.
/// Otherwise each line is copied by itself, to lines `Pitch` elements apart and products `Apart`
/// elements apart. `Dense`: lines and products are adjacent in memory.
template <typename T, bool AlongK, int Rows, bool Flat, bool Dense, int Pitch, int Apart>
struct Operand {
  static constexpr int kRun = AlongK ? kK : Rows, kLines = AlongK ? Rows : kK;
  static constexpr int kEach = kWidth / int(sizeof(T));  // elements of a copy
  static constexpr int kCopiesOfLine =
      Flat ? kProducts * kRun * kLines / kEach : (kRun + kEach - 1) / kEach;
  static constexpr int kCopies = Flat ? kCopiesOfLine : kCopiesOfLine * kLines * kProducts;
  static constexpr int kOfThread = (kCopies + kThreads - 1) / kThreads;
  static constexpr bool kWhole = Flat || kRun % kEach == 0;  // every copy is of kEach elements
  /// Of a stage, with what alignment leaves behind it.
  static constexpr int kBytes = (kProducts * Apart * int(sizeof(T)) + 15) / 16 * 16;

  /// One copy: where its elements are in memory and in shared memory, and how many exist.
  struct Copy {
    i64 from;
    int to, count;
  };
  /// Only the first `products` exist.
  static __device__ __forceinline__ Copy copy_at(int number, i64 ld, i64 stride, int products) {
    if constexpr (Flat) {
      const int at = number * kEach, end = products * kRun * kLines;
      return {at, at, max(0, min(kEach, end - at))};
    } else {
      const int line = number / kCopiesOfLine, x = (number - line * kCopiesOfLine) * kEach;
      const int product = line / kLines, own = line - product * kLines;
      const i64 from = Dense && kWhole ? i64(number) * kEach : product * stride + own * ld + x;
      const int count = kWhole ? kEach : min(kEach, kRun - x);
      return {from, product * Apart + own * Pitch + x, product < products ? count : 0};
    }
  }

  /// Sends the products from `from` on to shared memory at `to`.
  static __device__ __forceinline__ void send(u32 to, const T* from, i64 ld, i64 stride,
                                              int products, int thread) {
    _Pragma("unroll 8") for (int i = 0; i < kOfThread; ++i) {
      const int number = i * kThreads + thread;
      if (kCopies % kThreads != 0 && number >= kCopies) break;
      const Copy copy = copy_at(number, ld, stride, products);
      const u32 place = to + u32(copy.to * int(sizeof(T)));
      const int bytes = copy.count * int(sizeof(T));
      if constexpr (kWidth == 4) cp_async_4(place, from + copy.from, bytes);
      if constexpr (kWidth == 8) cp_async_8(place, from + copy.from, bytes);
      if constexpr (kWidth == 16) cp_async_16(place, from + copy.from, bytes);
    }
  }
};

using OperandA = Operand<TypeA, kAlongKA, kM, kFlatA, kDenseA, kPitchA, kApartA>;
using OperandB = Operand<TypeB, kAlongKB, kN, kFlatB, kDenseB, kPitchB, kApartB>;
constexpr int kStageBytes = OperandA::kBytes + OperandB::kBytes;

// ---- cuda/small/factors.h ----
// Ordinary multiply-adds: each lane has a register tile of one product. Expects convert.h, copy.h.

KILN_DEVICE Acc widened(float x) { return Acc(x); }
KILN_DEVICE Acc widened(double x) { return Acc(x); }
template <typename T>
KILN_DEVICE Acc widened(T x) {
  return Acc(to_real(x));
}

/// A lane's rows of A, or columns of B: runs of `Run` neighbours, between which the other lanes'
/// lie. `Vector` elements along k are read at once.
template <typename T, bool AlongK, int Rows, int Lanes, int Run, int Count, int Pitch, int Vector>
struct Factors {
  static constexpr int kRuns = Count / Run, kStep = AlongK ? Pitch : 1;
  const T *own, *last;  // of the first run and of the last, which not every lane has

  __device__ __forceinline__ void start(const T* product, int lane) {
    own = product + lane * Run * kStep;
    last = product + min(lane + (kRuns - 1) * Lanes, Rows / Run - 1) * Run * kStep;
  }

  /// to[step of k][row].
  template <int Depth>
  __device__ __forceinline__ void read(Acc (&to)[Depth][Count], int k) const {
    _Pragma("unroll") for (int r = 0; r < kRuns; ++r) {
      const T* const run = r + 1 < kRuns ? own + r * Lanes * Run * kStep : last;
      if constexpr (AlongK) {
        constexpr int kTogether = Depth % Vector == 0 ? Vector : 1;
        _Pragma("unroll") for (int e = 0; e < Run; ++e)
          _Pragma("unroll") for (int d = 0; d < Depth; d += kTogether) {
            const auto some = *reinterpret_cast<const Some<T, kTogether>*>(run + e * Pitch + k + d);
            _Pragma("unroll") for (int x = 0; x < kTogether; ++x)
              to[d + x][r * Run + e] = widened(some.x[x]);
          }
      } else {
        _Pragma("unroll") for (int d = 0; d < Depth; ++d) {
          const auto some = *reinterpret_cast<const Some<T, Run>*>(run + (k + d) * Pitch);
          _Pragma("unroll") for (int e = 0; e < Run; ++e) to[d][r * Run + e] = widened(some.x[e]);
        }
      }
    }
  }
};

using FactorsA = Factors<TypeA, kAlongKA, kM, kLanesM, kRunM, kThreadM, kPitchA, kVectorA>;
using FactorsB = Factors<TypeB, kAlongKB, kN, kLanesN, kRunN, kThreadN, kPitchB, kVectorB>;

/// `Depth` steps of k, one after the other.
template <int Depth>
KILN_DEVICE void multiply_steps(Acc (&sums)[kThreadM][kThreadN], const FactorsA& a,
                                const FactorsB& b, int k) {
  Acc left[Depth][kThreadM], right[Depth][kThreadN];
  a.read<Depth>(left, k);
  b.read<Depth>(right, k);
  _Pragma("unroll") for (int d = 0; d < Depth; ++d)
    _Pragma("unroll") for (int i = 0; i < kThreadM; ++i)
      _Pragma("unroll") for (int j = 0; j < kThreadN; ++j) sums[i][j] += left[d][i] * right[d][j];
}

KILN_DEVICE void sum_products(Acc (&sums)[kThreadM][kThreadN], const TypeA* a, const TypeB* b,
                              int lane_m, int lane_n) {
  FactorsA left;
  FactorsB right;
  left.start(a, lane_m);
  right.start(b, lane_n);
  _Pragma("unroll kUnroll") for (int k = 0; k + kDepth <= kK; k += kDepth)
      multiply_steps<kDepth>(sums, left, right, k);
  if constexpr (kK % kDepth != 0)
    multiply_steps<kK % kDepth>(sums, left, right, kK / kDepth * kDepth);
}

// ---- cuda/small/store.h ----
// Accumulators become elements of D: each lane stores its own, or leaves them in shared memory,
// from where a block finishes those of all its products in the order of D. Expects copy.h,
// epilogue.h.

/// The row, or column, of a lane's `i`-th one: runs of `run`, between which other lanes' lie.
KILN_DEVICE int place_of(int lane, int i, int lanes, int run) {
  return (lane + i / run * lanes) * run + i % run;
}

/// What follows alpha and C.
KILN_DEVICE TypeD finished(const Output& out, Real x, int row, int column) {
  x = finish(out, x, row, column);
  return from_real(x, TypeD{});
}

/// Applies alpha and adds beta · C. Whether C is read is asked once.
KILN_DEVICE void scale_sums(Acc (&sums)[kThreadM][kThreadN], const Output& out, int lane_m,
                            int lane_n) {
  _Pragma("unroll") for (int i = 0; i < kThreadM; ++i)
    _Pragma("unroll") for (int j = 0; j < kThreadN; ++j)
      sums[i][j] = product(Real(sums[i][j]), out.alpha);
  if (!out.c) return;
  _Pragma("unroll") for (int i = 0; i < kThreadM; ++i)
    _Pragma("unroll") for (int j = 0; j < kThreadN; ++j) {
      const int row = place_of(lane_m, i, kLanesM, kRunM);
      const int column = place_of(lane_n, j, kLanesN, kRunN);
      if (row < kM && column < kN) sums[i][j] += out.beta * to_real(out.c[row * out.ldc + column]);
    }
}

/// Finishes a lane's elements of D.
KILN_DEVICE void store_sums(Acc (&sums)[kThreadM][kThreadN], const Output& out, int lane_m,
                            int lane_n) {
  scale_sums(sums, out, lane_m, lane_n);
  _Pragma("unroll") for (int i = 0; i < kThreadM; ++i) {
    const int row = place_of(lane_m, i, kLanesM, kRunM);
    if (row >= kM) continue;
    _Pragma("unroll") for (int j = 0; j < kThreadN; j += kStoreWidth) {
      const int column = place_of(lane_n, j, kLanesN, kRunN);
      if (column >= kN) continue;
      Some<TypeD, kStoreWidth> some;
      _Pragma("unroll") for (int e = 0; e < kStoreWidth; ++e)
        some.x[e] = finished(out, sums[i][j + e], row, column + e);
      *reinterpret_cast<Some<TypeD, kStoreWidth>*>(out.d + row * out.ldd + column) = some;
    }
  }
}

// ---- cuda/small/small.cu ----
// Batches of small products. A block has kProducts of them at once in shared memory, kLanesM ×
// kLanesN lanes for each; the next ones are on their way meanwhile. All sizes are constants.
// Expects copy.h, factors.h or matrix.h, store.h and, where grids overlap, grid_ptx.h.

/// Starts to bring a group of products to a stage.
KILN_DEVICE void fetch(const KilnGpuArgs& args, i64 group, unsigned char* stage, int thread) {
  const i64 first = group * kProducts;
  const int products = int(min(args.batch - first, i64(kProducts)));
  const auto* a = static_cast<const TypeA*>(args.a) + first * args.stride_a;
  const auto* b = static_cast<const TypeB*>(args.b) + first * args.stride_b;
  const u32 to = shared_address(stage);
  OperandA::send(to, a, args.lda, args.stride_a, products, thread);
  OperandB::send(to + u32(OperandA::kBytes), b, args.ldb, args.stride_b, products, thread);
}

/// One lane's part of its product, of which `left` are the accumulators in shared memory.
KILN_DEVICE void compute(const KilnGpuArgs& args, i64 group, const unsigned char* stage, Acc* left,
                         int thread) {
  constexpr int kLanes = kLanesM * kLanesN;
  const int team = thread / kLanes, lane = thread - team * kLanes;
  const int lane_m = lane / kLanesN, lane_n = lane - lane_m * kLanesN;
  const i64 product = group * kProducts + team;
  if (team >= kProducts || product >= args.batch) return;
  const auto* a = reinterpret_cast<const TypeA*>(stage) + team * kApartA;
  const auto* b = reinterpret_cast<const TypeB*>(stage + OperandA::kBytes) + team * kApartB;
  Acc sums[kThreadM][kThreadN] = {};
  sum_products(sums, a, b, lane_m, lane_n);
  store_sums(sums, output_of(args, product), lane_m, lane_n);
}

extern "C" __global__ void __launch_bounds__(kThreads, kResident)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int thread = int(threadIdx.x);
  const i64 groups = ceil_div(args.batch, kProducts), apart = i64(gridDim.x);
  Acc* left = reinterpret_cast<Acc*>(shared + kStages * kStageBytes);
  wait_for_previous_grid();
  let_next_grid_start();
  int stage = 0;
  // The first turns only fill stages; the group that is multiplied is kStages - 1 turns behind.
  i64 group = i64(blockIdx.x) - (kStages - 1) * apart;
  _Pragma("unroll 1") for (; group < groups; group += apart) {
    if (group >= 0) {
      // What this thread copied is there, then what all did; the stage to fill has been read.
      cp_async_wait<kStages - 2>();
      __syncthreads();
    }
    const i64 next = group + (kStages - 1) * apart;
    if (next < groups) fetch(args, next, shared + stage * kStageBytes, thread);
    cp_async_commit();
    stage = stage + 1 == kStages ? 0 : stage + 1;  // the one filled kStages - 1 turns ago
    if (group < 0) continue;
    compute(args, group, shared + stage * kStageBytes, left, thread);
  }
}
