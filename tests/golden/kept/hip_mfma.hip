// Written by kiln 0.3.0.
// device:  gfx950
// problem: bf16 N T 8192 8192 8192 align=16
// config:  hip_mfma rows=16 k=32 tile_m=256 tile_n=256 depth=128 waves_m=2 waves_n=4 staging=direct banks=by_row splits=1 chunk=64 group=4 priority=1 fence=1 pace=free turn=0
// compile: clang++ -x hip --cuda-device-only --no-gpu-bundle-output -nogpuinc -nogpulib --offload-arch=gfx950 -std=c++17 -O3 kiln_hip_mfma_109b4ae413c5bb9d.hip -o kernel.hsaco

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
using TypeA = Bfloat;                 // elements of A
using TypeB = Bfloat;                 // elements of B
using TypeD = Bfloat;                 // elements of C and D
using Acc = float;                    // accumulators
using Real = float;                   // what the epilogue computes in
using FragmentA = Vector<__bf16, 8>;  // a lane's part of the instruction's first operand: of B
using FragmentB = Vector<__bf16, 8>;  // and of its second one: of A
using Four = Vector<u16, 4>;          // four elements of D
constexpr int kTileM = 256;           // rows of D in a block's tile
constexpr int kTileN = 256;           // columns of it
constexpr int kTileK = 64;            // k of one stage
constexpr int kElement = 2;           // bytes of an element of A and B
constexpr int kDepthBytes = 128;      // of a row in one stage
constexpr int kRowBytes = 128;        // from row to row in shared memory
constexpr int kSwizzleShift = 0;      // bits of the row that the swizzle leaves out
constexpr int kWavesM = 2;            // waves along m
constexpr int kWavesN = 4;            // waves along n
constexpr int kThreads = 512;         // of a block
constexpr int kWavesPerUnit = 2;      // waves of a block that share a SIMD
constexpr int kRows = 16;             // rows and columns of one instruction
constexpr int kSums = 4;              // accumulators of a lane, for one instruction
constexpr int kStages = 2;            // in shared memory
constexpr int kSharedBytes = 131072;  // of all stages
constexpr int kDirectBytes = 16;      // of a lane's load into shared memory
constexpr int kGroup = 4;             // rows of tiles in a band of the rasterization
constexpr int kSplits = 1;            // parts that k is divided into
constexpr int kChiplets = 8;          // that blocks are dealt to in turn
constexpr int kChunk = 64;            // neighbouring blocks that one chiplet gets
constexpr bool kAlongA = true;        // A's rows lie along k
constexpr bool kAlongB = true;        // B's rows lie along k
#define KILN_MFMA mfma_16x16x32_bf16
#define KILN_MFMA_BUILTIN __builtin_amdgcn_mfma_f32_16x16x32_bf16

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
__attribute__((device)) void kiln_load_lds(Buffer, __attribute__((address_space(3))) void*, i32,
                                           i32, i32, i32,
                                           i32) __asm("llvm.amdgcn.raw.buffer.load.lds");
}

/// `Bytes` bytes at byte `offset` straight into shared memory: lane l's bytes go to `to` + l ·
/// Bytes, where `to` is the same in all lanes. Done when wait_for_loads() returns.
template <int Bytes>
KILN_DEVICE void buffer_load_to_shared(u32 to, Buffer buffer, u32 offset) {
  kiln_load_lds(buffer, (__attribute__((address_space(3))) void*)(shared_bytes + to), Bytes,
                i32(offset), 0, 0, 0);
}

// ---- hip/common/memory.h ----
// How matrix kernels reach memory: buffer loads, which give zero for what lies outside, and what
// steers the order of reads and writes. Expects memory_gcn.h, device.h.

/// Until every load from memory of this wave has arrived, also those straight into shared memory.
KILN_DEVICE void wait_for_loads() { __builtin_amdgcn_s_waitcnt(0x0f70); }
/// 0 to 3: which wave of a SIMD issues first.
template <int Level>
KILN_DEVICE void set_priority() {
  __builtin_amdgcn_s_setprio(Level);
}
/// The compiler moves nothing across.
KILN_DEVICE void schedule_fence() { __builtin_amdgcn_sched_barrier(0); }

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

// ---- hip/mfma/mfma.h ----
// The matrix instruction that the parameters chose, under its own name. An emulator supplies the
// same name. The macros hold what only text can give: names.

using Sums = Vector<Acc, kSums>;

/// The accumulators plus a · b, a holding rows and b columns of the result.
KILN_DEVICE Sums KILN_MFMA(FragmentA a, FragmentB b, Sums sums) {
  return KILN_MFMA_BUILTIN(a, b, sums, 0, 0, 0);
}

/// The row of the result that accumulator `r` of a lane belongs to; its column is the lane modulo
/// kRows.
KILN_DEVICE int sum_row(int lane, int r) {
  return r / 4 * (4 * (64 / kRows)) + lane / kRows * 4 + r % 4;
}

// ---- hip/mfma/stage.h ----
// From memory to shared memory: a tile's rows of one operand, kDepthBytes of k each, in units of 16
// bytes along k. Where in a row a unit lies is swizzled, so that lanes that read one column of
// units meet different banks. Expects device.h.

constexpr int kUnits = kDepthBytes / 16;  // of one row

KILN_DEVICE u32 unit_address(u32 row, u32 unit) {
  return row * kRowBytes + (unit ^ (row >> kSwizzleShift) % kUnits) * 16;
}

/// An operand whose rows lie along k, straight into shared memory: lanes write side by side, so the
/// swizzle is undone by what each of them reads.
template <int Rows>
struct Direct {
  static constexpr int kParts = 16 / kDirectBytes;
  static constexpr int kCount = Rows * kUnits * kParts / kThreads;
  static constexpr int kLoads = kCount;  // instructions
  static_assert(Rows * kUnits * kParts % kThreads == 0, "threads share a tile evenly");

  static KILN_MEMBER void load(u32 to, Buffer from, u32 pitch, u32 thread,
                               [[maybe_unused]] i32 k_left) {
    const u32 wave = uniform(thread / 64) * 64;
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads, row = slot / (kUnits * kParts);
      const u32 place = unit_address(row, slot / kParts % kUnits) - row * kRowBytes;
      const u32 along = place + slot % kParts * kDirectBytes;
      u32 offset = row * pitch + along;
      buffer_load_to_shared<kDirectBytes>(to + (wave + i * kThreads) * kDirectBytes, from, offset);
    }
  }
};

// ---- hip/mfma/turned.h ----
// Operands that are not k-major, transposed on their way from shared memory to registers. In shared
// memory they lie as they do outside: a line of rows for each k. 16 lanes read 16 rows of a few
// lines together, and each gets one row of them. Expects turned_gcn.h.

// ---- hip/mfma/pace.h ----
// Who reads and who multiplies when: what kernels say to the compiler and to the waves of a SIMD.
// Expects device.h, memory_gcn.h, memory.h.

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

// ---- hip/mfma/mfma.hip ----
// Tiles of D by matrix instructions. A block's waves share a tile in shared memory; each computes
// kBlocksM × kBlocksN instructions' worth of it. The product is computed transposed (B's rows are
// the instruction's rows), so that a lane's accumulators lie side by side in a row of D. Expects
// abi.h, types.h, device.h, memory.h, convert.h, epilogue.h, mfma.h, stage.h, turned.h.

constexpr int kWaveM = kTileM / kWavesM, kWaveN = kTileN / kWavesN;
constexpr int kBlocksM = kWaveM / kRows, kBlocksN = kWaveN / kRows;
constexpr int kGroupsOfK = 64 / kRows;  // lanes that share a row
constexpr int kWordsA = sizeof(FragmentA) / 4, kWordsB = sizeof(FragmentB) / 4;
constexpr int kStepUnits = kWordsA > 4 ? 2 : 1;             // 16-byte units of a lane in one step
constexpr int kPieces = kStepUnits * 4 / kWordsA;           // instructions of one step
constexpr int kSteps = kUnits / (kGroupsOfK * kStepUnits);  // of one stage
constexpr u32 kBytesA = kTileM * kRowBytes;
constexpr u32 kStageBytes = (kTileM + kTileN) * kRowBytes;
static_assert(kWordsA == kWordsB, "both operands have elements of one size");
static_assert(kSteps * kGroupsOfK * kStepUnits == kUnits, "a stage is whole steps deep");
static_assert(kStages * kStageBytes == kSharedBytes, "the plan and the code agree");

using Tile = Sums[kBlocksM][kBlocksN];

/// One operand's rows of this block, and how far along k they have been read.
template <bool AlongRows, int Rows>
struct Source {
  const u8* at;
  u32 pitch;      // bytes
  u32 row_bytes;  // across k: of the rows that exist; along k: of all rows but the last
  i32 k_left;

  static KILN_MEMBER Source start(const void* base, i64 ld, i64 row, i64 rows, i64 begin, i64 end) {
    Source s;
    const u8* bytes = static_cast<const u8*>(base);
    const i64 left = rows - row;
    s.pitch = u32(ld * kElement);
    s.k_left = i32(end - begin);
    if constexpr (AlongRows) {
      s.at = bytes + (row * ld + begin) * kElement;
      s.row_bytes = u32((left < Rows ? left : Rows) - 1) * s.pitch;
    } else {
      s.at = bytes + (begin * ld + row) * kElement;
      s.row_bytes = u32(left < Rows ? left : Rows) * kElement;
    }
    return s;
  }
  /// What exists of the next stage; the rest reads as zero.
  KILN_MEMBER Buffer buffer() const {
    const u32 depth = u32(k_left < kTileK ? k_left : kTileK);
    u32 bytes = AlongRows ? row_bytes + u32(k_left) * kElement : (depth - 1) * pitch + row_bytes;
    return buffer_of(at, bytes);
  }
  KILN_MEMBER void step() {
    at += AlongRows ? i64(kDepthBytes) : i64(kTileK) * pitch;
    k_left -= kTileK;
  }
};

using SourceA = Source<kAlongA, kTileM>;
using SourceB = Source<kAlongB, kTileN>;

using StageA = Direct<kTileM>;
using StageB = Direct<kTileN>;

KILN_DEVICE void load_stage(u32 to, SourceA& a, SourceB& b, u32 thread) {
  StageA::load(to, a.buffer(), a.pitch, thread, a.k_left);
  StageB::load(to + kBytesA, b.buffer(), b.pitch, thread, b.k_left);
  a.step();
  b.step();
}

/// What a lane holds of one row for one step.
struct Fragment {
  u32 words[kStepUnits * 4];
  /// `unit_at` gives 16 bytes of k.
  template <typename UnitAt>
  KILN_MEMBER void read(u32 step, u32 group, UnitAt unit_at) {
    KILN_UNROLL for (int u = 0; u < kStepUnits; ++u) {
      const U32x4 value = unit_at((step * kStepUnits + u) * kGroupsOfK + group);
      KILN_UNROLL for (int w = 0; w < 4; ++w) words[u * 4 + w] = value[w];
    }
  }
  template <typename T>
  KILN_MEMBER T piece(int p) const {
    u32 part[sizeof(T) / 4];
    KILN_UNROLL for (int w = 0; w < int(sizeof(T) / 4); ++w) part[w] =
        words[p * int(sizeof(T) / 4) + w];
    return bits_as<T>(part);
  }
};

/// Where a wave's lanes find their rows.
struct LaneRows {
  u32 a, b, group;  // this lane's row of either, and which part of k it takes
};

/// What a lane holds for one step. Which k its fragments hold does not matter, as long as it is the
/// same for A and B.
struct Step {
  Fragment a[kBlocksM], b[kBlocksN];

  KILN_MEMBER void read_b(u32 stage, LaneRows rows, u32 step) {
    KILN_UNROLL for (int j = 0; j < kBlocksN; ++j) b[j].read(step, rows.group, [&](u32 unit) {
      return ds_read_b128(stage + kBytesA + unit_address(rows.b + j * kRows, unit));
    });
  }
  /// Blocks of A's rows from `first` to `end`; so too below.
  KILN_MEMBER void read_a(u32 stage, LaneRows rows, u32 step, int first, int end) {
    KILN_UNROLL for (int i = first; i < end; ++i) a[i].read(step, rows.group, [&](u32 unit) {
      return ds_read_b128(stage + unit_address(rows.a + i * kRows, unit));
    });
  }
  KILN_MEMBER void add_products(Tile& sums, int first, int end) const {
    KILN_UNROLL for (int p = 0; p < kPieces; ++p) KILN_UNROLL for (int i = first; i < end; ++i)
        KILN_UNROLL for (int j = 0; j < kBlocksN; ++j) sums[i][j] = KILN_MFMA(
            b[j].template piece<FragmentA>(p), a[i].template piece<FragmentB>(p), sums[i][j]);
  }
  KILN_MEMBER void read(u32 stage, LaneRows rows, u32 step) {
    read_a(stage, rows, step, 0, kBlocksM);
    read_b(stage, rows, step);
  }
  KILN_MEMBER void add_products(Tile& sums) const { add_products(sums, 0, kBlocksM); }
};

// ---- hip/mfma/mainloop.h ----
// The main loop of hip_mfma, one for each pace: when a block's waves load, store, read and
// multiply. Expects mfma.hip and pace.h.

/// Adds the products of one stage.
KILN_DEVICE void multiply(Tile& sums, u32 stage, LaneRows rows) {
  KILN_UNROLL for (int step = 0; step < kSteps; ++step) {
    Step now;
    now.read(stage, rows, step);
    schedule_fence();
    set_priority<1>();
    now.add_products(sums);
    set_priority<0>();
    schedule_fence();
  }
}

/// All of this block's k.
KILN_DEVICE void multiply_all(Tile& sums, SourceA a, SourceB b, u32 thread, LaneRows rows) {
  const i32 count = i32(ceil_div(a.k_left, kTileK));
  if (count <= 0) return;
  load_stage(0, a, b, thread);
  u32 stage = 0;
  for (i32 i = 1;; ++i) {
    // What arrived is there for all, and nobody reads the other stage any more.
    wait_for_loads();
    block_barrier();
    if (i < count) load_stage(kStageBytes - stage, a, b, thread);
    multiply(sums, stage, rows);
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

// ---- hip/mfma/kernel.hip ----
// The kernel itself. Expects mfma.hip, mainloop.h, store.h and, with split-K, combine.h, with groups
// groups.h.

KILN_KERNEL(kThreads, kWavesPerUnit) kiln_gemm(KilnGpuArgs args) {
  const u32 thread = thread_index(), wave = uniform(thread / 64), lane = thread % 64;
  const u32 wave_m = wave / kWavesN * kWaveM, wave_n = wave % kWavesN * kWaveN;
  const Work work = work_of(args, block_index());
  const i64 row = i64(work.tile_m) * kTileM, column = i64(work.tile_n) * kTileN;
  const SourceA a = SourceA::start(static_cast<const TypeA*>(args.a) + work.batch * args.stride_a,
                                   args.lda, row, args.m, work.k_begin, work.k_end);
  const SourceB b = SourceB::start(static_cast<const TypeB*>(args.b) + work.batch * args.stride_b,
                                   args.ldb, column, args.n, work.k_begin, work.k_end);
  Tile sums;
  KILN_UNROLL for (int i = 0; i < kBlocksM; ++i) KILN_UNROLL for (int j = 0; j < kBlocksN; ++j)
      sums[i][j] = Sums(Acc(0));
  multiply_all(sums, a, b, thread, {wave_m + lane % kRows, wave_n + lane % kRows, lane / kRows});
  store_tile(sums, work, args, row + wave_m, column + wave_n, int(lane));
}
