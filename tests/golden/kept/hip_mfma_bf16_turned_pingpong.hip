// device:  gfx950
// problem: bf16 T T 8192 8192 8192 align=16
// config:  hip_mfma rows=16 k=32 tile_m=256 tile_n=256 depth=128 waves_m=2 waves_n=4 staging=direct banks=by_row splits=1 chunk=64 group=4 priority=0 fence=0 pace=pingpong turn=1

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
constexpr int kParts = 1;             // of a step
constexpr int kGroup = 4;             // rows of tiles in a band of the rasterization
constexpr int kSplits = 1;            // parts that k is divided into
constexpr int kChiplets = 8;          // that blocks are dealt to in turn
constexpr int kChunk = 64;            // neighbouring blocks that one chiplet gets
constexpr bool kAlongA = false;       // A's rows lie along k
constexpr bool kAlongB = true;        // B's rows lie along k
#define KILN_MFMA mfma_16x16x32_bf16
#define KILN_MFMA_BUILTIN __builtin_amdgcn_mfma_f32_16x16x32_bf16

// ---- hip/mfma/turned_gcn.h ----
// Reads from shared memory that transpose: lanes get rows of what lies there in lines. Expects
// memory_gcn.h.

// The pointers are restrict because the order of reads and loads straight into shared memory is the
// kernel's own business (wait_for_loads). Of an intrinsic without any word on aliasing the compiler
// believes that it may read what such loads still bring, and puts vmcnt(0) before it.
using TurnedWords = Vector<i16, 4>;
KILN_DEVICE U32x2 ds_read_turned(__attribute__((address_space(3))) TurnedWords* __restrict at) {
  return bits_as<U32x2>(__builtin_amdgcn_ds_read_tr16_b64_v4i16(at));
}
KILN_DEVICE U32x2 ds_read_b64_tr_b16(u32 at) {
  return ds_read_turned((__attribute__((address_space(3))) TurnedWords*)(shared_bytes + at));
}

// ---- hip/mfma/turned.h ----
// Operands that are not k-major, transposed on their way from shared memory to registers. In shared
// memory they lie as they do outside: a line of rows for each k. 16 lanes read 16 rows of a few
// lines together, and each gets one row of them. Expects turned_gcn.h.

constexpr int kReadLines = 8 / kElement;     // that 16 lanes read together
constexpr int kLineLanes = 16 / kReadLines;  // that read one of them, 8 bytes each
constexpr int kChunkBytes = 16 * kElement;   // 16 rows of a line
static_assert(kElement <= 2, "there are such reads for elements of one and two bytes");

KILN_DEVICE U32x2 read_turned(u32 at) { return ds_read_b64_tr_b16(at); }

/// Where 16 rows of a line lie. Lines that 32 lanes read at once meet different banks.
template <int Rows>
KILN_DEVICE u32 chunk_address(u32 line, u32 chunk) {
  constexpr u32 kChunks = Rows / 16;
  // Several short lines fit all banks at once, and need no exchange among themselves.
  constexpr u32 kTogether = kChunks < 2 * kReadLines ? 2 * kReadLines / kChunks : 1;
  static_assert((kChunks & (kChunks - 1)) == 0, "chunks are exchanged by their number's bits");
  const u32 exchange = line % kReadLines / kTogether * 2 + line / (2 * kReadLines) % 2;
  return (line * kChunks + (chunk ^ exchange % kChunks)) * kChunkBytes;
}

/// From row (tile's, this lane's among them) and unit of k: 16 bytes of k of that row.
template <int Rows>
KILN_DEVICE U32x4 read_unit_turned(u32 base, u32 row, u32 unit) {
  const u32 lane = row % 16;
  U32x4 value;
  KILN_UNROLL for (int half = 0; half < 2; ++half) {
    const u32 line = (unit * 2 + half) * kReadLines + lane / kLineLanes;
    const U32x2 part =
        read_turned(base + chunk_address<Rows>(line, row / 16) + lane % kLineLanes * 8);
    value[half * 2] = part[0];
    value[half * 2 + 1] = part[1];
  }
  return value;
}

/// A stage's lines straight into shared memory: what a lane reads undoes the exchange of chunks.
template <int Rows>
struct TurnedDirect {
  static constexpr int kLineBytes = Rows * kElement, kLineUnits = kLineBytes / 16;
  static constexpr int kCount = kTileK * kLineUnits / kThreads;
  static constexpr int kLoads = kCount;  // instructions
  static_assert(kTileK * kLineUnits % kThreads == 0, "threads share a tile's units evenly");
  static_assert(kDirectBytes == 16, "a lane brings a whole unit");

  static KILN_MEMBER void load(u32 to, Buffer from, u32 pitch, u32 thread, i32) {
    const u32 wave = uniform(thread / 64) * 64;
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads, line = slot / kLineUnits;
      const u32 at = slot % kLineUnits * 16;
      const u32 rows = chunk_address<Rows>(line, at / kChunkBytes) - line * kLineBytes;
      buffer_load_to_shared<16>(to + (wave + i * kThreads) * 16, from,
                                line * pitch + rows + at % kChunkBytes);
    }
  }
};

// ---- hip/mfma/mainloop.h ----
// The main loop of hip_mfma, one for each pace: when a block's waves load, store, read and
// multiply. Expects mfma.hip and pace.h.

constexpr int kPartRows = kBlocksM / kParts;  // blocks of A's rows
static_assert(kBlocksM % kParts == 0, "parts of a step are of one size");

/// All of this block's k. The second half of the waves runs half a step behind the first: of two
/// waves that share a SIMD, one reads while the other multiplies. A barrier ends each half step. Of
/// these, one a stage orders accesses to shared memory, the one between the last reads of the waves
/// behind and the next stage's first reads and writes of those in front. The others, and the one
/// that puts the waves behind, are there for the pace alone: without any one of them the results
/// are the same, but both halves would read at once and multiply at once.
KILN_DEVICE void multiply_all(Tile& sums, SourceA a, SourceB b, u32 thread, LaneRows rows) {
  const bool behind = uniform(thread / (kThreads / 2)) != 0;
  const i32 count = i32(ceil_div(a.k_left, kTileK));
  if (count <= 0) return;
  load_stage(0, a, b, thread);
  wait_for_loads();
  block_barrier();
  if (behind) half_step();
  // Nobody waits for the last products of the waves behind: their barrier less evens out the one
  // that they had more at the start.
  const i32 last = behind ? count : count + 1;
  u32 stage = 0;
  for (i32 i = 1; i <= count; ++i) {
    KILN_UNROLL for (int step = 0; step < kSteps; ++step) {
      Step now;
      KILN_UNROLL for (int part = 0; part < kParts; ++part) {
        const int first = part * kPartRows, end = first + kPartRows;
        if (part == 0) now.read_b(stage, rows, step);
        now.read_a(stage, rows, step, first, end);
        // Nobody reads the other stage any more: the waves behind did so a half step ago.
        if (step == 0 && part == 0 && i < count) {
          load_stage(kStageBytes - stage, a, b, thread);
        }
        if (step == kSteps - 1 && part == kParts - 1) wait_for_loads();
        half_step();
        set_priority<1>();
        now.add_products(sums, first, end);
        set_priority<0>();
        if (step == kSteps - 1 && part == kParts - 1 && i == last) return;
        half_step();
      }
    }
    stage = kStageBytes - stage;
  }
}
