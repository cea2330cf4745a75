// Written by kiln 0.3.0.
// device:  sm_80
// problem: bf16 N T 4096 4096 4096 align=16
// config:  cuda_mma block_m=128 block_n=128 block_k=64 warps_m=2 warps_n=4 stages=3 instruction_k=16 bits_a=3 base_a=4 shift_a=0 bits_b=3 base_b=4 shift_b=0 ahead=0 group=8 splits=1
// compile: nvcc -cubin --gpu-architecture=sm_80 --std=c++17 -o kernel.cubin kiln_cuda_mma_4c19713a0df46d83.cu

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
using TypeA = Bfloat;            // elements of A
using TypeB = Bfloat;            // elements of B
using TypeD = Bfloat;            // elements of C and D
using Acc = float;               // accumulators
using Real = float;              // what the epilogue computes in
using Fragment = u32;            // a register of an operand
constexpr int kBlockM = 128;     // rows of D in a block's tile
constexpr int kBlockN = 128;     // columns of D in it
constexpr int kBlockK = 64;      // k of one stage
constexpr int kWarpsM = 2;       // warps that share the tile's rows
constexpr int kThreads = 256;    // of a block
constexpr int kBlocks = 1;       // that are to fit one SM
constexpr int kTilesM = 4;       // 16 rows each, of a warp
constexpr int kTilesN = 4;       // 8 columns each, of a warp
constexpr int kChunks = 1;       // parts of a step, each with 4 registers of 16 rows of A
constexpr int kStepK = 16;       // k of one step
constexpr int kMmaSums = 4;      // registers of sums of the matrix instruction
constexpr int kMmaA = 4;         // registers of A
constexpr int kMmaB = 2;         // registers of B
constexpr int kStages = 3;       // of the ring
constexpr int kUnit = 16;        // bytes of one copy to shared memory
constexpr int kBitsA = 3;        // of a byte's place in a line of A's tile that are exchanged
constexpr int kBaseA = 4;        // the first of them
constexpr int kShiftA = 0;       // with bits of the line's number from here on
constexpr int kBitsB = 3;        // the same for B
constexpr int kBaseB = 4;        // 
constexpr int kShiftB = 0;       // 
constexpr int kStoreWidth = 8;   // elements of D stored at once
constexpr int kGroup = 8;        // rows of tiles in a band of the rasterization
constexpr bool kAlongKA = true;  // A's neighbours run along k
constexpr bool kAlongKB = true;  // B's neighbours run along k
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), \
  "r"((b)[0]), "r"((b)[1])

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

// ---- cuda/common/banks.h ----
// Where elements of a tile lie in shared memory and which of them a lane reads, so that a warp's
// accesses meet different banks. Lines run in the direction that the operand has in memory; within
// a line some bits of a byte's place are exchanged by the number of the line. Plain functions of
// numbers: the generator counts the conflicts of these very lines and offers what has none.

/// The byte of a line where byte `byte` lies: `bits` bits from bit `base` on are exchanged by those
/// of the line's number from bit `shift` on.
KILN_DEVICE constexpr int exchanged_byte(int line, int byte, int bits, int base, int shift) {
  return byte ^ (((line >> shift) & ((1 << bits) - 1)) << base);
}

/// The place of a line among the tile's. Matrix loads bring pairs of 8-bit elements that lie across
/// k, and of two loads every second pair makes a register: lines are dealt so that its k are in
/// order.
KILN_DEVICE constexpr int place_of_line(int line, int size, bool along_k) {
  return size == 1 && !along_k
             ? (line & ~15) | (line >> 1 & 1) << 3 | (line >> 2 & 3) << 1 | (line & 1)
             : line;
}

/// Neighbouring rows that one lane reads at once, and so spread over as many groups of 8 rows. Of
/// wide elements only A's: those of two rows go to neighbouring registers of A, not of B.
KILN_DEVICE constexpr int near_rows(int size, bool along_k, bool is_a) {
  if (along_k || size == 2) return 1;
  return size == 1 || is_a ? 2 : 1;
}

/// Bytes of one lane's read; matrix loads take a row of 16 from each.
KILN_DEVICE constexpr int read_bytes(int size, bool along_k, bool is_a) {
  if (size == 8 && along_k) return 8;
  return along_k || size <= 2 ? 16 : size * near_rows(size, along_k, is_a);
}

/// The row of slot `slot` (0 to 7) in group `group` of a warp's tile.
KILN_DEVICE constexpr int row_in_tile(int group, int slot, int near) {
  return group / near * 8 * near + slot * near + group % near;
}

struct LanePlace {
  int line, byte;
};

/// What a lane's first access to a warp's tile reads, from the tile's first row and k on; others
/// add whole lines and bytes to it. Matrix loads: one row of matrix lane / 8. Matrices come in the
/// order of the instruction's registers: of A, down 8 rows first, then along k; of B the other
/// way.
KILN_DEVICE constexpr LanePlace lane_place(int size, bool along_k, bool is_a, int lane) {
  const int matrix = lane / 8, slot = lane / 4, at_k = lane % 4;
  const int down = is_a ? matrix % 2 : matrix / 2, half = is_a ? matrix / 2 : matrix % 2;
  if (size == 8 && along_k) return {slot, at_k * 8};
  if (along_k) return {lane % 8 + down * 8, half * 16};
  if (size >= 4) return {at_k, slot * size * near_rows(size, along_k, is_a)};
  if (size == 2) return {lane % 8 + half * 8, down * 16};
  return {lane, 0};
}

/// Bytes between rows of sums on their way to D: lanes of different rows meet different banks.
KILN_DEVICE constexpr int sums_pitch(int columns, int near, int size) {
  return columns * size + (2 * near * size == 8 ? 32 : 64);
}

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
KILN_DEVICE void store_shared_pair(u32 to, u32 low, u32 high) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(low), "r"(high) : "memory");
}
KILN_DEVICE void store_shared_words(u32 to, const u32 (&r)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(r[0]), "r"(r[1]),
               "r"(r[2]), "r"(r[3])
               : "memory");
}

// ---- cuda/common/mma_ptx.h ----
// The matrix instruction of a warp, of the shape that the parameters chose. The macros KILN_MMA…
// hold what only text can give: the instruction's name and its lists of operands.

/// sums += a · b: 16 rows (8 where a lane holds two sums), 8 columns.
KILN_DEVICE void mma_sync(Acc* sums, const Fragment* a, const Fragment* b) {
  asm(KILN_MMA_NAME " " KILN_MMA_TEXT ";" : KILN_MMA_SUMS(sums) : KILN_MMA_OPERANDS(a, b));
}

// ---- cuda/common/mma.h ----
// The matrix instructions of a warp that make a step. Expects mma_ptx.h.

/// 16 rows by 8 columns over one step of k. Registers of A go down 8 rows first, then along k.
KILN_DEVICE void multiply_step(Acc (&sums)[4], const Fragment (&a)[kChunks * 4],
                               const Fragment (&b)[kChunks * 2]) {
  if constexpr (kMmaSums == 2) {
    _Pragma("unroll") for (int k = 0; k < kChunks * 2; ++k)
      _Pragma("unroll") for (int half = 0; half < 2; ++half)
        mma_sync(sums + half * 2, a + k * 2 + half, b + k);
  } else {
    _Pragma("unroll") for (int k = 0; k < kChunks * 4 / kMmaA; ++k)
      mma_sync(sums, a + k * kMmaA, b + k * kMmaB);
  }
}

// ---- cuda/mma/read.h ----
// From shared memory to the registers of the matrix instruction, for every element size and both
// directions. A warp's rows go in groups of 8; which rows make a group is row_in_tile()'s to say.
// Expects banks.h, ampere_ptx.h.

template <typename T, bool IsA, bool AlongK, int Rows, int Bits, int Base, int Shift>
struct Tile {
  static constexpr int kSize = int(sizeof(T));
  static constexpr int kPitch = (AlongK ? kBlockK : Rows) * kSize;  // bytes of a line
  static constexpr int kLines = AlongK ? Rows : kBlockK;
  static constexpr int kBytes = kPitch * kLines;
  static constexpr int kNear = near_rows(kSize, AlongK, IsA);
  /// Lines after which places repeat, moved by whole lines.
  static constexpr int kPeriod = kSize == 1 && !AlongK ? 16 : 1 << (Bits + Shift);
  static __device__ __forceinline__ u32 place(int line, int byte) {
    const int at = place_of_line(line, kSize, AlongK);
    return u32(at * kPitch + exchanged_byte(at, byte, Bits, Base, Shift));
  }

  /// One lane's way of reading the warp's rows, from `row0` on. All lines that it reads exchange
  /// the same bits.
  template <int Groups>
  struct Reader {
    int line, byte, exchange;

    static __device__ __forceinline__ Reader at(int row0, int lane) {
      const LanePlace first = lane_place(kSize, AlongK, IsA, lane);
      const int line = first.line + (AlongK ? row0 : 0);
      return {line * kPitch, first.byte + (AlongK ? 0 : row0 * kSize),
              exchanged_byte(line, 0, Bits, Base, Shift)};
    }
    __device__ __forceinline__ u32 address(u32 tile, int lines, int bytes) const {
      return tile + u32(line + lines * kPitch + ((byte + bytes) ^ exchange));
    }

    /// part[group][half of k] of chunk `chunk`.
    __device__ __forceinline__ void read(Fragment (&part)[Groups][kChunks * 2], u32 tile,
                                         int step) const {
      _Pragma("unroll") for (int c = 0; c < kChunks; ++c)
        read_chunk(part, tile, step * kChunks + c, c * 2);
    }

    __device__ __forceinline__ void read_chunk(Fragment (&part)[Groups][kChunks * 2], u32 tile,
                                               int chunk, int to) const {
      if constexpr (kSize == 8 && AlongK) {
        _Pragma("unroll") for (int g = 0; g < Groups; ++g)
          _Pragma("unroll") for (int half = 0; half < 2; ++half)
            load_shared_one(part[g][to + half], address(tile, g * 8, chunk * 64 + half * 32));
      } else if constexpr (kSize >= 4 && !AlongK) {
        _Pragma("unroll") for (int half = 0; half < 2; ++half)
          _Pragma("unroll") for (int g = 0; g < Groups; g += kNear) {
            const u32 from = address(tile, chunk * 8 + half * 4, g * 8 * kSize);
            if constexpr (kNear == 2) {
              Fragment two[2];  // neighbouring rows
              load_shared_two(two, from);
              part[g][to + half] = two[0];
              part[g + 1][to + half] = two[1];
            } else {
              load_shared_one(part[g][to + half], from);
            }
          }
      }
      else {
        _Pragma("unroll") for (int g = 0; g < Groups; g += 2) {
          u32 r[4];
          if constexpr (AlongK)
            ldmatrix_x4(r, address(tile, g * 8, chunk * 32));
          else
            ldmatrix_x4_trans(r, address(tile, chunk * (32 / kSize), g * 8 * kSize));
          if constexpr (kSize == 1 && !AlongK) {
            // Registers hold two rows at two k: a row's bytes are every second one of two of them.
            _Pragma("unroll") for (int half = 0; half < 2; ++half) {
              part[g][to + half] = __byte_perm(r[half * 2], r[half * 2 + 1], 0x6420);
              part[g + 1][to + half] = __byte_perm(r[half * 2], r[half * 2 + 1], 0x7531);
            }
          } else {
            _Pragma("unroll") for (int i = 0; i < 4; ++i)
              part[g + (IsA ? i % 2 : i / 2)][to + (IsA ? i / 2 : i % 2)] = r[i];
          }
        }
      }
    }
  };
};

using TileA = Tile<TypeA, true, kAlongKA, kBlockM, kBitsA, kBaseA, kShiftA>;
using TileB = Tile<TypeB, false, kAlongKB, kBlockN, kBitsB, kBaseB, kShiftB>;

// ---- cuda/common/tile_scheduler.h ----
// The tile scheduler: which tile a block computes next, and which part of its k. D's tiles form a
// grid: `left` counts tiles along the rows of the left operand, `right` along those of the right
// one (A and B, or B and A where D is computed transposed). k is counted in pipeline stages. Blocks
// of a cluster get neighbouring tiles and the same k; without clusters each block is a cluster of
// its own.

struct Work {
  int left, right;  // tile coordinates of this block
  int batch;
  int begin, count;  // stages of k
};

struct TileScheduler {
  int lefts, rights;  // tiles of a cluster along either side
  int stages;         // of k
  int tiles;          // of all batches
  int next;
  int clusters;
  u32 rank;  // of the block in its cluster

  /// The counts are of clusters' tiles, and 32-bit on purpose: divisions of 64-bit numbers took
  /// 1 us before the first copy (H200).
  static __device__ __forceinline__ TileScheduler start(int lefts, int rights, int stages,
                                                        int batches, u32 rank) {
    TileScheduler s;
    s.rank = rank;
    s.lefts = lefts;
    s.rights = rights;
    s.stages = stages;
    s.tiles = lefts * rights * batches;
    s.clusters = int(gridDim.x);
    s.next = int(blockIdx.x);
    return s;
  }

  /// Rasterization in bands of kGroup tiles along one side, so that L2 serves what they share.
  __device__ __forceinline__ void place(Work& work, int tile) const {
    work.batch = 0;
    const int at = tile;
    const int band = at / (kGroup * rights), in_band = at - band * kGroup * rights;
    const int height = min(lefts - band * kGroup, kGroup);
    const int across = in_band / height;
    work.left = band * kGroup + in_band - across * height;
    work.right = across;
  }

  /// The block's next work; false when there is none.
  __device__ __forceinline__ bool take(Work& work) {
    if (next >= tiles) return false;
    const int tile = next;
    work.begin = 0;
    work.count = stages;
    next += clusters;
    place(work, tile);
    return true;
  }
};

// ---- cuda/mma/copy.h ----
// From memory to shared memory: every thread's share of one operand's tile, kWidth bytes at a time,
// which the operand's alignment decides. What lies outside the operand becomes zeros. Expects
// read.h.

template <typename T, typename Tile, bool AlongK, int Rows>
struct Copier {
  static constexpr int kSize = int(sizeof(T));
  static constexpr int kUnits = Tile::kPitch / kUnit;  // of a line
  static constexpr int kLinesAtOnce = kThreads / kUnits;
  static constexpr int kCopies = (Tile::kLines + kLinesAtOnce - 1) / kLinesAtOnce;
  static constexpr bool kEven = Tile::kLines % kLinesAtOnce == 0;
  static_assert(kThreads % kUnits == 0, "threads share a line evenly");

  const unsigned char* from;  // this thread's first unit of the next tile
  i64 step, tile_step;        // bytes between its lines, between tiles
  int lines, bytes;           // from the first unit on to the operand's end
  int line, byte;             // of the first unit in the tile

  static __device__ __forceinline__ Copier at(const void* operand, i64 batch_stride, i64 batch,
                                              i64 ld, i64 row0, i64 rows, i64 k0, i64 k,
                                              int thread) {
    Copier c;
    c.line = thread / kUnits;
    c.byte = thread % kUnits * kUnit;
    const i64 first_line = (AlongK ? row0 : k0) + c.line, first = AlongK ? k0 : row0;
    c.from = static_cast<const unsigned char*>(operand) +
             (batch * batch_stride + first_line * ld + first) * kSize + c.byte;
    c.step = ld * kLinesAtOnce * kSize;
    c.tile_step = (AlongK ? 1 : ld) * kBlockK * kSize;
    c.lines = int(AlongK ? rows - row0 : k - k0) - c.line;
    c.bytes = int(min((AlongK ? k - k0 : rows - row0) * kSize, i64(1) << 30)) - c.byte;
    return c;
  }

  /// Bytes of copy `i` that exist.
  __device__ __forceinline__ int valid(int i) const {
    return i * kLinesAtOnce < lines ? max(0, min(bytes, kUnit)) : 0;
  }
  __device__ __forceinline__ bool mine(int i) const {
    return kEven || line + i * kLinesAtOnce < Tile::kLines;
  }
  /// Where in the tile copy `i` goes.
  __device__ __forceinline__ u32 place(int i) const {
    if constexpr (kLinesAtOnce % Tile::kPeriod == 0)
      return Tile::place(line, byte) + u32(i * kLinesAtOnce * Tile::kPitch);
    else
      return Tile::place(line + i * kLinesAtOnce, byte);
  }
  __device__ __forceinline__ void advance() {
    from += tile_step;
    if constexpr (AlongK)
      bytes -= kBlockK * kSize;
    else
      lines -= kBlockK;
  }

  /// Starts the copies of one tile and goes on to the next.
  __device__ __forceinline__ void copy(u32 to) {
    const unsigned char* here = from;
    _Pragma("unroll") for (int i = 0; i < kCopies; ++i, here += step) {
      if (!mine(i)) continue;
      const u32 there = to + place(i);
      if constexpr (kUnit == 16)
        cp_async_16(there, here, valid(i));
      else if constexpr (kUnit == 8)
        cp_async_8(there, here, valid(i));
      else
        cp_async_4(there, here, valid(i));
    }
    advance();
  }
};

// ---- cuda/mma/place.h ----
// Sums on their way to D: into a part of shared memory that each warp has for itself, 16 rows at a
// time. Expects read.h.

using Sums = Acc[kTilesM][kTilesN][4];
constexpr int kNear = TileB::kNear;
constexpr int kRun = 2 * kNear;               // neighbouring columns of a lane
constexpr int kWarpN = kTilesN * 8;           // columns of a warp
constexpr int kWord = 16 / int(sizeof(Acc));  // sums that one shared-memory access brings
/// Neighbouring columns that a lane finishes together.
constexpr int kTogether = kStoreWidth > kWord ? kStoreWidth : kWord;
constexpr int kRowPitch = sums_pitch(kWarpN, kNear, int(sizeof(Acc)));

struct alignas(16) Word {
  Acc sum[kWord];
};
struct alignas(kStoreWidth * sizeof(TypeD)) SomeD {
  TypeD x[kStoreWidth];
};

/// The sums of 16 rows to shared memory, where rows of half 0 come first.
KILN_DEVICE void put_down(const Acc (&sums)[kTilesN][4], u32 to, int lane) {
  _Pragma("unroll") for (int half = 0; half < 2; ++half)
    _Pragma("unroll") for (int run = 0; run < kTilesN / kNear; ++run) {
      const u32 there = to + u32((half * 8 + lane / 4) * kRowPitch +
                                 (run * 8 * kNear + lane % 4 * kRun) * int(sizeof(Acc)));
      const auto sum = [&](int e) { return sums[run * kNear + e % kNear][half * 2 + e / kNear]; };
      const Acc pair[2] = {sum(0), sum(1)};
      const auto& words = reinterpret_cast<const u32(&)[2]>(pair);
      store_shared_pair(there, words[0], words[1]);
    }
}

// ---- cuda/mma/finish.h ----
// Sums in shared memory, those of a row of D side by side, become elements of D: whole words are
// stored, and C is read alike. Expects epilogue.h, ampere_ptx.h, and Word, SomeD and their sizes.

/// Neighbours in a row of a matrix like D; zero outside.
KILN_DEVICE void load_under(Real (&x)[kTogether], const TypeD* from, i64 columns) {
  _Pragma("unroll") for (int e = 0; e < kTogether; e += kStoreWidth) {
    SomeD some = {};
    if (e + kStoreWidth <= columns) {
      some = *reinterpret_cast<const SomeD*>(from + e);
    } else {
      _Pragma("unroll") for (int s = 0; s < kStoreWidth; ++s)
        if (e + s < columns) some.x[s] = from[e + s];
    }
    _Pragma("unroll") for (int s = 0; s < kStoreWidth; ++s) x[e + s] = to_real(some.x[s]);
  }
}

/// `columns`: how many there are from the first one on.
KILN_DEVICE void store_some(TypeD* to, const TypeD (&x)[kTogether], i64 columns) {
  _Pragma("unroll") for (int e = 0; e < kTogether; e += kStoreWidth) {
    if (e + kStoreWidth <= columns) {
      SomeD some;
      _Pragma("unroll") for (int s = 0; s < kStoreWidth; ++s) some.x[s] = x[e + s];
      *reinterpret_cast<SomeD*>(to + e) = some;
    } else {
      _Pragma("unroll") for (int s = 0; s < kStoreWidth; ++s)
        if (e + s < columns) to[e + s] = x[e + s];
    }
  }
}

/// Sums of neighbouring columns, finished and stored.
KILN_DEVICE void finish_some(u32 from, const Output& out, i64 row, i64 column, bool exact) {
  const i64 columns = out.columns - column;
  Real c[kTogether] = {};
  if (out.c) load_under(c, out.c + row * out.ldc + column, columns);
  TypeD x[kTogether];
  _Pragma("unroll") for (int e = 0; e < kTogether; e += kWord) {
    Word word;
    load_shared_words(reinterpret_cast<u32(&)[4]>(word), from + e * int(sizeof(Acc)));
    _Pragma("unroll") for (int s = 0; s < kWord; ++s) {
      Real y = product(Real(word.sum[s]), out.alpha);
      if (out.c) y += out.beta * c[e + s];
      y = finish(out, y, row, column + e + s);
      x[e + s] = from_real(y, TypeD{});
    }
  }
  store_some(out.d + row * out.ldd + column, x, columns);
}

// ---- cuda/mma/store.h ----
// Sums to D: through shared memory, so that whole lines of D are written. Expects place.h,
// finish.h.

/// (row0, column0): the warp's first element of D; `room`: its part of shared memory.
KILN_DEVICE void store_sums(const Sums& sums, const Output& out, i64 row0, i64 column0, u32 room,
                            int lane) {
  const bool exact = false;
  constexpr int kUnits = kWarpN / kTogether;  // of a row
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i) {
    put_down(sums[i], room, lane);
    __syncwarp();
    _Pragma("unroll 1") for (int u = lane; u < 16 * kUnits; u += 32) {
      const int line = u / kUnits, first = u % kUnits * kTogether;
      const i64 row = row0 + row_in_tile(i * 2 + line / 8, line % 8, TileA::kNear);
      const i64 column = column0 + first;
      if (row < out.rows && column < out.columns)
        finish_some(room + u32(line * kRowPitch + first * int(sizeof(Acc))), out, row, column,
                    exact);
    }
    __syncwarp();
  }
}

// ---- cuda/mma/mma.cu ----
// Matrix instructions of a warp, on every NVIDIA GPU since Turing: a block's tiles of A and B pass
// through a ring of stages in shared memory, and each warp multiplies its part of the block's tile
// from registers. Where cp.async exists and the alignment allows it, copies of the next stages are
// always on their way; else the next stage waits in registers. Expects store.h and what stands
// before it.

constexpr int kStageBytes = TileA::kBytes + TileB::kBytes;
constexpr int kSteps = kBlockK / kStepK;  // of a stage
using CopierA = Copier<TypeA, TileA, kAlongKA, kBlockM>;
using CopierB = Copier<TypeB, TileB, kAlongKB, kBlockN>;
using ReaderA = TileA::Reader<kTilesM * 2>;
using ReaderB = TileB::Reader<kTilesN>;

/// One step's operands of a warp.
struct Fragments {
  Fragment a[kTilesM * 2][kChunks * 2], b[kTilesN][kChunks * 2];
};

KILN_DEVICE void read_step(Fragments& to, const ReaderA& a, const ReaderB& b, u32 stage, int step) {
  a.read(to.a, stage, step);
  b.read(to.b, stage + TileA::kBytes, step);
}

KILN_DEVICE void multiply(Sums& sums, const Fragments& f) {
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i) {
    Fragment a[kChunks * 4];
    _Pragma("unroll") for (int k = 0; k < kChunks * 2; ++k) {
      a[k * 2] = f.a[i * 2][k];
      a[k * 2 + 1] = f.a[i * 2 + 1][k];
    }
    // Every second row of tiles goes backwards: it begins with what was used last.
    _Pragma("unroll") for (int j = 0; j < kTilesN; ++j) {
      const int n = i % 2 ? kTilesN - 1 - j : j;
      multiply_step(sums[i][n], a, f.b[n]);
    }
  }
}

/// The products of `count` stages.
KILN_DEVICE void run(Sums& sums, CopierA copy_a, CopierB copy_b, const ReaderA& a, const ReaderB& b,
                     u32 ring, int count) {
  int copied = 0;
  u32 to = ring;
  const auto copy_next = [&] {
    if (copied < count) {
      copy_a.copy(to);
      copy_b.copy(to + TileA::kBytes);
    }
    ++copied;
    to = to == ring + (kStages - 1) * kStageBytes ? ring : to + kStageBytes;
    // Groups without copies keep the count.
    cp_async_commit();
  };
  _Pragma("unroll") for (int s = 0; s < kStages - 1; ++s) copy_next();
  cp_async_wait<kStages - 2>();
  __syncthreads();
  u32 stage = ring;
  const auto next_stage = [&] {
    stage = stage == ring + (kStages - 1) * kStageBytes ? ring : stage + kStageBytes;
    cp_async_wait<kStages - 2>();
    __syncthreads();
  };
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    copy_next();
    _Pragma("unroll") for (int step = 0; step < kSteps; ++step) {
      Fragments f;
      read_step(f, a, b, stage, step);
      // All of the stage is read: while this step multiplies, faster warps begin the next one.
      if (step == kSteps - 1) next_stage();
      multiply(sums, f);
    }
  }
}

/// A thread of the block, by what it has to do with a tile. Worked out anew before and after the
/// products: while the block multiplies, registers are full.
struct Place {
  int thread, lane, warp, row, column;  // row, column: of its warp's part of the tile
  static __device__ __forceinline__ Place mine() {
    Place p;
    p.thread = int(threadIdx.x);
    forget(p.thread);
    p.lane = p.thread & 31;
    // Through a shuffle, so that the compiler knows that it is the same for the whole warp.
    p.warp = __shfl_sync(0xffffffff, p.thread / 32, 0);
    p.row = p.warp % kWarpsM * kTilesM * 16;
    p.column = p.warp / kWarpsM * kTilesN * 8;
    return p;
  }
};

/// The products of one tile, or of a part of its k.
KILN_DEVICE void run_tile(Sums& sums, const Work& work, const KilnGpuArgs& args, u32 ring) {
  const Place my = Place::mine();
  const i64 row0 = i64(work.left) * kBlockM, column0 = i64(work.right) * kBlockN;
  const i64 k0 = i64(work.begin) * kBlockK;
  run(sums,
      CopierA::at(args.a, args.stride_a, work.batch, args.lda, row0, args.m, k0, args.k, my.thread),
      CopierB::at(args.b, args.stride_b, work.batch, args.ldb, column0, args.n, k0, args.k,
                  my.thread),
      ReaderA::at(my.row, my.lane), ReaderB::at(my.column, my.lane), ring, work.count);
}

KILN_DEVICE void store_tile(Sums& sums, const Work& work, const KilnGpuArgs& args, u32 ring) {
  const Place my = Place::mine();
  store_sums(sums, output_of(args, work.batch), i64(work.left) * kBlockM + my.row,
             i64(work.right) * kBlockN + my.column, ring + u32(my.warp * 16 * kRowPitch), my.lane);
}

KILN_DEVICE void work_on(const Work& work, const KilnGpuArgs& args, u32 ring) {
  Sums sums = {};
  run_tile(sums, work, args, ring);
  // The ring is free when every warp has read its last stage.
  __syncthreads();
  store_tile(sums, work, args, ring);
}

KILN_DEVICE TileScheduler scheduler_of(const KilnGpuArgs& args) {
  return TileScheduler::start((int(args.m) + kBlockM - 1) / kBlockM,
                              (int(args.n) + kBlockN - 1) / kBlockN,
                              (int(args.k) + kBlockK - 1) / kBlockK, int(args.batch), 0);
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  const u32 ring = shared_address(shared_bytes);
  // In shared memory, because registers are full while the block multiplies.
  __shared__ Work work;
  if (threadIdx.x == 0) scheduler_of(args).take(work);
  __syncthreads();
  work_on(work, args, ring);
}
