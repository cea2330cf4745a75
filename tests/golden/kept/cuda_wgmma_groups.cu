// device:  sm_90a
// problem: bf16 N T 8192 4096 7168 groups=8 grouped=rows align=16
// config:  cuda_wgmma left=128 right=256 stages=4 warpgroups=2 pingpong=0 swap=0 cluster_left=1 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 promote=0

// ---- parameters ----
using TypeA = Bfloat;                           // elements of A
using TypeB = Bfloat;                           // elements of B
using TypeD = Bfloat;                           // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 128;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 256;                 // rows of the right operand in it
constexpr int kDepth = 64;                      // k of one stage
constexpr int kStages = 4;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 128;                      // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kGroupRows = 128;                 // rows of A in a tile, of a cluster if any
constexpr int kMostGroups = 64;                 // room in the tables of groups
constexpr int kChunk = 64;                      // right rows that one store buffer holds
constexpr int kStoreBuffers = 2;                // of each warp
constexpr int kCopyRegisters = 40;              // of the warps that copy
constexpr int kMultiplyRegisters = 232;         // of the warps that multiply
constexpr int kTurnBarrier = 1;                 // named barriers 1 and 2: whose turn it is
constexpr int kGroupBarrier = 3;                // named barriers from 3 on: one a warpgroup
constexpr int kCounterBytes = 0;                // front of the workspace
constexpr bool kPackA = false;                  // A is copied into the workspace first
constexpr bool kPackB = false;                  // B is copied into the workspace first
constexpr bool kAlongKA = true;                 // A's neighbours run along k
constexpr bool kAlongKB = true;                 // B's neighbours run along k
constexpr bool kSwap = false;                   // left is B: D's tile is computed transposed
constexpr bool kLeftAcrossK = false;            // the left operand's rows are neighbours in memory
constexpr bool kRightAcrossK = false;           // the right operand's rows are neighbours
constexpr u64 kLeftHint = 0x1000000000000000;   // L2 policy: evict first, or normal
constexpr u64 kRightHint = 0x1000000000000000;  // L2 policy: evict last, or normal
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"
#define KILN_WGMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63, " \
  "%64, %65, %66, %67, %68, %69, %70, %71, " \
  "%72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, " \
  "%88, %89, %90, %91, %92, %93, %94, %95, " \
  "%96, %97, %98, %99, %100, %101, %102, %103, " \
  "%104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, " \
  "%120, %121, %122, %123, %124, %125, %126, %127}"
#define KILN_WGMMA_OPERANDS "%128, %129, p, 1, 1, 0, 0"
#define KILN_WGMMA_ACCUMULATE "130"
#define KILN_WGMMA_TIED(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]), "+f"((d)[4]), "+f"((d)[5]), "+f"((d)[6]), "+f"((d)[7]), \
  "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11]), "+f"((d)[12]), "+f"((d)[13]), "+f"((d)[14]), "+f"((d)[15]), \
  "+f"((d)[16]), "+f"((d)[17]), "+f"((d)[18]), "+f"((d)[19]), "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23]), \
  "+f"((d)[24]), "+f"((d)[25]), "+f"((d)[26]), "+f"((d)[27]), "+f"((d)[28]), "+f"((d)[29]), "+f"((d)[30]), "+f"((d)[31]), \
  "+f"((d)[32]), "+f"((d)[33]), "+f"((d)[34]), "+f"((d)[35]), "+f"((d)[36]), "+f"((d)[37]), "+f"((d)[38]), "+f"((d)[39]), \
  "+f"((d)[40]), "+f"((d)[41]), "+f"((d)[42]), "+f"((d)[43]), "+f"((d)[44]), "+f"((d)[45]), "+f"((d)[46]), "+f"((d)[47]), \
  "+f"((d)[48]), "+f"((d)[49]), "+f"((d)[50]), "+f"((d)[51]), "+f"((d)[52]), "+f"((d)[53]), "+f"((d)[54]), "+f"((d)[55]), \
  "+f"((d)[56]), "+f"((d)[57]), "+f"((d)[58]), "+f"((d)[59]), "+f"((d)[60]), "+f"((d)[61]), "+f"((d)[62]), "+f"((d)[63]), \
  "+f"((d)[64]), "+f"((d)[65]), "+f"((d)[66]), "+f"((d)[67]), "+f"((d)[68]), "+f"((d)[69]), "+f"((d)[70]), "+f"((d)[71]), \
  "+f"((d)[72]), "+f"((d)[73]), "+f"((d)[74]), "+f"((d)[75]), "+f"((d)[76]), "+f"((d)[77]), "+f"((d)[78]), "+f"((d)[79]), \
  "+f"((d)[80]), "+f"((d)[81]), "+f"((d)[82]), "+f"((d)[83]), "+f"((d)[84]), "+f"((d)[85]), "+f"((d)[86]), "+f"((d)[87]), \
  "+f"((d)[88]), "+f"((d)[89]), "+f"((d)[90]), "+f"((d)[91]), "+f"((d)[92]), "+f"((d)[93]), "+f"((d)[94]), "+f"((d)[95]), \
  "+f"((d)[96]), "+f"((d)[97]), "+f"((d)[98]), "+f"((d)[99]), "+f"((d)[100]), "+f"((d)[101]), "+f"((d)[102]), "+f"((d)[103]), \
  "+f"((d)[104]), "+f"((d)[105]), "+f"((d)[106]), "+f"((d)[107]), "+f"((d)[108]), "+f"((d)[109]), "+f"((d)[110]), "+f"((d)[111]), \
  "+f"((d)[112]), "+f"((d)[113]), "+f"((d)[114]), "+f"((d)[115]), "+f"((d)[116]), "+f"((d)[117]), "+f"((d)[118]), "+f"((d)[119]), \
  "+f"((d)[120]), "+f"((d)[121]), "+f"((d)[122]), "+f"((d)[123]), "+f"((d)[124]), "+f"((d)[125]), "+f"((d)[126]), "+f"((d)[127])
#define KILN_WGMMA_REGISTER "f"
#define KILN_ACC_IN(x) "f"(x)
#define KILN_ACC_OUT(x) "=f"(x)

// ---- cuda/common/groups_ptx.h ----
// Words of shared memory, by address.

KILN_DEVICE void store_shared_word(u32 to, u32 value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}
KILN_DEVICE u32 load_shared_word(u32 from) {
  u32 value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
  return value;
}

// ---- cuda/common/group_args.h ----
// One group of a grouped problem as a product of its own. Expects abi.h and, from the parameters,
// the types.

/// The call of one group's product, seen as a batch's: `step_a` elements lie between rows of A.
KILN_DEVICE KilnGpuArgs args_of_group(const KilnGpuArgs& args, i64 group, i64 first_row, i64 rows,
                                      i64 step_a) {
  KilnGpuArgs own = args;
  own.m = rows;
  own.batch = 1;
  own.a = static_cast<const TypeA*>(args.a) + first_row * step_a;
  own.d = static_cast<TypeD*>(args.d) + first_row * args.ldd;
  own.c = static_cast<const TypeD*>(args.c) + first_row * args.ldc;
  own.residual = static_cast<const TypeD*>(args.residual) + first_row * args.ldd;
  using TypeBias = Real;
  // Less what output_of() adds for a batch.
  return own;
}

// ---- cuda/common/groups.h ----
// A grouped problem's groups: which rows of A and D each has, and which tiles. The list of them
// lies in the device's memory, so each block reads it and counts tiles before its first one.
// Expects abi.h, epilogue.h, groups_ptx.h, group_args.h.

/// Two tables in shared memory, of kMostGroups words and one more.
struct Groups {
  u32 ends;   // of each group the row behind its last one, or with masked rows their number
  u32 tiles;  // before each group, and of all
  int count;

  static __device__ __forceinline__ Groups at(u32 base, const KilnGpuArgs& args) {
    return {base, base + kMostGroups * 4, int(args.batch)};
  }
  /// What the list may not say becomes the nearest that it may. By all threads of a block.
  __device__ __forceinline__ void read(const KilnGpuArgs& args, int thread, int threads) const {
    const int* list = static_cast<const int*>(args.groups);
    for (int i = thread; i < count; i += threads)
      store_shared_word(ends + i * 4, u32(max(0, min(int(args.m), list[i]))));
  }
  /// By the lanes of one warp, once the ends are there. A group's rows are tiles of kGroupRows,
  /// each of them `across` tiles.
  /// A group begins behind all groups before it, so each end becomes the largest one up to it.
  __device__ __forceinline__ void count_tiles(
      int across,
      int lane) const {
    int before = 0;
    int last_end = 0;  // of the groups before these
    for (int first = 0; first < count; first += 32) {
      const int i = first + lane;
      int end = i < count ? max(last_end, int(load_shared_word(ends + i * 4))) : last_end;
      _Pragma("unroll") for (int step = 1; step < 32; step *= 2)
        end = max(end, __shfl_sync(0xffffffff, end, max(0, lane - step)));
      const int neighbour = __shfl_sync(0xffffffff, end, max(0, lane - 1));
      const int begin = lane == 0 ? last_end : neighbour;
      if (i < count) store_shared_word(ends + i * 4, u32(end));
      last_end = __shfl_sync(0xffffffff, end, 31);
      const int own = (end - begin + kGroupRows - 1) / kGroupRows * across;
      int sum = own;
      _Pragma("unroll") for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_sync(0xffffffff, sum, max(0, lane - step));
        if (lane >= step) sum += other;
      }
      if (i < count) store_shared_word(tiles + i * 4, u32(before + sum - own));
      before += __shfl_sync(0xffffffff, sum, 31);
    }
    if (lane == 0) store_shared_word(tiles + count * 4, u32(before));
  }
  __device__ __forceinline__ int first_row(int group) const {
    return group == 0 ? 0 : int(load_shared_word(ends + group * 4 - 4));
  }
  __device__ __forceinline__ int rows(int group) const {
    return max(0, int(load_shared_word(ends + group * 4)) - first_row(group));
  }
  __device__ __forceinline__ int tiles_before(int group) const {
    return int(load_shared_word(tiles + group * 4));
  }
  /// The group that has this tile. Without branches, on which lanes of a warp might part.
  __device__ __forceinline__ int holding(int tile) const {
    int group = 0;
    _Pragma("unroll") for (int step = kMostGroups / 2; step > 0; step /= 2) {
      const int further = min(group + step, count - 1);
      group = tiles_before(further) <= tile ? further : group;
    }
    return group;
  }
};

/// Where the results of one group go.
KILN_DEVICE Output output_of_group(const KilnGpuArgs& args, i64 group, i64 first_row, i64 rows) {
  return output_of(args_of_group(args, group, first_row, rows, 0), group);
}

// ---- cuda/common/tile_scheduler.h ----
// The tile scheduler: which tile a block computes next, and which part of its k. D's tiles form a
// grid: `left` counts tiles along the rows of the left operand, `right` along those of the right
// one (A and B, or B and A where D is computed transposed). k is counted in pipeline stages. Blocks
// of a cluster get neighbouring tiles and the same k; without clusters each block is a cluster of
// its own.
// Tiles of one group lie behind those of the group before it, so that an empty group has none.
// Expects groups.h.

struct Work {
  int left, right;  // tile coordinates of this block
  int batch;
  int begin, count;  // stages of k
  int first_row, rows;  // of the group
};

struct TileScheduler {
  int lefts, rights;  // tiles of a cluster along either side
  int stages;         // of k
  int tiles;          // of all batches
  int next;
  int clusters;
  u32 rank;  // of the block in its cluster
  Groups groups;

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
    work.batch = groups.holding(tile);
    work.first_row = groups.first_row(work.batch);
    work.rows = groups.rows(work.batch);
    const int at = tile - groups.tiles_before(work.batch);
    const int of_rows = (work.rows + kGroupRows - 1) / kGroupRows;
    const int lefts = of_rows, rights = this->rights;
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

// ---- cuda/wgmma/copy.h ----
// The warpgroup that copies: bulk tensor copies of both operands into the ring. Expects abi.h,
// hopper_ptx.h, grid_ptx.h, tile_scheduler.h, ring.h.

/// Copies this block's share of one operand's rows and hands it to every block that needs it.
template <bool AcrossK, int Rows, int Sharers>
KILN_DEVICE void copy_rows(u32 to, const KilnTensorMap* map,
                           u32 barrier, int row, int k, int batch, u32 share, u16 mask, u64 hint) {
  if constexpr (AcrossK) {
    // Boxes of 64 rows by a share of the stage's k, k being the slow direction.
    constexpr int kShare = kDepth / Sharers;
    const u32 offset = share * kShare * 128;
    _Pragma("unroll") for (int block = 0; block < (Rows + 63) / 64; ++block) {
      const u32 there = to + block * 64 * 128 + offset;
      if constexpr (Sharers > 1)
        tma_load_multicast_3d(there, map, barrier, row + block * 64, k + int(share) * kShare, batch,
                              mask, hint);
      else
        tma_load_3d(there, map, barrier, row + block * 64, k, batch, hint);
    }
  } else {
    constexpr int kShare = Rows / Sharers;
    if constexpr (Sharers > 1)
      tma_load_multicast_3d(to + share * kShare * 128, map, barrier, k, row + int(share) * kShare,
                            batch, mask, hint);
    else
      tma_load_3d(to, map, barrier, k, row, batch, hint);
  }
}

KILN_DEVICE TileScheduler scheduler_of(const KilnGpuArgs& args, u32 rank) {
  const int left_rows = int(kSwap ? args.n : args.m), right_rows = int(kSwap ? args.m : args.n);
  return TileScheduler::start(
      (left_rows + kLeftTile * kClusterLeft - 1) / (kLeftTile * kClusterLeft),
      (right_rows + kRightTile * kClusterRight - 1) / (kRightTile * kClusterRight),
      (int(args.k) + kDepth - 1) / kDepth, int(args.batch), rank);
}

/// Clusters' tiles across the lines of B.
KILN_DEVICE int tiles_across(const KilnGpuArgs& args) {
  const int lines = int(args.n);
  constexpr int kLines = kSwap ? kLeftTile * kClusterLeft : kRightTile * kClusterRight;
  return (lines + kLines - 1) / kLines;
}

/// One thread fills the ring.
KILN_DEVICE void copy_all(const Shared& shared, TileScheduler scheduler,
                          const KilnTensorMap* left,
                          const KilnTensorMap* right
) {
  const u32 rank_left = scheduler.rank % kClusterLeft, rank_right = scheduler.rank / kClusterLeft;
  // The blocks with my rows of the left operand, and those with my rows of the right one.
  const u16 same_left = kClusterRight > 1 ? (1 << kCluster) - 1 : 1;
  const u16 same_right = kClusterLeft > 1 ? (1 << kCluster) - 1 : 1;
  Turn turn;
  Work work;
  bool more = scheduler.take(work);
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  for (; more; more = scheduler.take(work)) {
    constexpr int batch_of_a = 0;
    for (int i = 0; i < work.count; ++i) {
      mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
      const u32 barrier = shared.full + turn.stage * 8;
      const u32 to = shared.ring + turn.stage * kStageBytes;
      const int k = (work.begin + i) * kDepth;
      mbarrier_expect(barrier, kStageBytes);
      copy_rows<kLeftAcrossK, kLeftTile, kClusterRight>(
          to, left, barrier, work.first_row + work.left * kLeftTile, k, batch_of_a, rank_right,
          same_left, kLeftHint);
      copy_rows<kRightAcrossK, kRightTile, kClusterLeft>(to + kLeftBytes, right, barrier,
                                                         work.right * kRightTile, k, work.batch,
                                                         rank_left, same_right, kRightHint);
      turn.step();
    }
  }
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

constexpr int kPart = kChunk / 2;  // sums of one chunk
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

/// alpha, beta·C and the rest for sums [i, i + kTogether), in place.
KILN_DEVICE void finish_sums(Acc (&sums)[kSums], const Output& out, i64 left, i64 right,
                             int i) {
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e)
    sums[i + e] = kept(product(first_real(sums[i + e]), out.alpha));
  if (out.c) {
    Real c[kTogether];
    load_under(c, out.c, out.ldc, out, left, right, i);
    _Pragma("unroll") for (int e = 0; e < kTogether; ++e)
      sums[i + e] = kept(real_of(sums[i + e]) + out.beta * c[e]);
  }
  // Otherwise loads of later sums move up here, and sums already fill the registers.
  compiler_barrier();
}

KILN_DEVICE TypeD stored(Acc sum, bool exact) {
  return from_real(real_of(sum), TypeD{});
}

constexpr int kPitch = (kSwap ? 16 : kChunk) * int(sizeof(TypeD));  // bytes of a buffer's row

KILN_DEVICE u32 swizzled(int row, int unit) { return swizzled_byte(row, unit, kPitch); }

/// A warp's 16 left rows by kChunk right rows, from group `j` of 8 on, into a buffer.
KILN_DEVICE void fill_buffer(const Acc (&sums)[kSums], int j, u32 buffer, int lane, bool) {
  const auto two = [&](int i) { return pack_two(real_of(sums[i]), real_of(sums[i + 1]), TypeD{}); };
  _Pragma("unroll") for (int g = 0; g < kChunk / 8; g += kChunk == 8 ? 1 : 2) {
    const int i = (j + g) * 4;
    const int row = lane & 15;
    if constexpr (kChunk == 8)
      stmatrix_x2(buffer + swizzled(row, 0), two(i), two(i + 2));
    else
      stmatrix_x4(buffer + swizzled(row, g + (lane >> 4)), two(i), two(i + 2), two(i + 4),
                  two(i + 6));
  }
}

/// The copy engine knows where a matrix ends, not where a group does. So D's map has a dimension of
/// as many rows as a buffer's, before D's first, and one of D's rows behind it: that row of D at
/// which a box must end is the coordinate of the second, and what of the box lies beyond it is
/// outside of the first.
KILN_DEVICE void store_rows(const KilnTensorMap* map_d, u32 from, const Output& out, i64 row0,
                            i64 column0, int first_row) {
  constexpr int kRows = kSwap ? kChunk : 16;
  const int row = int(row0), end = int(min(out.rows, row0 + kRows));
  tma_store_3d(map_d, from, int(column0), kRows - (end - row), first_row + end);
}

/// One warpgroup's part of a tile.
KILN_DEVICE void store_tile(Acc (&sums)[kSubtiles][kSums], const Work& work,
                            const KilnGpuArgs& args, const KilnTensorMap* map_d, u32 buffers,
                            u32 row_offset, int group, int thread) {
  const Output out = output_of_group(args, work.batch, work.first_row, work.rows);
  const int first_row = work.first_row;
  const int warp = thread / 32, lane = thread & 31;
  const i64 left = i64(work.left) * kLeftTile + row_offset + warp * 16;
  const i64 right = i64(work.right) * kRightTile;
  const i64 my_left = left + lane / 4, my_right = right + lane % 4 * 2;
  const bool exact = false;
  const u32 mine = buffers + u32(group * 4 + warp) * kStoreBuffers * kBufferBytes;
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int chunk = 0; chunk < kRightTile / kChunk; ++chunk) {
        if (!exact)
          _Pragma("unroll") for (int i = 0; i < kPart; i += kTogether)
            finish_sums(sums[s], out, my_left + s * 64, my_right, chunk * kPart + i);
      const u32 here = mine + (s * (kRightTile / kChunk) + chunk) % kStoreBuffers * kBufferBytes;
      const i64 l = left + s * 64, r = right + chunk * kChunk;
      // An odd number of chunks leaves the first buffer to the last store of the tile before.
      if (lane == 0) {
        if (s == 0 && chunk == 0)
          tma_store_wait_read<0>();
        else
          tma_store_wait_read<kStoreBuffers - 1>();
      }
      __syncwarp();
      fill_buffer(sums[s], chunk * (kChunk / 8), here, lane, exact);
      fence_async_shared();
      __syncwarp();
      if (lane == 0) {
        store_rows(map_d, here, out, row_of(l, r), column_of(l, r), first_row);
        tma_store_commit();
      }
    }
}
