// device:  gfx942
// problem: bf16 N T 512 4096 1024 groups=16 grouped=list epilogue=bias_col align=16
// config:  hip_mfma rows=16 k=16 tile_m=128 tile_n=128 depth=128 waves_m=2 waves_n=4 staging=twice banks=by_row splits=1 chunk=16 group=4 priority=0 fence=0 pace=pingpong turn=0

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
constexpr int kWavesN = 4;           // waves along n
constexpr int kThreads = 512;        // of a block
constexpr int kWavesPerUnit = 2;     // waves of a block that share a SIMD
constexpr int kRows = 16;            // rows and columns of one instruction
constexpr int kSums = 4;             // accumulators of a lane, for one instruction
constexpr int kStages = 2;           // in shared memory
constexpr int kSharedBytes = 65536;  // of all stages
constexpr int kWidthA = 16;          // bytes of a load of A
constexpr int kWidthB = 16;          // bytes of a load of B
constexpr int kParts = 1;            // of a step
constexpr int kGroup = 4;            // rows of tiles in a band of the rasterization
constexpr int kSplits = 1;           // parts that k is divided into
constexpr int kChiplets = 8;         // that blocks are dealt to in turn
constexpr int kChunk = 16;           // neighbouring blocks that one chiplet gets
constexpr bool kAlongA = true;       // A's rows lie along k
constexpr bool kAlongB = true;       // B's rows lie along k
#define KILN_MFMA mfma_16x16x16_bf16
#define KILN_MFMA_BUILTIN __builtin_amdgcn_mfma_f32_16x16x16bf16_1k

// ---- hip/mfma/stage.h ----
// From memory to shared memory: a tile's rows of one operand, kDepthBytes of k each, in units of 16
// bytes along k. Where in a row a unit lies is swizzled, so that lanes that read one column of
// units meet different banks. Expects device.h.

constexpr int kUnits = kDepthBytes / 16;  // of one row

KILN_DEVICE u32 unit_address(u32 row, u32 unit) {
  return row * kRowBytes + (unit ^ (row >> kSwizzleShift) % kUnits) * 16;
}

/// A k-major operand, read Width bytes at a time.
template <int Rows, int Width>
struct AlongK {
  static constexpr int kCount = Rows * kUnits / kThreads;                 // units of a thread
  static constexpr int kLoads = kCount * (16 / Width), kStores = kCount;  // instructions
  static_assert(Rows * kUnits % kThreads == 0, "threads share a tile's units evenly");
  U32x4 unit[kCount];

  static KILN_MEMBER u32 offset_of(u32 slot, u32 pitch) {
    return slot / kUnits * pitch + slot % kUnits * 16;
  }

  KILN_MEMBER void load(Buffer from, u32 pitch, u32 thread, [[maybe_unused]] i32 k_left) {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads;
      u32 words[4] = {0, 0, 0, 0};
      KILN_UNROLL for (int p = 0; p < 16; p += Width) {
        u32 offset = offset_of(slot, pitch) + p;
        if (i32(slot % kUnits * 16 + p) >= k_left * kElement) offset = kOutside;
        u32 piece[(Width + 3) / 4];
        buffer_load<Width>(piece, from, offset);
        KILN_UNROLL for (int w = 0; w < (Width + 3) / 4; ++w) words[p / 4 + w] |= piece[w]
                                                                                  << (p % 4 * 8);
      }
      KILN_UNROLL for (int w = 0; w < 4; ++w) unit[i][w] = words[w];
    }
  }
  KILN_MEMBER void store(u32 to, u32 thread) const {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const u32 slot = thread + i * kThreads;
      ds_write_b128(to + unit_address(slot / kUnits, slot % kUnits), unit[i]);
    }
  }
};

/// Stored elements as plain numbers, so that they can be moved about.
using Raw = u16;

/// A stage element by element into shared memory. A loop, whose registers no main loop misses.
template <int Rows, typename From>
KILN_DEVICE void copy_elements(u32 to, const From& from, u32 thread) {
  _Pragma("unroll 1") for (u32 slot = thread; slot < Rows * kUnits; slot += kThreads) {
    const u32 row = From::kAlong ? slot / kUnits : slot % Rows;
    const u32 unit = From::kAlong ? slot % kUnits : slot / Rows;
    Raw some[16 / kElement];
    KILN_UNROLL for (int e = 0; e < 16 / kElement; ++e) some[e] =
        from.element(row, unit * (16 / kElement) + e);
    ds_write_b128(to + unit_address(row, unit), bits_as<U32x4>(some));
  }
}

// ---- hip/common/groups.h ----
// The products of a list: which of their tiles a block has. Blocks are not persistent, and each
// looks for its tile among the counts in the workspace. Expects abi.h, list_abi.h, group_args.h.

/// Behind the entries: for each product the tiles of all products up to it, its own too. The steps
/// that bring the entries count them.
KILN_DEVICE u32* tile_counts_of(const KilnGpuArgs& args) {
  return reinterpret_cast<u32*>(static_cast<KilnListEntry*>(args.workspace) + args.batch);
}

/// A block's place: `block` of its product's own tiles.
struct ProductBlock {
  i32 product;  // -1: there is no tile left for it
  u32 block;
};

/// Tiles of one product lie behind those of the one before it; an empty product has none.
KILN_DEVICE ProductBlock product_of(const KilnGpuArgs& args, u32 block) {
  const u32* counts = tile_counts_of(args);
  i32 first = 0, last = i32(args.batch) - 1;  // one of these has the block
  if (block >= counts[last]) return {-1, 0};
  while (first < last) {
    const i32 middle = (first + last) / 2;
    if (block < counts[middle])
      last = middle;
    else
      first = middle + 1;
  }
  return {first, first == 0 ? block : block - counts[first - 1]};
}

/// A pointer to global memory that was itself read from memory. Only of kernel arguments does the
/// compiler know which memory they point to; others it takes for generic pointers, whose loads and
/// stores (FLAT) are counted, and waited for, as those of shared memory are too. By way of an
/// integer, since casts there and back are folded.
template <typename T>
KILN_DEVICE T* in_global_memory(T* pointer) {
  return (T*)(__attribute__((address_space(1))) T*)(u64)pointer;
}

/// The call of one product, whose pointers the list holds.
KILN_DEVICE KilnGpuArgs args_of_listed(const KilnGpuArgs& args, i32 product) {
  KilnGpuArgs own = args_of_product(args, product);
  own.a = in_global_memory(own.a);
  own.b = in_global_memory(own.b);
  own.c = in_global_memory(own.c);
  own.d = in_global_memory(own.d);
  own.bias = in_global_memory(own.bias);
  own.residual = in_global_memory(own.residual);
  return own;
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
  static constexpr bool kAlong = AlongRows;
  const u8* at;
  u32 pitch;      // bytes
  u32 row_bytes;  // across k: of the rows that exist; along k: of all rows but the last
  i32 k_left;
  i64 long_pitch;  // bytes
  i32 rows;        // that exist
  bool in_reach;   // offsets in the tile fit those of a buffer

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
    s.long_pitch = ld * kElement;
    s.rows = i32(left < Rows ? left : Rows);
    s.in_reach = (AlongRows ? Rows * s.long_pitch + (end - begin) * kElement
                            : kTileK * s.long_pitch + Rows * kElement) < i64(kOutside);
    return s;
  }
  /// What exists of the next stage; the rest reads as zero.
  KILN_MEMBER Buffer buffer() const {
    const u32 depth = u32(k_left < kTileK ? k_left : kTileK);
    u32 bytes = AlongRows ? row_bytes + u32(k_left) * kElement : (depth - 1) * pitch + row_bytes;
    if (lines_follow()) bytes = depth * pitch;
    return buffer_of(at, bytes);
  }
  /// What is left of a line: k, or bytes of rows.
  KILN_MEMBER i32 line_left() const { return AlongRows ? k_left : rows * kElement; }
  /// Whether behind the last line of the next stage there is another one, so that loads may read
  /// what lies between its rows and that, if only for nothing.
  KILN_MEMBER bool lines_follow() const {
    return !AlongRows && k_left > kTileK && pitch % 16 == 0;
  }
  /// Whether loads of Width bytes of the next stage are at addresses that allow them and end with
  /// their lines. Else a stage is copied element by element.
  template <int Width>
  KILN_MEMBER bool whole() const {
    constexpr i32 kAligned = Width < 4 ? Width : 4;
    const bool ends = AlongRows ? k_left >= kTileK || k_left * kElement % Width == 0
                                : lines_follow() || rows * kElement % Width == 0;
    return in_reach && ends && u64(at) % kAligned == 0;
  }
  /// One element of the next stage; zero where there is none. Without branches: the first one is
  /// read instead.
  KILN_MEMBER Raw element(u32 row, u32 k) const {
    const bool there = i32(row) < rows && i32(k) < k_left;
    const i64 offset = AlongRows ? row * long_pitch + k * kElement : k * long_pitch + row * kElement;
    const Raw x = *reinterpret_cast<const Raw*>(at + (there ? offset : 0));
    return there ? x : Raw(0);
  }
  KILN_MEMBER void step() {
    at += AlongRows ? i64(kDepthBytes) : kTileK * long_pitch;
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
  SourceA late_a;  // what the stage comes from: where loads do not fit, it is read when it is stored
  SourceB late_b;
  KILN_MEMBER void load(SourceA& from_a, SourceB& from_b, u32 thread) {
    late_a = from_a;
    if (from_a.whole<kWidthA>())
      a.load(from_a.buffer(), from_a.pitch, thread, from_a.line_left());
    late_b = from_b;
    if (from_b.whole<kWidthB>())
      b.load(from_b.buffer(), from_b.pitch, thread, from_b.line_left());
    from_a.step();
    from_b.step();
  }
  KILN_MEMBER void store(u32 to, u32 thread) const {
    if (late_a.whole<kWidthA>())
      a.store(to, thread);
    else
      copy_elements<kTileM>(to, late_a, thread);
    if (late_b.whole<kWidthB>())
      b.store(to + kBytesA, thread);
    else
      copy_elements<kTileN>(to + kBytesA, late_b, thread);
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
};

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
        if (c + 4 > out.columns) {
          KILN_UNROLL for (int e = 0; e < 3; ++e) if (c + e < out.columns)
              finish_and_store(out, sums[i][j][s + e], r, c + e);
          continue;
        }
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
  const ProductBlock own = product_of(args, block_index());
  if (own.product < 0) return;
  args = args_of_listed(args, own.product);
  args.batch = 1;
  Work work = work_of(args, own.block);
  work.batch = own.product;
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

// ---- hip/common/take_list.hip ----
// The steps before a list's products. Expects abi.h, list_chunk.h, types.h, device.h, groups.h.

/// Writes entries to their places in the workspace, where the kernel of the products reads them, and
/// counts their tiles on from those of the step before.
KILN_KERNEL(128, 1) kiln_take_list(KilnGpuArgs args, KilnListChunk chunk) {
  const u64* const from = reinterpret_cast<const u64*>(chunk.entries);
  u64* const to = reinterpret_cast<u64*>(static_cast<KilnListEntry*>(args.workspace) + chunk.first);
  const u32 words = u32(chunk.count) * u32(sizeof(KilnListEntry) / sizeof(u64));
  for (u32 i = thread_index(); i < words; i += 128) to[i] = from[i];
  if (thread_index() != 0) return;
  u32* const counts = tile_counts_of(args) + chunk.first;
  u32 count = chunk.first == 0 ? 0 : counts[-1];
  for (i32 i = 0; i < i32(chunk.count); ++i) {
    const KilnListEntry& entry = chunk.entries[i];
    count += (u32(entry.m) + kTileM - 1) / kTileM * ((u32(entry.n) + kTileN - 1) / kTileN);
    counts[i] = count;
  }
}
