// Written by kiln 0.3.0.
// device:  sm_90a
// problem: bf16_int4 N T 16 4096 4096 align=16 group=128 scale_type=bf16
// config:  cuda_weights tile_n=128 tile_m=16 block_k=128 warps=4 stages=4 group=8 splits=1
// compile: nvcc -cubin --gpu-architecture=sm_90a --std=c++17 -o kernel.cubin kiln_cuda_weights_195f31073595d1e5.cu

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
using TypeA = Bfloat;                // elements of A
using TypeB = u8;                    // elements of B
using TypeD = Bfloat;                // elements of C and D
using Acc = float;                   // accumulators
using Real = float;                  // what the epilogue computes in
using TypeScale = Bfloat;            // scales of B
constexpr int kCodeBits = 4;         // bits of an element of B
constexpr int kGroupK = 128;         // elements along k that share a scale
constexpr bool kSignedCodes = true;  // codes are two's complement
using Fragment = u32;                // a register of an operand
constexpr int kTileN = 128;          // columns of D in a block's tile
constexpr int kTileM = 16;           // rows of D in it
constexpr int kBlockK = 128;         // k of one stage
constexpr int kDecodeK = 128;        // k of a chunk, which is decoded together
constexpr int kThreads = 128;        // of a block
constexpr int kBlocks = 4;           // that are to fit one SM
constexpr int kTilesM = 2;           // 16 columns each, of a warp
constexpr int kTilesN = 2;           // 8 rows each, of a warp
constexpr int kAtOnce = 2;           // tiles of 8 rows whose sums wait for a scale
constexpr int kStages = 4;           // of the ring
constexpr int kUnit = 16;            // bytes of one copy to shared memory
constexpr int kBitsA = 1;            // of a byte's place in a line of A that are exchanged
constexpr int kBaseA = 6;            // the first of them
constexpr int kBitsB = 2;            // the same for B, from bit 4 on
constexpr int kShiftB = 1;           // with bits of the line's number from here on
constexpr int kStoreWidth = 8;       // elements of D stored at once
constexpr int kGroup = 8;            // tiles along n in a band of the rasterization
constexpr int kMmaSums = 4;          // registers of sums of the matrix instruction
constexpr int kMmaA = 4;             // registers of weights
constexpr int kMmaB = 2;             // registers of A
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

// ---- cuda/common/mma_ptx.h ----
// The matrix instruction of a warp, of the shape that the parameters chose. The macros KILN_MMA…
// hold what only text can give: the instruction's name and its lists of operands.

/// sums += a · b: 16 rows (8 where a lane holds two sums), 8 columns.
KILN_DEVICE void mma_sync(Acc* sums, const Fragment* a, const Fragment* b) {
  asm(KILN_MMA_NAME " " KILN_MMA_TEXT ";" : KILN_MMA_SUMS(sums) : KILN_MMA_OPERANDS(a, b));
}

// ---- cuda/weights/decode_ptx.h ----
// Arithmetic on two small floats in one register, and on their bits. Expects types.h.

/// (x & mask) ^ bits. Left to the compiler it becomes two instructions, of one constant each.
KILN_DEVICE u32 masked_bits(u32 x, u32 mask, u32 bits) {
  u32 r;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(r) : "r"(x), "r"(mask), "r"(bits));
  return r;
}

/// x · y + z, rounded once.
KILN_DEVICE u32 fma_pairs(u32 x, u32 y, u32 z) {
  u32 r;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(z));
  return r;
}

// ---- cuda/weights/store_ptx.h ----
// Sums on their way through shared memory. Expects types.h.

KILN_DEVICE void store_shared_one(u32 to, u32 x) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
}

// ---- cuda/weights/decode.h ----
// Codes of weights to numbers of A's type, exactly, two in a register. A word of codes becomes
// kPairs pairs. Of integers a mask leaves the code in the low bits of a number whose exponent makes
// them whole: 128 + code in bf16, 1024 + code in half precision. Of floats the bits are moved to
// where A's type has them. Expects decode_ptx.h, convert.h.

constexpr int kPairs = 16 / kCodeBits;

constexpr u32 kOnes = 0x3f803f80;

/// What is added to the numbers of a column: less the offset that they have, less the zero point.
struct Offset {
  u32 pair;
};

KILN_DEVICE Offset offset_of(int zero) {
  Offset offset;
  // The sign bit was turned over, so that codes are 8 more than they count.
  const u32 more = u32(zero + (kSignedCodes ? 8 : 0));
  offset.pair = (0xc300 | more) * 0x10001;  // -(128 + more), twice
  return offset;
}

// ---- cuda/weights/pairs.h ----
// Which codes of a word are a pair: of four bits codes i and i + 4, because one mask takes both out
// of the word; of eight bits codes 2i and 2i + 1. Expects decode.h.

/// Pair `i` of a word.
KILN_DEVICE u32 pair_of(u32 codes, int i, const Offset& offset) {
  constexpr u32 kTurned = kSignedCodes ? 0x00080008 : 0;
  return fma_pairs(masked_bits(codes >> i * 4, 0x000f000f, 0x43004300 | kTurned), kOnes,
                   offset.pair);
}

/// The same pairs of the other operand, whose elements lie side by side: four words of eight, two
/// of four.
KILN_DEVICE void pair_alike(u32 (&x)[kPairs]) {
  const u32 y[4] = {x[0], x[1], x[2], x[3]};
  _Pragma("unroll") for (int i = 0; i < 4; ++i)
    x[i] = __byte_perm(y[i / 2], y[i / 2 + 2], i % 2 == 0 ? 0x5410 : 0x7632);
}

// ---- cuda/weights/copy.h ----
// From memory to shared memory: every thread's share of one operand's stage. Both operands run
// along k and are copied as bytes, kUnit at a time; what lies outside the operand becomes zeros.
// Expects banks.h, ampere_ptx.h, decode_ptx.h.

KILN_DEVICE void copy_unit(u32 to, const unsigned char* from, int valid) {
  if constexpr (kUnit == 16)
    cp_async_16(to, from, valid);
  else if constexpr (kUnit == 8)
    cp_async_8(to, from, valid);
  else
    cp_async_4(to, from, valid);
}

/// A stage holds `Lines` lines of `Pitch` bytes, whose bytes are exchanged as exchanged_byte()
/// says.
template <int Pitch, int Lines, int Bits, int Base, int Shift>
struct Copier {
  static constexpr int kUnits = Pitch / kUnit;  // of a line
  static constexpr int kLinesAtOnce = kThreads / kUnits;
  static constexpr int kCopies = (Lines + kLinesAtOnce - 1) / kLinesAtOnce;
  static_assert(kThreads % kUnits == 0, "threads share a line evenly");

  const unsigned char* from;  // this thread's first unit of the next stage
  i64 step;                   // bytes between its lines
  int lines, bytes;           // from the first unit on to the operand's end
  int line, byte;             // of the first unit in the stage

  /// Of an operand of `rows` lines of `length` bytes each, the stage that begins at (row0, first).
  static __device__ __forceinline__ Copier at(const void* operand, i64 pitch, i64 row0, i64 rows,
                                              i64 first, i64 length, int thread) {
    Copier c;
    c.line = thread / kUnits;
    c.byte = thread % kUnits * kUnit;
    c.from = static_cast<const unsigned char*>(operand) + (row0 + c.line) * pitch + first + c.byte;
    c.step = pitch * kLinesAtOnce;
    c.lines = int(rows - row0) - c.line;
    c.bytes = int(min(length - first, i64(1) << 30)) - c.byte;
    return c;
  }

  static __device__ __forceinline__ u32 place(int line, int byte) {
    return u32(line * Pitch + exchanged_byte(line, byte, Bits, Base, Shift));
  }

  /// Starts the copies of one stage and goes on to the next.
  __device__ __forceinline__ void copy(u32 to) {
    const unsigned char* here = from;
    const int there = max(0, min(bytes, kUnit));
    _Pragma("unroll") for (int i = 0; i < kCopies; ++i, here += step) {
      const int down = i * kLinesAtOnce;
      if (Lines % kLinesAtOnce != 0 && line + down >= Lines) continue;
      const u32 at =
          kLinesAtOnce % 8 == 0 ? place(line, byte) + u32(down * Pitch) : place(line + down, byte);
      copy_unit(to + at, here, down < lines ? there : 0);
    }
    from += Pitch;
    bytes -= Pitch;
  }
};

// ---- cuda/weights/scaling.h ----
// Scales and zero points of a lane's columns of op(B): fetched a chunk before they are needed.
// Expects decode.h, convert.h.

constexpr int kLaneColumns = kTilesM * 2;
constexpr int kGroups = kDecodeK / kGroupK;

/// As they come from memory: a conversion would wait for it.
struct Fetched {
  TypeScale scale[kLaneColumns][kGroups];
};

/// As they are used.
struct Factors {
  float scale[kLaneColumns][kGroups];
  Offset offset[kLaneColumns][kGroups];
};

struct Scaling {
  const TypeScale* scales;
  u32 first[kLaneColumns];  // group of each column, of all groups
  int groups;               // of a column

  /// `column0`: the warp's first column. Columns that do not exist repeat the last one.
  static __device__ __forceinline__ Scaling at(const KilnGpuArgs& args, i64 batch, int column0,
                                               int lane) {
    Scaling s;
    s.groups = int(args.k) / kGroupK;
    s.scales = static_cast<const TypeScale*>(args.scale_b);
    _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
      const int column = min(column0 + c * 8 + lane / 4, int(args.n) - 1);
      s.first[c] = u32(int(batch) * int(args.n) + column) * u32(s.groups);
    }
    return s;
  }

  /// Those of chunk `chunk` of all of k. Groups beyond k have scale 0.
  __device__ __forceinline__ void fetch(Fetched& to, int chunk) const {
    _Pragma("unroll") for (int g = 0; g < kGroups; ++g) {
      const int group = chunk * kGroups + g;
      const bool exists = group < groups;
      _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
        const u32 at = first[c] + u32(exists ? group : 0);
        to.scale[c][g] = exists ? scales[at] : TypeScale{};
      }
    }
  }

  __device__ __forceinline__ Factors factors(const Fetched& from, int chunk) const {
    Factors f;
    _Pragma("unroll") for (int g = 0; g < kGroups; ++g)
      _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
        f.scale[c][g] = to_real(from.scale[c][g]);
        f.offset[c][g] = offset_of(0);
      }
    return f;
  }
};

// ---- cuda/weights/store.h ----
// Sums to D, which is computed transposed: through a part of shared memory that each warp has for
// itself, 8 rows of D at a time. Expects epilogue.h, store_ptx.h.

using Sums = Acc[kTilesM][kTilesN][4];
constexpr int kWarpN = kTilesM * 16;          // columns of D of a warp
constexpr int kWord = 16 / int(sizeof(Acc));  // sums that one shared-memory access brings
/// Neighbouring columns that a lane finishes together.
constexpr int kTogether = kStoreWidth > kWord ? kStoreWidth : kWord;
/// Lanes that write two rows apart meet different banks.
constexpr int kRowPitch = kWarpN * int(sizeof(Acc)) + 16;

struct alignas(16) Word {
  Acc sum[kWord];
};
struct alignas(kStoreWidth * sizeof(TypeD)) SomeD {
  TypeD x[kStoreWidth];
};

/// The sums of tile `j` of 8 rows to shared memory.
KILN_DEVICE void put_down(const Sums& sums, int j, u32 to, int lane) {
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
    _Pragma("unroll") for (int e = 0; e < 4; ++e)
      store_shared_one(to + u32((lane % 4 * 2 + e % 2) * kRowPitch +
                                (i * 16 + e / 2 * 8 + lane / 4) * int(sizeof(Acc))),
                       float_to_bits(sums[i][j][e]));
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

// ---- cuda/weights/weights.cu ----
// A times weights of four or eight bits that are k-major, by the matrix instructions of a warp. The
// weights are the left operand, so that D is computed transposed and few rows of A waste little.
// Both operands pass through a ring of stages in shared memory as they are; codes become numbers in
// registers, in the warp that owns their columns and once. Within a stage the order of k is that in
// which a quad's words of codes lie: 16 bytes of a column, a word a lane, are one or two steps of
// the matrix instruction, and lanes read A's elements alike. The sum of a group is scaled, then
// added. Expects finish.h, combine.h and what stands before them.

constexpr int kElementA = int(sizeof(TypeA));
constexpr int kPitchA = kBlockK * kElementA, kPitchB = kBlockK * kCodeBits / 8;  // bytes of a line
constexpr int kBytesB = kTileN * kPitchB;
constexpr int kStageBytes = kBytesB + kTileM * kPitchA;
using CopierA = Copier<kPitchA, kTileM, kBitsA, kBaseA, 0>;
using CopierB = Copier<kPitchB, kTileN, kBitsB, 4, kShiftB>;

constexpr int kWordSteps = kPairs / 2;       // of the matrix instruction, of a word of each lane
constexpr int kReadSteps = kWordSteps * 2;   // of a read of codes: two words of either half
constexpr int kSteps = kDecodeK / 16;        // of a chunk, whose codes are decoded together
constexpr int kChunks = kBlockK / kDecodeK;  // of a stage
constexpr int kGroupSteps = kGroupK / 16;

/// Where a lane reads in a stage, or in a chunk of one. What is added to a byte's place within 128
/// of a line is exchanged like it.
struct Reader {
  u32 line_a, line_b;
  int byte_a, byte_b;

  /// `column0`: the warp's first column in the tile.
  static __device__ __forceinline__ Reader at(int column0, int lane) {
    Reader r;
    const int row = lane / 4, column = column0 + lane % 16;
    r.line_a = u32(kBytesB + row * kPitchA);
    r.byte_a = exchanged_byte(row, lane % 4 * kPairs * 4, kBitsA, kBaseA, 0);
    r.line_b = u32(column * kPitchB);
    r.byte_b = exchanged_byte(column, lane / 16 * 16, kBitsB, 4, kShiftB);
    return r;
  }
  __device__ __forceinline__ Reader of_chunk(u32 stage, int chunk) const {
    const int a = chunk * kDecodeK * kElementA, b = chunk * kDecodeK * kCodeBits / 8;
    return {stage + line_a + u32(a / 128 * 128), stage + line_b + u32(b / 128 * 128),
            byte_a ^ a % 128, byte_b ^ b % 128};
  }
  /// Words of codes of 16 columns: of the first 8, of the others, then the next word of either.
  __device__ __forceinline__ void codes(u32 (&to)[4], int tile, int read) const {
    const int byte = read * 32;
    ldmatrix_x4(to, line_b + u32(tile * 16 * kPitchB + byte / 128 * 128 + (byte_b ^ byte % 128)));
  }
  /// The elements of A that one word of codes meets.
  __device__ __forceinline__ void left(u32 (&to)[kPairs], int tile, int word) const {
    const int byte = word * kPairs * 16;
    const u32 from = line_a + u32(tile * 8 * kPitchA + byte / 128 * 128 + (byte_a ^ byte % 128));
    load_shared_words(to, from);
    pair_alike(to);
  }
};

using Numbers = u32[kTilesM][kSteps][4];

KILN_DEVICE void decode(Numbers& to, const Reader& reader, const Factors& factors) {
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
    _Pragma("unroll") for (int read = 0; read < kSteps / kReadSteps; ++read) {
      u32 codes[4];
      reader.codes(codes, i, read);
      _Pragma("unroll") for (int s = 0; s < kReadSteps; ++s) {
        const int step = read * kReadSteps + s;
        const int group = step / kGroupSteps;
        _Pragma("unroll") for (int e = 0; e < 4; ++e)
          to[i][step][e] = pair_of(codes[s / kWordSteps * 2 + e % 2], s % kWordSteps * 2 + e / 2,
                                   factors.offset[i * 2 + e % 2][group]);
      }
    }
}

/// Adds the products of a chunk: of kAtOnce tiles of A and a group at a time, so that few sums wait
/// for their scale.
KILN_DEVICE void multiply_chunk(Sums& sums, const Reader& reader, const Factors& factors) {
  Numbers numbers;
  decode(numbers, reader, factors);
  _Pragma("unroll") for (int first = 0; first < kTilesN; first += kAtOnce)
    _Pragma("unroll") for (int group = 0; group < kGroups; ++group) {
      Acc parts[kTilesM][kAtOnce][4] = {};
      _Pragma("unroll") for (int step = group * kGroupSteps; step < (group + 1) * kGroupSteps;
                             step += kWordSteps)
        _Pragma("unroll") for (int j = 0; j < kAtOnce; ++j) {
          u32 left[kPairs];
          reader.left(left, first + j, step / kWordSteps);
          _Pragma("unroll") for (int s = 0; s < kWordSteps; ++s) {
            _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
              mma_sync(parts[i][j], numbers[i][step + s], left + s * 2);
          }
        }
      _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
        _Pragma("unroll") for (int j = 0; j < kAtOnce; ++j)
          _Pragma("unroll") for (int e = 0; e < 4; ++e) {
            sums[i][first + j][e] += factors.scale[i * 2 + e / 2][group] * parts[i][j][e];
          }
    }
}

/// The products of `count` stages, of which the first is `begin`.
KILN_DEVICE void run(Sums& sums, CopierA copy_a, CopierB copy_b, const Reader& reader,
                     const Scaling& scaling, u32 ring, int begin, int count) {
  int copied = 0;
  u32 to = ring;
  const auto copy_next = [&] {
    if (copied < count) {
      copy_b.copy(to);
      copy_a.copy(to + kBytesB);
    }
    ++copied;
    to = to == ring + (kStages - 1) * kStageBytes ? ring : to + kStageBytes;
    // Groups without copies keep the count.
    cp_async_commit();
  };
  _Pragma("unroll") for (int s = 0; s < kStages - 1; ++s) copy_next();
  Fetched fetched;
  int chunk = begin * kChunks;  // of all of k
  scaling.fetch(fetched, chunk);
  u32 stage = ring;
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    cp_async_wait<kStages - 2>();
    // The stage is there, and every warp has read the one before it, whose place is filled next.
    __syncthreads();
    copy_next();
    _Pragma("unroll 1") for (int c = 0; c < kChunks; ++c) {
      const Factors factors = scaling.factors(fetched, chunk);
      scaling.fetch(fetched, ++chunk);
      multiply_chunk(sums, reader.of_chunk(stage, c), factors);
    }
    stage = stage == ring + (kStages - 1) * kStageBytes ? ring : stage + kStageBytes;
  }
}

/// (row0, column0): the warp's first element of D; `room`: its part of shared memory.
KILN_DEVICE void store_sums(const Sums& sums, const Output& out, i64 row0, i64 column0, u32 room,
                            int lane) {
  constexpr int kUnits = kWarpN / kTogether;  // of a row
  _Pragma("unroll") for (int j = 0; j < kTilesN; ++j) {
    put_down(sums, j, room, lane);
    __syncwarp();
    _Pragma("unroll 1") for (int u = lane; u < 8 * kUnits; u += 32) {
      const int line = u / kUnits, first = u % kUnits * kTogether;
      const i64 row = row0 + j * 8 + line, column = column0 + first;
      if (row < out.rows && column < out.columns)
        finish_some(room + u32(line * kRowPitch + first * int(sizeof(Acc))), out, row, column,
                    false);
    }
    __syncwarp();
  }
}

KILN_DEVICE void work_on(const Work& work, const KilnGpuArgs& args, u32 ring) {
  const int thread = int(threadIdx.x), lane = thread % 32;
  // Through a shuffle, so that the compiler knows that it is the same for the whole warp.
  const int warp = __shfl_sync(0xffffffff, thread / 32, 0);
  const i64 row0 = i64(work.right) * kTileM, column0 = i64(work.left) * kTileN;
  const int own = warp * kWarpN;  // the warp's first column in the tile
  Sums sums = {};
  run(sums,
      CopierA::at(static_cast<const TypeA*>(args.a) + work.batch * args.stride_a,
                  args.lda * kElementA, row0, args.m, i64(work.begin) * kPitchA, args.k * kElementA,
                  thread),
      CopierB::at(
          static_cast<const unsigned char*>(args.b) + work.batch * args.stride_b * kCodeBits / 8,
          args.ldb * kCodeBits / 8, column0, args.n, i64(work.begin) * kPitchB,
          (args.k * kCodeBits + 7) / 8, thread),
      Reader::at(own, lane), Scaling::at(args, work.batch, int(column0) + own, lane), ring,
      work.begin, work.count);
  // The ring is free when every warp has read its last stage.
  __syncthreads();
  store_sums(sums, output_of(args, work.batch), row0, column0 + own,
             ring + u32(warp * 8 * kRowPitch), lane);
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  Work work;
      TileScheduler::start((int(args.n) + kTileN - 1) / kTileN, (int(args.m) + kTileM - 1) / kTileM,
                           (int(args.k) + kBlockK - 1) / kBlockK, int(args.batch), 0)
          .take(work);
  work_on(work, args, shared_address(shared_bytes));
}
