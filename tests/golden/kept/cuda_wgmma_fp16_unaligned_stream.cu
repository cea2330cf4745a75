// device:  sm_90a
// problem: fp16 T N 1023 1023 1023 epilogue=bias_col+gelu+residual
// config:  cuda_wgmma left=128 right=96 stages=6 warpgroups=2 pingpong=0 swap=1 cluster_left=2 cluster_right=1 sharing=stream splits=1 along=right group=8 pack_a=1 pack_b=1 keep_right=0 promote=0

// ---- parameters ----
using TypeA = Half;                             // elements of A
using TypeB = Half;                             // elements of B
using TypeD = Half;                             // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 128;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 96;                  // rows of the right operand in it
constexpr int kDepth = 64;                      // k of one stage
constexpr int kStages = 6;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 48;                       // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 2;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kPiecesAtOnce = 2;                // parts whose accumulators are fetched together
constexpr int kChunk = 32;                      // right rows that one store buffer holds
constexpr int kStoreBuffers = 1;                // of each warp
constexpr int kHeld = 16;                       // sums of a thread that are finished together
constexpr int kCopyRegisters = 56;              // of the warps that copy
constexpr int kMultiplyRegisters = 224;         // of the warps that multiply
constexpr int kTurnBarrier = 1;                 // named barriers 1 and 2: whose turn it is
constexpr int kGroupBarrier = 3;                // named barriers from 3 on: one a warpgroup
constexpr int kCounterBytes = 65536;            // front of the workspace
constexpr bool kPackA = true;                   // A is copied into the workspace first
constexpr bool kPackB = true;                   // B is copied into the workspace first
constexpr bool kAlongKA = false;                // A's neighbours run along k
constexpr bool kAlongKB = false;                // B's neighbours run along k
constexpr bool kSwap = true;                    // left is B: D's tile is computed transposed
constexpr bool kLeftAcrossK = true;             // the left operand's rows are neighbours in memory
constexpr bool kRightAcrossK = true;            // the right operand's rows are neighbours
constexpr u64 kLeftHint = 0x1000000000000000;   // L2 policy: evict first, or normal
constexpr u64 kRightHint = 0x1000000000000000;  // L2 policy: evict last, or normal
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16"
#define KILN_WGMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47}"
#define KILN_WGMMA_OPERANDS "%48, %49, p, 1, 1, 1, 1"
#define KILN_WGMMA_ACCUMULATE "50"
#define KILN_WGMMA_TIED(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]), "+f"((d)[4]), "+f"((d)[5]), "+f"((d)[6]), "+f"((d)[7]), \
  "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11]), "+f"((d)[12]), "+f"((d)[13]), "+f"((d)[14]), "+f"((d)[15]), \
  "+f"((d)[16]), "+f"((d)[17]), "+f"((d)[18]), "+f"((d)[19]), "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23]), \
  "+f"((d)[24]), "+f"((d)[25]), "+f"((d)[26]), "+f"((d)[27]), "+f"((d)[28]), "+f"((d)[29]), "+f"((d)[30]), "+f"((d)[31]), \
  "+f"((d)[32]), "+f"((d)[33]), "+f"((d)[34]), "+f"((d)[35]), "+f"((d)[36]), "+f"((d)[37]), "+f"((d)[38]), "+f"((d)[39]), \
  "+f"((d)[40]), "+f"((d)[41]), "+f"((d)[42]), "+f"((d)[43]), "+f"((d)[44]), "+f"((d)[45]), "+f"((d)[46]), "+f"((d)[47])
#define KILN_WGMMA_REGISTER "f"
#define KILN_TURN_BRANCHES "turns: .branchtargets t0, t1, t2;\n" \
  "brx.idx %64, turns;\n" \
  "t0: mov.b32 %0, %16; mov.b32 %1, %17; mov.b32 %2, %18; mov.b32 %3, %19; mov.b32 %4, %20; mov.b32 %5, %21; mov.b32 %6, %22; mov.b32 %7, %23; mov.b32 %8, %24; mov.b32 %9, %25; mov.b32 %10, %26; mov.b32 %11, %27; mov.b32 %12, %28; mov.b32 %13, %29; mov.b32 %14, %30; mov.b32 %15, %31;\nbra done;\n" \
  "t1: mov.b32 %0, %32; mov.b32 %1, %33; mov.b32 %2, %34; mov.b32 %3, %35; mov.b32 %4, %36; mov.b32 %5, %37; mov.b32 %6, %38; mov.b32 %7, %39; mov.b32 %8, %40; mov.b32 %9, %41; mov.b32 %10, %42; mov.b32 %11, %43; mov.b32 %12, %44; mov.b32 %13, %45; mov.b32 %14, %46; mov.b32 %15, %47;\nbra done;\n" \
  "t2: mov.b32 %0, %48; mov.b32 %1, %49; mov.b32 %2, %50; mov.b32 %3, %51; mov.b32 %4, %52; mov.b32 %5, %53; mov.b32 %6, %54; mov.b32 %7, %55; mov.b32 %8, %56; mov.b32 %9, %57; mov.b32 %10, %58; mov.b32 %11, %59; mov.b32 %12, %60; mov.b32 %13, %61; mov.b32 %14, %62; mov.b32 %15, %63;\n"
#define KILN_TURN_TAKEN(d) "=&f"((d)[0]), "=&f"((d)[1]), "=&f"((d)[2]), "=&f"((d)[3]), "=&f"((d)[4]), "=&f"((d)[5]), "=&f"((d)[6]), "=&f"((d)[7]), "=&f"((d)[8]), "=&f"((d)[9]), "=&f"((d)[10]), "=&f"((d)[11]), "=&f"((d)[12]), "=&f"((d)[13]), "=&f"((d)[14]), "=&f"((d)[15])
#define KILN_TURN_SUMS(d) "f"((d)[0][0]), "f"((d)[0][1]), "f"((d)[0][2]), "f"((d)[0][3]), "f"((d)[0][4]), "f"((d)[0][5]), \
  "f"((d)[0][6]), "f"((d)[0][7]), "f"((d)[0][8]), "f"((d)[0][9]), "f"((d)[0][10]), "f"((d)[0][11]), \
  "f"((d)[0][12]), "f"((d)[0][13]), "f"((d)[0][14]), "f"((d)[0][15]), "f"((d)[0][16]), "f"((d)[0][17]), \
  "f"((d)[0][18]), "f"((d)[0][19]), "f"((d)[0][20]), "f"((d)[0][21]), "f"((d)[0][22]), "f"((d)[0][23]), \
  "f"((d)[0][24]), "f"((d)[0][25]), "f"((d)[0][26]), "f"((d)[0][27]), "f"((d)[0][28]), "f"((d)[0][29]), \
  "f"((d)[0][30]), "f"((d)[0][31]), "f"((d)[0][32]), "f"((d)[0][33]), "f"((d)[0][34]), "f"((d)[0][35]), \
  "f"((d)[0][36]), "f"((d)[0][37]), "f"((d)[0][38]), "f"((d)[0][39]), "f"((d)[0][40]), "f"((d)[0][41]), \
  "f"((d)[0][42]), "f"((d)[0][43]), "f"((d)[0][44]), "f"((d)[0][45]), "f"((d)[0][46]), "f"((d)[0][47])
#define KILN_ACC_IN(x) "f"(x)
#define KILN_ACC_OUT(x) "=f"(x)

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
  int part, parts;  // which of how many parts of the tile's k
  int tile;         // number of the cluster's tile
  u32 first_slot;   // of the workspace, for the accumulators of the tile's first part
};

struct TileScheduler {
  int lefts, rights;  // tiles of a cluster along either side
  int stages;         // of k
  int tiles;          // of all batches
  int next;
  int clusters;
  u32 rank;  // of the block in its cluster
  int divided_tiles;  // the first ones, whose k is divided evenly among all clusters
  int position, end;  // of this cluster's part of their k, in stages

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
    s.clusters = int(gridDim.x) / (kClusterLeft * kClusterRight);
    s.next = int(blockIdx.x) / (kClusterLeft * kClusterRight);
    // Stream-K: full waves but the last go tile by tile; the k of the rest, one to two waves, is
    // divided evenly.
    const int left_over = s.tiles % s.clusters;
    s.divided_tiles = left_over == 0 ? 0 : min(s.tiles, left_over + s.clusters);
    const u32 all = u32(s.divided_tiles * s.stages);
    s.position = int(u32(s.next) * all / u32(s.clusters));
    s.end = int(u32(s.next + 1) * all / u32(s.clusters));
    s.next += s.divided_tiles;
    return s;
  }

  /// Rasterization in bands of kGroup tiles along one side, so that L2 serves what they share.
  __device__ __forceinline__ void place(Work& work, int tile) const {
    work.batch = 0;
    const int at = tile;
    const int band = at / (kGroup * lefts), in_band = at - band * kGroup * lefts;
    const int height = min(rights - band * kGroup, kGroup);
    const int across = in_band / height;
    work.right = band * kGroup + in_band - across * height;
    work.left = across;
    work.left = work.left * kClusterLeft + int(rank % kClusterLeft);
    work.right = work.right * kClusterRight + int(rank / kClusterLeft);
  }

  /// The block's next work; false when there is none.
  __device__ __forceinline__ bool take(Work& work) {
    if (position < end) {
      const int tile = position / stages;
      const u32 all = u32(divided_tiles * stages), before = u32(tile * stages);
      work.begin = position - tile * stages;
      work.count = min(stages - work.begin, end - position);
      const int first = int(((before + 1) * u32(clusters) - 1) / all);
      const int last = int(((before + u32(stages)) * u32(clusters) - 1) / all);
      work.parts = last - first + 1;
      work.part = int(blockIdx.x) / (kClusterLeft * kClusterRight) - first;
      work.tile = tile;
      work.first_slot = u32(first) * 2 + 1;
      position += work.count;
      place(work, tile);
      return true;
    }
    if (next >= tiles) return false;
    const int tile = next;
    work.begin = 0;
    work.count = stages;
    work.part = 0;
    work.parts = 1;
    next += clusters;
    place(work, tile);
    return true;
  }
};

// ---- cuda/common/partials.h ----
// Partial accumulators of tiles whose k is divided: where in the workspace each part's are.
// The block that stores its part last reduces them all in the order of k, so that the same call
// gives the same bits. The workspace holds a counter a tile (zero between calls: that block resets
// it), then the slots.
// Expects tile_scheduler.h.

/// The slot of part `part` of a tile.
/// A cluster has at most two unfinished parts: one that ends a tile (slot 2c), one that begins a
/// tile (slot 2c + 1).
KILN_DEVICE u32 slot_of(const Work& work, int part) {
  return part == 0 ? work.first_slot : work.first_slot + 2 * u32(part) - 1;
}

// ---- cuda/wgmma/store.h ----
// A warp's sums to D: finished in registers a chunk at a time, then through swizzled buffers of its
// own in shared memory and the copy engine, or coalesced stores, or straight from registers. Warps
// never wait for each other here. Expects epilogue.h, hopper_ptx.h, store_ptx.h.

/// Element (row of left, row of right) of a tile as (row, column) of D.
KILN_DEVICE i64 row_of(i64 left, i64 right) { return kSwap ? right : left; }
KILN_DEVICE i64 column_of(i64 left, i64 right) { return kSwap ? left : right; }

KILN_DEVICE Real real_of(float x) { return x; }
KILN_DEVICE float kept(Real x) { return x; }
KILN_DEVICE Real first_real(float sum) { return sum; }

constexpr int kTurns = kSubtiles * kSums / kHeld;

/// What one turn sees.
namespace of_turn {
constexpr int kSums = kHeld;
constexpr int kPart = kSums;
/// Sums that are finished together: enough loads in flight, few registers beside the sums.
constexpr int kTogether = kPart % 16 == 0 ? 16 : kPart % 8 == 0 ? 8 : 4;

/// The elements of a matrix like D under sums [i, i + kTogether); zero outside. `left`, `right`: of
/// sum 0.
KILN_DEVICE void load_under(Real (&x)[kTogether],
                            const TypeD* from,
                            i64 ld, const Output& out, i64 left, i64 right, int i) {
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    const i64 row = row_of(l, r), column = column_of(l, r);
    x[e] = row < out.rows && column < out.columns ? to_real(from[row * ld + column]) : Real(0);
  }
}

/// What the expression reads of matrices for sums [i, i + kTogether).
KILN_DEVICE void load_words(Words (&words)[kTogether / 2], const Output& out, i64 left, i64 right,
                            int i, bool in_pairs) {
  constexpr int kDown = kSwap ? 1 : 0, kRight = kSwap ? 0 : 1;
  if (in_pairs) {
    _Pragma("unroll") for (int e = 0; e < kTogether; e += 2) {
      const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8;
      words[e / 2] = words_inside<kDown, kRight>(out, row_of(l, r), column_of(l, r));
    }
  } else {
    _Pragma("unroll") for (int e = 0; e < kTogether; e += 2) {
      const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8;
      words[e / 2] = words_at_edge<kDown, kRight>(out, row_of(l, r), column_of(l, r));
    }
  }
}
template <bool Inside>
KILN_DEVICE void make_extras(Extras (&extras)[kTogether], const Words (&words)[kTogether / 2],
                             const Output& out, i64 left, i64 right, int i) {
  _Pragma("unroll") for (int e = 0; e < kTogether; e += 2) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8;
    extras_of_two<kSwap ? 1 : 0, kSwap ? 0 : 1, Inside>(out, words[e / 2], row_of(l, r),
                                                        column_of(l, r), extras[e], extras[e + 1]);
  }
}

/// alpha, beta·C and the rest for sums [i, i + kTogether), in place.
KILN_DEVICE void finish_sums(Acc (&sums)[kSums], const Output& out, i64 left, i64 right,
                             const Words (&words)[kTogether / 2], bool inside, bool in_pairs,
                             int i) {
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e)
    sums[i + e] = kept(product(first_real(sums[i + e]), out.alpha));
  if (out.c) {
    Real c[kTogether];
    load_under(c, out.c, out.ldc, out, left, right, i);
    _Pragma("unroll") for (int e = 0; e < kTogether; ++e)
      sums[i + e] = kept(real_of(sums[i + e]) + out.beta * c[e]);
  }
  Extras extras[kTogether];
  if (inside)
    make_extras<true>(extras, words, out, left, right, i);
  else
    make_extras<false>(extras, words, out, left, right, i);
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    sums[i + e] = kept(finish(out, real_of(sums[i + e]), row_of(l, r), column_of(l, r), extras[e]));
  }
  // Otherwise loads of later sums move up here, and sums already fill the registers.
  compiler_barrier();
}

KILN_DEVICE TypeD stored(Acc sum, bool exact) {
  return from_real(real_of(sum), TypeD{});
}

constexpr int kPitch = (kSwap ? 16 : kChunk) * int(sizeof(TypeD));  // bytes of a buffer's row

KILN_DEVICE u32 swizzled(int row, int unit) { return swizzled_byte(row, unit, kPitch); }

struct alignas(8) FourD {
  TypeD element[4];
};

/// A buffer's elements to D in words of 8 bytes, cut where memory is aligned, whatever the row's
/// first address is. (row0, column0) is the buffer's first element.
KILN_DEVICE void drain_buffer(u32 buffer, const Output& out, i64 row0, i64 column0, int lane) {
  constexpr int kRows = kSwap ? kChunk : 16, kLength = kSwap ? 16 : kChunk;
  constexpr int kWords = kLength / 4 + 1;
  const int length = int(min(i64(kLength), out.columns - column0));
  for (int t = lane; t < kRows * kWords; t += 32) {
    const int row = t / kWords;
    if (row0 + row >= out.rows) continue;
    TypeD* d = out.d + (row0 + row) * out.ldd + column0;
    const int first = t % kWords * 4 - int(reinterpret_cast<u64>(d) >> 1 & 3);
    FourD some;
    _Pragma("unroll") for (int e = 0; e < 4; ++e) {
      const int at = max(0, min(first + e, kLength - 1));
      some.element[e].bits = load_shared_half(buffer + swizzled(row, at / 8) + at % 8 * 2);
    }
    if (first >= 0 && first + 4 <= length) {
      *reinterpret_cast<FourD*>(d + first) = some;
    } else {
      _Pragma("unroll") for (int e = 0; e < 4; ++e)
        if (first + e >= 0 && first + e < length) d[first + e] = some.element[e];
    }
  }
}
}  // namespace of_turn

/// A warp's sums of a turn, 16 left rows by 2 * kHeld right rows of D, into its buffer: `word(i)`
/// is what of sums i and i + 1.
template <typename F>
KILN_DEVICE void fill_with_pairs(u32 buffer, int lane, F&& word) {
  constexpr int kPitch = (kSwap ? 16 : kHeld * 2) * 2;
  _Pragma("unroll") for (int g = 0; g < kHeld / 4; g += kHeld == 4 ? 1 : 2) {
    const int i = g * 4;
    const int row = g * 8 + (lane & 7) + (kHeld == 4 ? 0 : (lane >> 4) << 3);
    const u32 to = buffer + swizzled_byte(row, (lane >> 3) & 1, kPitch);
    if constexpr (kHeld == 4)
      stmatrix_x2_trans(to, word(i), word(i + 2));
    else
      stmatrix_x4_trans(to, word(i), word(i + 2), word(i + 4), word(i + 6));
  }
}

/// A warp's part of a tile: its first element, and whether all of it is in D, in words of memory.
struct WarpTile {
  i64 left0, right0;
  bool inside, in_pairs;
};
KILN_DEVICE WarpTile warp_tile(const Output& out, const Work& work, u32 row_offset, int thread) {
  WarpTile at;
  at.left0 = i64(work.left) * kLeftTile + row_offset + thread / 32 * 16;
  at.right0 = i64(work.right) * kRightTile;
  at.inside = at.left0 + (kSubtiles * 64 - 48) <= (kSwap ? out.columns : out.rows) &&
              at.right0 + kRightTile <= (kSwap ? out.rows : out.columns);
  at.in_pairs = at.inside && pairs_fit(out);
  return at;
}
KILN_DEVICE void load_turn(Words (&words)[kHeld / 2], const Output& out, const WarpTile& at,
                           int turn, int lane) {
  of_turn::load_words(words, out, at.left0 + turn / (kSums / kHeld) * 64 + lane / 4,
                      at.right0 + turn % (kSums / kHeld) * (kHeld * 2) + lane % 4 * 2, 0,
                      at.in_pairs);
}

/// One warpgroup's part of a tile.
KILN_DEVICE void store_tile(
    const Acc (&sums)[kSubtiles][kSums],
    const Work& work, const KilnGpuArgs& args, const KilnTensorMap* map_d, u32 buffers,
    u32 row_offset, int group, int thread) {
  Output out = output_of(args, work.batch);
  keep_in_register(out.alpha);
  const int warp = thread / 32, lane = thread & 31;
  const WarpTile at = warp_tile(out, work, row_offset, thread);
  const bool exact = false;
  const u32 mine = buffers + u32(group * 4 + warp) * kStoreBuffers * kBufferBytes;
  constexpr int kUnrolled = 1;
  // What the next turn needs of matrices is on its way while this one computes.
  Words next[kHeld / 2];
  load_turn(next, out, at, 0, lane);
  _Pragma("unroll kUnrolled") for (int turn = 0; turn < kTurns; ++turn) {
    const i64 left = at.left0 + turn / (kSums / kHeld) * 64;
    const i64 right = at.right0 + turn % (kSums / kHeld) * (kHeld * 2);
    Acc some[kHeld];
    take_sums(some, sums, turn);
    Words words[kHeld / 2];
    _Pragma("unroll") for (int e = 0; e < kHeld / 2; ++e) words[e] = next[e];
    if (turn + 1 < kTurns) load_turn(next, out, at, turn + 1, lane);
    of_turn::finish_sums(some, out, left + lane / 4, right + lane % 4 * 2, words, at.inside,
                         at.in_pairs, 0);
    const u32 here = mine + u32(turn % kStoreBuffers) * kBufferBytes;
    fill_with_pairs(here, lane, [&](int i) {
      return pack_two(real_of(some[i]), real_of(some[i + 1]), TypeD{});
    });
    __syncwarp();
    of_turn::drain_buffer(here, out, row_of(left, right), column_of(left, right), lane);
    __syncwarp();
  }
}

// ---- cuda/wgmma/combine_ptx.h ----
// Accumulators to and from the workspace, and a block's own words of shared memory.

KILN_DEVICE void store_four(Acc* to, const Acc* from) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), KILN_ACC_IN(from[0]),
               KILN_ACC_IN(from[1]), KILN_ACC_IN(from[2]), KILN_ACC_IN(from[3])
               : "memory");
}
/// Past L1, which may hold what another block has overwritten since.
KILN_DEVICE void load_four(Acc (&to)[4], const Acc* from) {
  asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];"
               : KILN_ACC_OUT(to[0]), KILN_ACC_OUT(to[1]), KILN_ACC_OUT(to[2]), KILN_ACC_OUT(to[3])
               : "l"(from)
               : "memory");
}
KILN_DEVICE void store_shared_word(u32 to, u32 value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}
KILN_DEVICE u32 load_shared_word(u32 from) {
  u32 value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
  return value;
}

// ---- cuda/wgmma/combine.h ----
// The reduction of partial accumulators by the block that finishes a tile last. Expects partials.h,
// combine_ptx.h.

/// True for the warpgroup that must finish the tile; its accumulators are then the
/// whole tile's.
KILN_DEVICE bool combine(Acc (&sums)[kSubtiles][kSums], const Work& work,
                         const TileScheduler& scheduler, const KilnGpuArgs& args, u32 flags,
                         int group, int region, int thread) {
  if (work.parts == 1) return true;
  constexpr int kRegion = kSubtiles * kSums * 128;  // accumulators of one warpgroup
  u32* counter = static_cast<u32*>(args.workspace) +
                 (i64(work.tile) * kCluster + scheduler.rank) * kRegions + region;
  Acc* partial =
      reinterpret_cast<Acc*>(static_cast<unsigned char*>(args.workspace) + sums_at(args)) +
      thread * 4;
  const auto at = [&](int part) {
    return partial +
           ((i64(slot_of(work, part)) * kCluster + scheduler.rank) * kRegions + region) * kRegion;
  };
  Acc* mine = at(work.part);
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int r = 0; r < kSums; r += 4)
      store_four(mine + (s * kSums + r) * 128, &sums[s][r]);
  // The barrier, then the one arrival that releases, publish what every thread stored.
  named_barrier_sync(kGroupBarrier + group, 128);
  if (thread == 0) {
    const bool last = count_arrival(counter) == u32(work.parts - 1);
    if (last) *counter = 0;
    store_shared_word(flags + group * 4, last);
  }
  named_barrier_sync(kGroupBarrier + group, 128);
  const bool last = load_shared_word(flags + group * 4) != 0;
  // The flag may be written again only when every thread has read it.
  named_barrier_sync(kGroupBarrier + group, 128);
  if (!last) return false;
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[s][r] = Acc(0);
  // A wait for memory takes some 700 cycles, so several parts are on their way at once.
  for (int first = 0; first < work.parts; first += kPiecesAtOnce) {
    Acc some[kPiecesAtOnce][kSubtiles][kSums / 4][4];
    _Pragma("unroll") for (int p = 0; p < kPiecesAtOnce; ++p) {
      // Past the end the last part is read again, and not added.
      const Acc* from = at(min(first + p, work.parts - 1));
      _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
        _Pragma("unroll") for (int r = 0; r < kSums / 4; ++r)
          load_four(some[p][s][r], from + (s * kSums + r * 4) * 128);
    }
    _Pragma("unroll") for (int p = 0; p < kPiecesAtOnce; ++p) {
      const bool there = first + p < work.parts;
      _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
        _Pragma("unroll") for (int r = 0; r < kSums; ++r)
          sums[s][r] += there ? some[p][s][r / 4][r % 4] : Acc(0);
    }
  }
  return true;
}
