// Written by kiln 0.3.0.
// device:  gfx950
// problem: e4m3e2m1 N T 8192 8192 8192 align=16 scale=mx32
// config:  hip_mx rows=16 tile_m=256 tile_n=256 tile_k=128 waves_m=2 waves_n=4 staging=twice splits=1 chunk=64 group=4
// compile: clang++ -x hip --cuda-device-only --no-gpu-bundle-output -nogpuinc -nogpulib --offload-arch=gfx950 -std=c++17 -O3 kiln_hip_mx_3020b060bbdbd7ce.hip -o kernel.hsaco

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
using TypeA = Float8<3, false>;       // elements of A
using TypeB = u8;                     // elements of B
using TypeD = Bfloat;                 // elements of C and D
using Acc = float;                    // accumulators
using Real = float;                   // what the epilogue computes in
using Four = Vector<u16, 4>;          // four elements of D
constexpr int kTileM = 256;           // rows of D in a block's tile
constexpr int kTileN = 256;           // columns of it
constexpr int kTileK = 128;           // k of one stage
constexpr int kBitsA = 8;             // of a code of A
constexpr int kBitsB = 4;             // of a code of B
constexpr int kWavesM = 2;            // waves along m
constexpr int kWavesN = 4;            // waves along n
constexpr int kThreads = 512;         // of a block
constexpr int kWavesPerUnit = 2;      // waves of a block that share a SIMD
constexpr int kRows = 16;             // rows and columns of one instruction
constexpr int kSums = 4;              // accumulators of a lane, for one instruction
constexpr int kStages = 2;            // in shared memory
constexpr int kSharedBytes = 114688;  // of all stages
constexpr int kWidthA = 16;           // bytes of a load of A
constexpr int kWidthB = 16;           // bytes of a load of B
constexpr int kScaleWidth = 4;        // bytes of a load of scales
constexpr int kFormatA = 4;           // of the instruction's first operand, B
constexpr int kFormatB = 0;           // of the second, A
constexpr int kGroup = 4;             // rows of tiles in a band of the rasterization
constexpr int kSplits = 1;            // parts that k is divided into
constexpr int kChiplets = 8;          // that blocks are dealt to in turn
constexpr int kChunk = 64;            // neighbouring blocks that one chiplet gets
#define KILN_MFMA mfma_scale_16x16x128
#define KILN_MFMA_BUILTIN __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4

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

// ---- hip/common/memory_gcn.h ----
// Memory instructions, one wrapper each: shared memory by byte offset, buffer loads. Expects
// types.h, and kSharedBytes from the parameters.

/// The compiler moves no access of memory across.
KILN_DEVICE void compiler_barrier() { asm volatile("" ::: "memory"); }

KILN_SHARED __attribute__((aligned(16))) u8 shared_bytes[kSharedBytes];

KILN_DEVICE U32x4 ds_read_b128(u32 at) { return *(const U32x4*)(shared_bytes + at); }
KILN_DEVICE void ds_write_b128(u32 at, U32x4 value) { *(U32x4*)(shared_bytes + at) = value; }

/// A piece of memory with its length: the four words that buffer instructions take.
using Buffer = I32x4;

// The compilers know these instructions by name longer than they have builtins for them.
extern "C" {
__attribute__((device))
U32x4 kiln_load_x4(Buffer, i32, i32, i32) __asm("llvm.amdgcn.raw.buffer.load.v4i32");
__attribute__((device))
U32x2 kiln_load_x2(Buffer, i32, i32, i32) __asm("llvm.amdgcn.raw.buffer.load.v2i32");
__attribute__((device))
u32 kiln_load_x1(Buffer, i32, i32, i32) __asm("llvm.amdgcn.raw.buffer.load.i32");
__attribute__((device))
u16 kiln_load_u16(Buffer, i32, i32, i32) __asm("llvm.amdgcn.raw.buffer.load.i16");
__attribute__((device))
u8 kiln_load_u8(Buffer, i32, i32, i32) __asm("llvm.amdgcn.raw.buffer.load.i8");
}

// ---- hip/common/memory.h ----
// How matrix kernels reach memory: buffer loads, which give zero for what lies outside, and what
// steers the order of reads and writes. Expects memory_gcn.h, device.h.

/// `base` and `bytes` are the same in all lanes. Said aloud: where the compiler's own analysis
/// loses sight of it, every load would become a loop over lanes.
KILN_DEVICE Buffer buffer_of(const void* base, u32 bytes) {
  const u64 address = (u64)base;
  return Buffer{i32(uniform(u32(address))), i32(uniform(u32(address >> 32)) & 0xffff),
                i32(uniform(bytes)), 0x00020000};
}
/// An offset that no buffer reaches.
constexpr u32 kOutside = 0x80000000u;

/// `Bytes` (1 to 16) bytes at byte `offset`, in the low bytes of the words.
template <int Bytes>
KILN_DEVICE void buffer_load(u32 (&words)[(Bytes + 3) / 4], Buffer buffer, u32 offset) {
  if constexpr (Bytes == 16) {
    const U32x4 v = kiln_load_x4(buffer, i32(offset), 0, 0);
    KILN_UNROLL for (int i = 0; i < 4; ++i) words[i] = v[i];
  } else if constexpr (Bytes == 8) {
    const U32x2 v = kiln_load_x2(buffer, i32(offset), 0, 0);
    KILN_UNROLL for (int i = 0; i < 2; ++i) words[i] = v[i];
  } else if constexpr (Bytes == 4) {
    words[0] = kiln_load_x1(buffer, i32(offset), 0, 0);
  } else if constexpr (Bytes == 2) {
    words[0] = kiln_load_u16(buffer, i32(offset), 0, 0);
  } else {
    static_assert(Bytes == 1, "a buffer load takes 1, 2, 4, 8 or 16 bytes");
    words[0] = kiln_load_u8(buffer, i32(offset), 0, 0);
  }
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
  return Bfloat{bits_as<u16>(__bf16(float(x)))};
}

// ---- hip/common/epilogue.h ----
// What happens to an accumulator: alpha, beta·C, then the expression that follows, in Real. Expects
// convert.h, and from the parameters TypeD, Acc and Real.

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

/// What is stored at an element that exists.
KILN_DEVICE TypeD finish(const Output& out, Acc sum, i64 row, i64 column) {
  // Every product is rounded by itself: which of them a compiler fuses with an addition differs
  // from kernel to kernel, and the bits of an element must not.
#pragma clang fp contract(off)
  Real x = out.alpha * Real(sum);
  if (out.c) x += out.beta * to_real(out.c[row * out.ldc + column]);
  return from_real(x, TypeD{});
}
/// Stores an element that exists.
KILN_DEVICE void finish_and_store(const Output& out, Acc sum, i64 row, i64 column) {
  out.d[row * out.ldd + column] = finish(out, sum, row, column);
}

// ---- hip/mx/mx.h ----
// The scaled matrix instruction that the parameters chose, under its own name. An emulator supplies
// the same name. The macros hold what only text can give: names.

using Sums = Vector<Acc, kSums>;
/// Eight registers, whatever the format: 32 codes, of which narrower ones fill the first six or
/// four.
using Codes = Vector<i32, 8>;

/// The accumulators plus a · b, a holding rows and b columns of the result. Of each lane's scales
/// byte `Select` holds for the 32 of k that the lane's place in the instruction stands for.
template <int Select>
KILN_DEVICE Sums KILN_MFMA(Codes a, Codes b, Sums sums, u32 scale_a, u32 scale_b) {
  return KILN_MFMA_BUILTIN(a, b, sums, kFormatA, kFormatB, Select, scale_a, Select, scale_b);
}

/// The row of the result that accumulator `r` of a lane belongs to; its column is the lane modulo
/// kRows.
KILN_DEVICE int sum_row(int lane, int r) {
  return r / 4 * (4 * (64 / kRows)) + lane / kRows * 4 + r % 4;
}

// ---- hip/mx/stage.h ----
// From memory to the registers of matrix instructions: packed codes of 8, 6 or 4 bits by way of
// shared memory, and their scales. Rows lie along k in memory. In shared memory a row is followed
// by 16 bytes of nothing, so that lanes that read one column of units meet different banks. Expects
// device.h, memory.h.

constexpr int kGroupsOfK = 64 / kRows;       // lanes that share a row
constexpr int kStepK = 32 * kGroupsOfK;      // of one instruction
constexpr int kSteps = kTileK / kStepK;      // of one stage
constexpr int kBlocksOfStage = kTileK / 32;  // that have a scale, of one row
static_assert(kSteps * kStepK == kTileK, "a stage is whole instructions deep");

/// A tile's rows of one operand: where they are, and how far along k they have been read.
template <int Rows, int Bits, int Width>
struct Operand {
  static constexpr int kRowBytes = kTileK * Bits / 8, kPitch = kRowBytes + 16;
  static constexpr int kUnits = kRowBytes / 16;            // of 16 bytes, of one row
  static constexpr int kCount = Rows * kUnits / kThreads;  // units of a thread
  static_assert(Rows * kUnits % kThreads == 0, "threads share a tile's units evenly");
  const u8* at;
  u32 pitch;       // bytes
  u32 rows_bytes;  // of all rows but the last
  i32 left;        // bytes of a row

  static KILN_MEMBER Operand start(const void* base, i64 ld, i64 row, i64 rows, i64 begin,
                                   i64 end) {
    Operand o;
    const i64 there = rows - row < Rows ? rows - row : Rows;
    o.pitch = u32(ld * Bits / 8);
    o.at = static_cast<const u8*>(base) + row * o.pitch + begin * Bits / 8;
    o.rows_bytes = u32(there - 1) * o.pitch;
    o.left = i32((end - begin) * Bits / 8);
    return o;
  }

  /// The next stage into registers; what does not exist is zero.
  KILN_MEMBER void load(U32x4 (&unit)[kCount], u32 thread) {
    const Buffer from = buffer_of(at, rows_bytes + u32(left));
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads, along = slot % kUnits * 16;
      u32 words[4] = {0, 0, 0, 0};
      KILN_UNROLL for (int p = 0; p < 16; p += Width) {
        u32 offset = slot / kUnits * pitch + along + p;
        u32 piece[(Width + 3) / 4];
        buffer_load<Width>(piece, from, offset);
        KILN_UNROLL for (int w = 0; w < (Width + 3) / 4; ++w) words[p / 4 + w] |= piece[w]
                                                                                  << (p % 4 * 8);
      }
      KILN_UNROLL for (int w = 0; w < 4; ++w) unit[i][w] = words[w];
    }
    at += kRowBytes;
    left -= kRowBytes;
  }
  static KILN_MEMBER void store(const U32x4 (&unit)[kCount], u32 to, u32 thread) {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads;
      ds_write_b128(to + slot / kUnits * kPitch + slot % kUnits * 16, unit[i]);
    }
  }

  /// One lane's codes for step number `step`: where the instruction looks for each k depends on
  /// their width. `group` counts the lanes that share `row`.
  static KILN_MEMBER Codes read(u32 from, u32 row, u32 step, u32 group) {
    const u32 first = from + row * kPitch + step * (kStepK * Bits / 8);
    u32 words[8] = {};
    const auto take = [&words](int to, u32 address) {
      const U32x4 four = ds_read_b128(address);
      KILN_UNROLL for (int w = 0; w < 4; ++w) words[to + w] = four[w];
    };
    if constexpr (Bits == 8) {
      take(0, first + group * 16);
      take(4, first + (kGroupsOfK + group) * 16);
    } else if constexpr (Bits == 4) {
      take(0, first + group * 16);
    } else {
      static_assert(Bits == 6, "codes have 8, 6 or 4 bits");
      // 24 bytes, of which every other lane's begin in the middle of a unit.
      const u32 begin = group * 24, unit = first + begin / 16 * 16;
      const U32x4 low = ds_read_b128(unit), high = ds_read_b128(unit + 16);
      // By value: a choice between places in an array would keep the array in memory.
      const bool half = begin % 16 != 0;
      words[0] = half ? low[2] : low[0];
      words[1] = half ? low[3] : low[1];
      words[2] = half ? high[0] : low[2];
      words[3] = half ? high[1] : low[3];
      words[4] = half ? high[2] : high[0];
      words[5] = half ? high[3] : high[1];
    }
    return bits_as<Codes>(words);
  }
};

/// Scales of a wave's rows of one operand, a byte for each 32 along k.
template <int Blocks>
struct Scales {
  static constexpr int kWords = kBlocksOfStage / 4;  // of one row in one stage
  static_assert(kWords * 4 == kBlocksOfStage && kSteps <= 4, "a register holds a row's steps");
  u32 words[Blocks][kWords];

  /// `at` points to the scales of the tile's first row in this stage, `rows` of which exist; `row`
  /// is the lane's own in the wave's first block of them.
  KILN_MEMBER void load(const u8* at, u32 pitch, u32 rows, u32 row, i32 left) {
    const u32 last = u32(left < kBlocksOfStage ? left : kBlocksOfStage);
    const Buffer from = buffer_of(at, (rows - 1) * pitch + last);
    KILN_UNROLL for (int b = 0; b < Blocks; ++b) {
      KILN_UNROLL for (int w = 0; w < kWords; ++w) words[b][w] = 0;
      KILN_UNROLL for (int p = 0; p < kBlocksOfStage; p += kScaleWidth) {
        u32 offset = (row + b * kRows) * pitch + p;
        u32 piece[1];
        buffer_load<kScaleWidth>(piece, from, offset);
        words[b][p / 4] |= piece[0] << (p % 4 * 8);
      }
    }
  }
  /// Byte s is that of step s for the lane's share of k.
  KILN_MEMBER u32 of_steps(int block, u32 group) const {
    u32 all = 0;
    KILN_UNROLL for (int s = 0; s < kSteps; ++s) {
      const u32 byte = s * kGroupsOfK % 4 + group;
      all |= (words[block][s * kGroupsOfK / 4] >> (byte * 8) & 0xff) << (s * 8);
    }
    return all;
  }
};

// ---- hip/common/schedule.h ----
// The tile scheduler: which part of D a block computes. Hardware deals blocks to the chiplets in
// turn; they are renumbered so that a chiplet, which has an L2 of its own, gets neighbours. The
// rasterization takes bands of kGroup rows of tiles, each column by column.

struct Work {
  i64 batch;
  u32 tile_m, tile_n;
  u32 tile;   // of all batches
  u32 tiles;  // of all batches together
  u32 piece;  // which of the kSplits parts of k
  i64 k_begin, k_end;
};

KILN_DEVICE Work work_of(const KilnGpuArgs& args, u32 block) {
  Work work;
  const u32 tiles_m = u32(ceil_div(args.m, kTileM)), tiles_n = u32(ceil_div(args.n, kTileN));
  const u32 of_batch = tiles_m * tiles_n;
  work.tiles = of_batch * u32(args.batch);
  constexpr u32 kRound = kChiplets * kChunk;
  if (block < work.tiles * kSplits / kRound * kRound) {
    const u32 chiplet = block % kChiplets, turn = block / kChiplets;
    block = turn / kChunk * kRound + chiplet * kChunk + turn % kChunk;
  }
  work.piece = 0;
  work.tile = block;
  const u32 in_batch = block % of_batch;
  work.batch = block / of_batch;
  const u32 group = in_batch / (kGroup * tiles_n), first = group * kGroup;
  const u32 height = tiles_m - first < kGroup ? tiles_m - first : kGroup;
  const u32 in_group = in_batch - first * tiles_n;
  work.tile_m = first + in_group % height;
  work.tile_n = in_group / height;
  work.k_begin = 0;
  work.k_end = args.k;
  return work;
}

// ---- hip/mx/mx.hip ----
// Tiles of D by matrix instructions on operands of microscaled blocks, which may be of different
// widths. A block's waves share a tile in shared memory; each computes kBlocksM × kBlocksN
// instructions' worth of it. The product is computed transposed (B's rows are the instruction's
// rows), so that a lane's accumulators lie side by side in a row of D. Expects abi.h, types.h,
// device.h, memory.h, convert.h, epilogue.h, mx.h, mx_stage.h, schedule.h.

constexpr int kWaveM = kTileM / kWavesM, kWaveN = kTileN / kWavesN;
constexpr int kBlocksM = kWaveM / kRows, kBlocksN = kWaveN / kRows;

using OperandA = Operand<kTileM, kBitsA, kWidthA>;
using OperandB = Operand<kTileN, kBitsB, kWidthB>;
constexpr u32 kBytesA = kTileM * OperandA::kPitch;
constexpr u32 kStageBytes = kBytesA + kTileN * OperandB::kPitch;
static_assert(kStages * kStageBytes == kSharedBytes, "the plan and the code agree");

using Tile = Sums[kBlocksM][kBlocksN];

/// Where a lane looks: its row in either operand's tile, and its number among those that share it.
struct Place {
  u32 row_a, row_b, group;
};

/// Scales of one stage on their way, and how far along k they have been read.
struct ScaleSource {
  const u8 *a, *b;
  u32 pitch, rows_a, rows_b;  // pitch: bytes of a row of either, k / 32
  i32 left;

  static KILN_MEMBER ScaleSource start(const KilnGpuArgs& args, const Work& work, i64 row,
                                       i64 column) {
    ScaleSource s;
    const i64 blocks = args.k / 32, first = work.k_begin / 32;
    s.a = static_cast<const u8*>(args.scale_a) + (work.batch * args.m + row) * blocks + first;
    s.b = static_cast<const u8*>(args.scale_b) + (work.batch * args.n + column) * blocks + first;
    s.pitch = u32(blocks);
    s.rows_a = u32(args.m - row < kTileM ? args.m - row : kTileM);
    s.rows_b = u32(args.n - column < kTileN ? args.n - column : kTileN);
    s.left = i32((work.k_end - work.k_begin) / 32);
    return s;
  }
};

struct StageScales {
  Scales<kBlocksM> a;
  Scales<kBlocksN> b;
  KILN_MEMBER void load(ScaleSource& from, const Place& at) {
    a.load(from.a, from.pitch, from.rows_a, at.row_a, from.left);
    b.load(from.b, from.pitch, from.rows_b, at.row_b, from.left);
    from.a += kBlocksOfStage;
    from.b += kBlocksOfStage;
    from.left -= kBlocksOfStage;
  }
};

/// The next stage's codes on their way through registers.
struct Next {
  U32x4 a[OperandA::kCount], b[OperandB::kCount];
  KILN_MEMBER void load(OperandA& from_a, OperandB& from_b, u32 thread) {
    from_a.load(a, thread);
    from_b.load(b, thread);
  }
  KILN_MEMBER void store(u32 to, u32 thread) const {
    OperandA::store(a, to, thread);
    OperandB::store(b, to + kBytesA, thread);
  }
};

/// Adds the products of one stage from step `Step` on: which byte of the scales is meant must be a
/// constant.
template <int Step = 0>
KILN_DEVICE void multiply(Tile& sums, u32 stage, const u32 (&scale_a)[kBlocksM],
                          const u32 (&scale_b)[kBlocksN], const Place& at) {
  Codes b[kBlocksN];
  KILN_UNROLL for (int j = 0; j < kBlocksN; ++j) b[j] =
      OperandB::read(stage + kBytesA, at.row_b + j * kRows, Step, at.group);
  KILN_UNROLL for (int i = 0; i < kBlocksM; ++i) {
    const Codes a = OperandA::read(stage, at.row_a + i * kRows, Step, at.group);
    KILN_UNROLL for (int j = 0; j < kBlocksN; ++j) sums[i][j] =
        KILN_MFMA<Step>(b[j], a, sums[i][j], scale_b[j], scale_a[i]);
  }
  if constexpr (Step + 1 < kSteps) multiply<Step + 1>(sums, stage, scale_a, scale_b, at);
}

/// One stage with its scales; those of the next, if there is one, are on their way meanwhile.
KILN_DEVICE void multiply_stage(Tile& sums, u32 stage, StageScales& scales, ScaleSource& from,
                                bool more, const Place& at) {
  u32 of_a[kBlocksM], of_b[kBlocksN];
  KILN_UNROLL for (int i = 0; i < kBlocksM; ++i) of_a[i] = scales.a.of_steps(i, at.group);
  KILN_UNROLL for (int j = 0; j < kBlocksN; ++j) of_b[j] = scales.b.of_steps(j, at.group);
  if (more) scales.load(from, at);
  multiply(sums, stage, of_a, of_b, at);
}

/// All of this block's k: `count` stages.
KILN_DEVICE void multiply_all(Tile& sums, OperandA a, OperandB b, ScaleSource from, i32 count,
                              u32 thread, const Place& at) {
  if (count <= 0) return;
  Next next;
  StageScales scales;
  next.load(a, b, thread);
  scales.load(from, at);
  next.store(0, thread);
  if (count > 1) next.load(a, b, thread);
  u32 stage = 0;
  for (i32 i = 1;; ++i) {
    // What was stored is there for all, and nobody reads the other stage any more.
    block_barrier();
    if (i < count) next.store(kStageBytes - stage, thread);
    if (i + 1 < count) next.load(a, b, thread);
    multiply_stage(sums, stage, scales, from, i < count, at);
    if (i == count) return;
    stage = kStageBytes - stage;
  }
}

// ---- hip/common/combine.h ----
// The reduction of split-K: the block of a tile that comes last adds all partial accumulators in
// the order of k, so that the same call gives the same bits. The workspace holds a counter a tile
// (zero between calls: the last block resets it), then the partial accumulators.

// ---- hip/common/store.h ----
// The accumulators of a block's tile to D, through the epilogue. Expects epilogue.h, schedule.h
// and, from mfma.hip or mx.hip, Tile, kBlocksM and kBlocksN.

/// Accumulators to D. Four neighbours of a row are one store where D's pitch and address allow it.
KILN_DEVICE void store_tile(const Tile& sums, const Work& work, const KilnGpuArgs& args, i64 row,
                            i64 column, int lane) {
  const Output out = output_of(args, work.batch);
  KILN_UNROLL for (int i = 0; i < kBlocksM; ++i) {
    const i64 r = row + i * kRows + lane % kRows;
    if (r >= out.rows) continue;
    KILN_UNROLL for (int j = 0; j < kBlocksN; ++j) {
      const i64 c0 = column + j * kRows;
      KILN_UNROLL for (int s = 0; s < kSums; s += 4) {
        const i64 c = c0 + sum_row(lane, s);
        if (c >= out.columns) continue;
        TypeD four[4];
        KILN_UNROLL for (int e = 0; e < 4; ++e) four[e] = finish(out, sums[i][j][s + e], r, c + e);
        *reinterpret_cast<Four*>(out.d + r * out.ldd + c) = bits_as<Four>(four);
      }
    }
  }
}

// ---- hip/mx/kernel.hip ----
// The kernel itself. Expects mx.hip, store.h and, with split-K, combine.h.

KILN_KERNEL(kThreads, kWavesPerUnit) kiln_gemm(KilnGpuArgs args) {
  const u32 thread = thread_index(), wave = uniform(thread / 64), lane = thread % 64;
  const u32 wave_m = wave / kWavesN * kWaveM, wave_n = wave % kWavesN * kWaveN;
  const Work work = work_of(args, block_index());
  const i64 row = i64(work.tile_m) * kTileM, column = i64(work.tile_n) * kTileN;
  const u8* from_a = static_cast<const u8*>(args.a) + work.batch * (args.stride_a * kBitsA / 8);
  const u8* from_b = static_cast<const u8*>(args.b) + work.batch * (args.stride_b * kBitsB / 8);
  const OperandA a = OperandA::start(from_a, args.lda, row, args.m, work.k_begin, work.k_end);
  const OperandB b = OperandB::start(from_b, args.ldb, column, args.n, work.k_begin, work.k_end);
  const ScaleSource scales = ScaleSource::start(args, work, row, column);
  Tile sums;
  KILN_UNROLL for (int i = 0; i < kBlocksM; ++i) KILN_UNROLL for (int j = 0; j < kBlocksN; ++j)
      sums[i][j] = Sums(Acc(0));
  const Place at{wave_m + lane % kRows, wave_n + lane % kRows, lane / kRows};
  multiply_all(sums, a, b, scales, i32(ceil_div(work.k_end - work.k_begin, kTileK)), thread, at);
  store_tile(sums, work, args, row + wave_m, column + wave_n, int(lane));
}
