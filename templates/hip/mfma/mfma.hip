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
  //% if edges
  static constexpr bool kAlong = AlongRows;
  //% end
  const u8* at;
  u32 pitch;      // bytes
  u32 row_bytes;  // across k: of the rows that exist; along k: of all rows but the last
  i32 k_left;
  //% if edges
  i64 long_pitch;  // bytes
  i32 rows;        // that exist
  bool in_reach;   // offsets in the tile fit those of a buffer
  //% end

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
    //% if edges
    s.long_pitch = ld * kElement;
    s.rows = i32(left < Rows ? left : Rows);
    s.in_reach = (AlongRows ? Rows * s.long_pitch + (end - begin) * kElement
                            : kTileK * s.long_pitch + Rows * kElement) < i64(kOutside);
    //% end
    return s;
  }
  /// What exists of the next stage; the rest reads as zero.
  KILN_MEMBER Buffer buffer() const {
    const u32 depth = u32(k_left < kTileK ? k_left : kTileK);
    u32 bytes = AlongRows ? row_bytes + u32(k_left) * kElement : (depth - 1) * pitch + row_bytes;
    //% if edges
    if (lines_follow()) bytes = depth * pitch;
    //% end
    //% if pace == interleaved
    bytes = k_left > 0 ? bytes : 0;
    //% end
    return buffer_of(at, bytes);
  }
  //% if edges
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
  //% end
  KILN_MEMBER void step() {
    //% if edges
    at += AlongRows ? i64(kDepthBytes) : kTileK * long_pitch;
    //% else
    at += AlongRows ? i64(kDepthBytes) : i64(kTileK) * pitch;
    //% end
    k_left -= kTileK;
  }
};

using SourceA = Source<kAlongA, kTileM>;
using SourceB = Source<kAlongB, kTileN>;
//% if !direct
//% if along_a
using StageA = AlongK<kTileM, kWidthA>;
//% end
//% if turned_a
using StageA = Turned<kTileM, kWidthA>;
//% end
//% if !along_a && !turned_a
using StageA = AcrossK<kTileM, kWidthA>;
//% end
//% if along_b
using StageB = AlongK<kTileN, kWidthB>;
//% end
//% if turned_b
using StageB = Turned<kTileN, kWidthB>;
//% end
//% if !along_b && !turned_b
using StageB = AcrossK<kTileN, kWidthB>;
//% end

/// The next stage on its way through registers.
struct Next {
  static constexpr int kStores = StageA::kStores + StageB::kStores;
  StageA a;
  StageB b;
  //% if edges_a
  SourceA late_a;  // what the stage comes from: where loads do not fit, it is read when it is stored
  //% end
  //% if edges_b
  SourceB late_b;
  //% end
  KILN_MEMBER void load(SourceA& from_a, SourceB& from_b, u32 thread) {
    //% if edges_a
    late_a = from_a;
    if (from_a.whole<kWidthA>())
      a.load(from_a.buffer(), from_a.pitch, thread, from_a.line_left());
    //% else
    a.load(from_a.buffer(), from_a.pitch, thread, from_a.k_left);
    //% end
    //% if edges_b
    late_b = from_b;
    if (from_b.whole<kWidthB>())
      b.load(from_b.buffer(), from_b.pitch, thread, from_b.line_left());
    //% else
    b.load(from_b.buffer(), from_b.pitch, thread, from_b.k_left);
    //% end
    from_a.step();
    from_b.step();
  }
  KILN_MEMBER void store(u32 to, u32 thread) const {
    //% if edges_a
    if (late_a.whole<kWidthA>())
      a.store(to, thread);
    else
      //% if turned_a
      copy_elements_turned<kTileM>(to, late_a, thread);
      //% else
      copy_elements<kTileM>(to, late_a, thread);
      //% end
    //% else
    a.store(to, thread);
    //% end
    //% if edges_b
    if (late_b.whole<kWidthB>())
      b.store(to + kBytesA, thread);
    else
      //% if turned_b
      copy_elements_turned<kTileN>(to + kBytesA, late_b, thread);
      //% else
      copy_elements<kTileN>(to + kBytesA, late_b, thread);
      //% end
    //% else
    b.store(to + kBytesA, thread);
    //% end
  }
};
//% else

//% if turned_a
using StageA = TurnedDirect<kTileM>;
//% else
using StageA = Direct<kTileM>;
//% end
//% if turned_b
using StageB = TurnedDirect<kTileN>;
//% else
using StageB = Direct<kTileN>;
//% end

KILN_DEVICE void load_stage(u32 to, SourceA& a, SourceB& b, u32 thread) {
  StageA::load(to, a.buffer(), a.pitch, thread, a.k_left);
  StageB::load(to + kBytesA, b.buffer(), b.pitch, thread, b.k_left);
  a.step();
  b.step();
}
//% end

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
      //% if turned_b
      return read_unit_turned<kTileN>(stage + kBytesA, rows.b + j * kRows, unit);
      //% else
      return ds_read_b128(stage + kBytesA + unit_address(rows.b + j * kRows, unit));
      //% end
    });
  }
  /// Blocks of A's rows from `first` to `end`; so too below.
  KILN_MEMBER void read_a(u32 stage, LaneRows rows, u32 step, int first, int end) {
    KILN_UNROLL for (int i = first; i < end; ++i) a[i].read(step, rows.group, [&](u32 unit) {
      //% if turned_a
      return read_unit_turned<kTileM>(stage, rows.a + i * kRows, unit);
      //% else
      return ds_read_b128(stage + unit_address(rows.a + i * kRows, unit));
      //% end
    });
  }
  KILN_MEMBER void add_products(Tile& sums, int first, int end) const {
    KILN_UNROLL for (int p = 0; p < kPieces; ++p) KILN_UNROLL for (int i = first; i < end; ++i)
        KILN_UNROLL for (int j = 0; j < kBlocksN; ++j) sums[i][j] = KILN_MFMA(
            b[j].template piece<FragmentA>(p), a[i].template piece<FragmentB>(p), sums[i][j]);
  }
  //% if pace != pingpong
  KILN_MEMBER void read(u32 stage, LaneRows rows, u32 step) {
    read_a(stage, rows, step, 0, kBlocksM);
    read_b(stage, rows, step);
  }
  KILN_MEMBER void add_products(Tile& sums) const { add_products(sums, 0, kBlocksM); }
  //% end
};
