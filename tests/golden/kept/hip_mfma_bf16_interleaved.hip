// device:  gfx942
// problem: bf16 N T 8192 8192 8192 align=16
// config:  hip_mfma rows=16 k=16 tile_m=128 tile_n=128 depth=128 waves_m=2 waves_n=2 staging=single banks=by_row splits=1 chunk=16 group=4 priority=0 fence=0 pace=interleaved turn=0

// ---- parameters ----
using TypeA = Bfloat;                // elements of A
using TypeB = Bfloat;                // elements of B
using TypeD = Bfloat;                // elements of C and D
using Acc = float;                   // accumulators
using Real = float;                  // what the epilogue computes in
using FragmentA = Vector<i16, 4>;    // a lane's part of the instruction's first operand: of B
using FragmentB = Vector<i16, 4>;    // and of its second one: of A
using Four = Vector<u16, 4>;         // four elements of D
constexpr int kTileM = 128;          // rows of D in a block's tile
constexpr int kTileN = 128;          // columns of it
constexpr int kTileK = 64;           // k of one stage
constexpr int kElement = 2;          // bytes of an element of A and B
constexpr int kDepthBytes = 128;     // of a row in one stage
constexpr int kRowBytes = 128;       // from row to row in shared memory
constexpr int kSwizzleShift = 0;     // bits of the row that the swizzle leaves out
constexpr int kWavesM = 2;           // waves along m
constexpr int kWavesN = 2;           // waves along n
constexpr int kThreads = 256;        // of a block
constexpr int kWavesPerUnit = 1;     // waves of a block that share a SIMD
constexpr int kRows = 16;            // rows and columns of one instruction
constexpr int kSums = 4;             // accumulators of a lane, for one instruction
constexpr int kStages = 1;           // in shared memory
constexpr int kSharedBytes = 32768;  // of all stages
constexpr int kWidthA = 16;          // bytes of a load of A
constexpr int kWidthB = 16;          // bytes of a load of B
constexpr int kReads = 8;            // of shared memory by a lane in one step
constexpr int kGroup = 4;            // rows of tiles in a band of the rasterization
constexpr int kSplits = 1;           // parts that k is divided into
constexpr int kChiplets = 8;         // that blocks are dealt to in turn
constexpr int kChunk = 16;           // neighbouring blocks that one chiplet gets
constexpr bool kAlongA = true;       // A's rows lie along k
constexpr bool kAlongB = true;       // B's rows lie along k
#define KILN_MFMA mfma_16x16x16_bf16
#define KILN_MFMA_BUILTIN __builtin_amdgcn_mfma_f32_16x16x16bf16_1k

// ---- hip/mfma/pace.h ----
// Who reads and who multiplies when: what kernels say to the compiler and to the waves of a SIMD.
// Expects device.h, memory_gcn.h, memory.h.

/// Until this wave's reads from shared memory and writes to it are done; not its loads.
KILN_DEVICE void wait_for_shared() { __builtin_amdgcn_s_waitcnt(0xc07f); }

/// All waves arrive, and what they read from shared memory or wrote to it is done. Without
/// block_barrier()'s fences, which would also wait for loads straight into shared memory; these are
/// to stay on their way. The compiler moves nothing across, products neither.
KILN_DEVICE void shared_barrier() {
  schedule_fence();
  compiler_barrier();
  wait_for_shared();
  __builtin_amdgcn_s_barrier();
  compiler_barrier();
  schedule_fence();
}

/// Kinds of instructions, as sched_group_barrier knows them.
constexpr int kMatrix = 0x008, kLoad = 0x020, kSharedRead = 0x100, kSharedWrite = 0x200;

/// The compiler is to order what stands before this as said here: so many instructions of a kind.
/// Compilers that know no such order keep their own.
template <int Kind, int Count>
KILN_DEVICE void next_are() {
#if __has_builtin(__builtin_amdgcn_sched_group_barrier)
  if constexpr (Count > 0) __builtin_amdgcn_sched_group_barrier(Kind, Count, 0);
#endif
}

/// `Count` instructions of a kind, which are number `First` and following of `All`: behind each
/// stands its share of the products.
template <int Kind, int First, int Count, int All, int Products>
KILN_DEVICE void lay_between() {
  if constexpr (Count > 0) {
    next_are<Kind, 1>();
    next_are<kMatrix, (First + 1) * Products / All - First * Products / All>();
    lay_between<Kind, First + 1, Count - 1, All, Products>();
  }
}
/// The products that no instruction before took as its share.
template <int Count, int All, int Products>
KILN_DEVICE void lay_rest() {
  next_are<kMatrix, Products - Count * Products / All>();
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
    bytes = k_left > 0 ? bytes : 0;
    return buffer_of(at, bytes);
  }
  KILN_MEMBER void step() {
    at += AlongRows ? i64(kDepthBytes) : i64(kTileK) * pitch;
    k_left -= kTileK;
  }
};

using SourceA = Source<kAlongA, kTileM>;
using SourceB = Source<kAlongB, kTileN>;
using StageA = AlongK<kTileM, kWidthA>;
using StageB = AlongK<kTileN, kWidthB>;

/// The next stage on its way through registers.
struct Next {
  static constexpr int kStores = StageA::kStores + StageB::kStores;
  StageA a;
  StageB b;
  KILN_MEMBER void load(SourceA& from_a, SourceB& from_b, u32 thread) {
    a.load(from_a.buffer(), from_a.pitch, thread, from_a.k_left);
    b.load(from_b.buffer(), from_b.pitch, thread, from_b.k_left);
    from_a.step();
    from_b.step();
  }
  KILN_MEMBER void store(u32 to, u32 thread) const {
    a.store(to, thread);
    b.store(to + kBytesA, thread);
  }
};

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

constexpr int kProducts = kPieces * kBlocksM * kBlocksN;  // of one step

/// Blocks of A's rows that a stage's last step multiplies while the next stage is written.
constexpr int kFirstBlocks = kBlocksM / 2;
constexpr int kRestProducts = kPieces * (kBlocksM - kFirstBlocks) * kBlocksN;

/// Adds the products of one stage's steps but the last, each with the reads of the next one between
/// them: `now` holds the first step, and then the last. Between the first step's products lie also
/// as many stores and loads as stand before this.
template <int Stores, int Loads, int Steps = kSteps>
KILN_DEVICE void multiply_to_last(Tile& sums, Step& now, u32 stage, LaneRows rows) {
  if constexpr (Steps > 1) {
    Step then;
    then.read(stage, rows, kSteps - Steps + 1);
    now.add_products(sums);
    // Where no loads stand behind the last read, twice as many shares as instructions: the products
    // left cover its latency.
    constexpr int kLaid = Stores + kReads, kShares = Loads > 0 ? kLaid + Loads : 2 * kLaid;
    lay_between<kSharedWrite, 0, Stores, kShares, kProducts>();
    lay_between<kSharedRead, Stores, kReads, kShares, kProducts>();
    lay_between<kLoad, kLaid, Loads, kShares, kProducts>();
    lay_rest<kLaid + Loads, kShares, kProducts>();
    schedule_fence();
    now = then;
    multiply_to_last<0, 0, Steps - 1>(sums, now, stage, rows);
  }
}

/// All of this block's k. Reads and writes of shared memory and loads lie between products: those
/// of a step are read during the step before, across the ends of stages too. What lies beyond k is
/// loaded as nothing, so that no branch parts what the compiler is to order.
KILN_DEVICE void multiply_all(Tile& sums, SourceA a, SourceB b, u32 thread, LaneRows rows) {
  const i32 count = i32(ceil_div(a.k_left, kTileK));
  if (count <= 0) return;
  Next next;
  next.load(a, b, thread);
  next.store(0, thread);
  next.load(a, b, thread);
  shared_barrier();
  constexpr int kLoads = StageA::kLoads + StageB::kLoads;
  Step now;
  now.read(0, rows, 0);
  u32 stage = 0;
  for (i32 i = 1; i < count; ++i) {
    multiply_to_last<0, 0>(sums, now, stage, rows);
    // All have read the stage: it can be written. Once that is done, it can be read again.
    shared_barrier();
    next.store(stage, thread);
    now.add_products(sums, 0, kFirstBlocks);
    // Half of these products stand behind the last store, and cover its latency.
    lay_between<kSharedWrite, 0, Next::kStores, 2 * Next::kStores, kProducts - kRestProducts>();
    lay_rest<Next::kStores, 2 * Next::kStores, kProducts - kRestProducts>();
    shared_barrier();
    Step then;
    then.read(stage, rows, 0);
    next.load(a, b, thread);
    now.add_products(sums, kFirstBlocks, kBlocksM);
    // Loads straight into shared memory stay before the reads, which the compiler orders after
    // them.
    lay_between<kSharedRead, 0, kReads, kReads + kLoads, kRestProducts>();
    lay_between<kLoad, kReads, kLoads, kReads + kLoads, kRestProducts>();
    schedule_fence();
    now = then;
  }
  multiply_to_last<0, 0>(sums, now, stage, rows);
  now.add_products(sums);
}
