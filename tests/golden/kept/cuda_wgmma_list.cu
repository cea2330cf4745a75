// device:  sm_90a
// problem: bf16 N T 2048 4096 4096 groups=16 grouped=list epilogue=bias_col align=16
// config:  cuda_wgmma left=128 right=128 stages=4 warpgroups=2 pingpong=0 swap=0 cluster_left=1 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 promote=0

// ---- parameters ----
using TypeA = Bfloat;                           // elements of A
using TypeB = Bfloat;                           // elements of B
using TypeD = Bfloat;                           // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 128;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 128;                 // rows of the right operand in it
constexpr int kDepth = 64;                      // k of one stage
constexpr int kStages = 4;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 64;                       // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kGroupDepth = 64;                 // k of one stage
constexpr int kListColumns = 128;               // columns of D in a tile
constexpr int kGroupRows = 128;                 // rows of A in a tile, of a cluster if any
constexpr int kMostGroups = 64;                 // room in the tables of groups
constexpr int kChunk = 32;                      // right rows that one store buffer holds
constexpr int kStoreBuffers = 1;                // of each warp
constexpr int kHeld = 16;                       // sums of a thread that are finished together
constexpr int kCopyRegisters = 56;              // of the warps that copy
constexpr int kMultiplyRegisters = 224;         // of the warps that multiply
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
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"
#define KILN_WGMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63}"
#define KILN_WGMMA_OPERANDS "%64, %65, p, 1, 1, 0, 0"
#define KILN_WGMMA_ACCUMULATE "66"
#define KILN_WGMMA_TIED(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]), "+f"((d)[4]), "+f"((d)[5]), "+f"((d)[6]), "+f"((d)[7]), \
  "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11]), "+f"((d)[12]), "+f"((d)[13]), "+f"((d)[14]), "+f"((d)[15]), \
  "+f"((d)[16]), "+f"((d)[17]), "+f"((d)[18]), "+f"((d)[19]), "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23]), \
  "+f"((d)[24]), "+f"((d)[25]), "+f"((d)[26]), "+f"((d)[27]), "+f"((d)[28]), "+f"((d)[29]), "+f"((d)[30]), "+f"((d)[31]), \
  "+f"((d)[32]), "+f"((d)[33]), "+f"((d)[34]), "+f"((d)[35]), "+f"((d)[36]), "+f"((d)[37]), "+f"((d)[38]), "+f"((d)[39]), \
  "+f"((d)[40]), "+f"((d)[41]), "+f"((d)[42]), "+f"((d)[43]), "+f"((d)[44]), "+f"((d)[45]), "+f"((d)[46]), "+f"((d)[47]), \
  "+f"((d)[48]), "+f"((d)[49]), "+f"((d)[50]), "+f"((d)[51]), "+f"((d)[52]), "+f"((d)[53]), "+f"((d)[54]), "+f"((d)[55]), \
  "+f"((d)[56]), "+f"((d)[57]), "+f"((d)[58]), "+f"((d)[59]), "+f"((d)[60]), "+f"((d)[61]), "+f"((d)[62]), "+f"((d)[63])
#define KILN_WGMMA_REGISTER "f"
#define KILN_TURN_BRANCHES "turns: .branchtargets t0, t1, t2, t3;\n" \
  "brx.idx %80, turns;\n" \
  "t0: mov.b32 %0, %16; mov.b32 %1, %17; mov.b32 %2, %18; mov.b32 %3, %19; mov.b32 %4, %20; mov.b32 %5, %21; mov.b32 %6, %22; mov.b32 %7, %23; mov.b32 %8, %24; mov.b32 %9, %25; mov.b32 %10, %26; mov.b32 %11, %27; mov.b32 %12, %28; mov.b32 %13, %29; mov.b32 %14, %30; mov.b32 %15, %31;\nbra done;\n" \
  "t1: mov.b32 %0, %32; mov.b32 %1, %33; mov.b32 %2, %34; mov.b32 %3, %35; mov.b32 %4, %36; mov.b32 %5, %37; mov.b32 %6, %38; mov.b32 %7, %39; mov.b32 %8, %40; mov.b32 %9, %41; mov.b32 %10, %42; mov.b32 %11, %43; mov.b32 %12, %44; mov.b32 %13, %45; mov.b32 %14, %46; mov.b32 %15, %47;\nbra done;\n" \
  "t2: mov.b32 %0, %48; mov.b32 %1, %49; mov.b32 %2, %50; mov.b32 %3, %51; mov.b32 %4, %52; mov.b32 %5, %53; mov.b32 %6, %54; mov.b32 %7, %55; mov.b32 %8, %56; mov.b32 %9, %57; mov.b32 %10, %58; mov.b32 %11, %59; mov.b32 %12, %60; mov.b32 %13, %61; mov.b32 %14, %62; mov.b32 %15, %63;\nbra done;\n" \
  "t3: mov.b32 %0, %64; mov.b32 %1, %65; mov.b32 %2, %66; mov.b32 %3, %67; mov.b32 %4, %68; mov.b32 %5, %69; mov.b32 %6, %70; mov.b32 %7, %71; mov.b32 %8, %72; mov.b32 %9, %73; mov.b32 %10, %74; mov.b32 %11, %75; mov.b32 %12, %76; mov.b32 %13, %77; mov.b32 %14, %78; mov.b32 %15, %79;\n"
#define KILN_TURN_TAKEN(d) "=&f"((d)[0]), "=&f"((d)[1]), "=&f"((d)[2]), "=&f"((d)[3]), "=&f"((d)[4]), "=&f"((d)[5]), "=&f"((d)[6]), "=&f"((d)[7]), "=&f"((d)[8]), "=&f"((d)[9]), "=&f"((d)[10]), "=&f"((d)[11]), "=&f"((d)[12]), "=&f"((d)[13]), "=&f"((d)[14]), "=&f"((d)[15])
#define KILN_TURN_SUMS(d) "f"((d)[0][0]), "f"((d)[0][1]), "f"((d)[0][2]), "f"((d)[0][3]), "f"((d)[0][4]), "f"((d)[0][5]), \
  "f"((d)[0][6]), "f"((d)[0][7]), "f"((d)[0][8]), "f"((d)[0][9]), "f"((d)[0][10]), "f"((d)[0][11]), \
  "f"((d)[0][12]), "f"((d)[0][13]), "f"((d)[0][14]), "f"((d)[0][15]), "f"((d)[0][16]), "f"((d)[0][17]), \
  "f"((d)[0][18]), "f"((d)[0][19]), "f"((d)[0][20]), "f"((d)[0][21]), "f"((d)[0][22]), "f"((d)[0][23]), \
  "f"((d)[0][24]), "f"((d)[0][25]), "f"((d)[0][26]), "f"((d)[0][27]), "f"((d)[0][28]), "f"((d)[0][29]), \
  "f"((d)[0][30]), "f"((d)[0][31]), "f"((d)[0][32]), "f"((d)[0][33]), "f"((d)[0][34]), "f"((d)[0][35]), \
  "f"((d)[0][36]), "f"((d)[0][37]), "f"((d)[0][38]), "f"((d)[0][39]), "f"((d)[0][40]), "f"((d)[0][41]), \
  "f"((d)[0][42]), "f"((d)[0][43]), "f"((d)[0][44]), "f"((d)[0][45]), "f"((d)[0][46]), "f"((d)[0][47]), \
  "f"((d)[0][48]), "f"((d)[0][49]), "f"((d)[0][50]), "f"((d)[0][51]), "f"((d)[0][52]), "f"((d)[0][53]), \
  "f"((d)[0][54]), "f"((d)[0][55]), "f"((d)[0][56]), "f"((d)[0][57]), "f"((d)[0][58]), "f"((d)[0][59]), \
  "f"((d)[0][60]), "f"((d)[0][61]), "f"((d)[0][62]), "f"((d)[0][63])
#define KILN_ACC_IN(x) "f"(x)
#define KILN_ACC_OUT(x) "=f"(x)

// ---- cuda/common/tensor_map_ptx.h ----
// Tensor maps that a kernel makes: fields of one in shared memory are replaced, it is copied to
// memory, and a later kernel has it read anew there. One small named wrapper for each instruction.

/// The address of the map's first element, a multiple of 16.
KILN_DEVICE void tensor_map_set_address(u32 map, const void* address) {
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(map),
               "l"(address)
               : "memory");
}
/// The elements along dimension `Dimension`, at least 1.
template <int Dimension>
KILN_DEVICE void tensor_map_set_elements(u32 map, u32 elements) {
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], %1, %2;" ::"r"(map),
               "n"(Dimension), "r"(elements)
               : "memory");
}
/// The bytes between lines, a multiple of 16.
KILN_DEVICE void tensor_map_set_pitch(u32 map, u64 bytes) {
  asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %1;" ::"r"(map),
               "l"(bytes)
               : "memory");
}
/// By all lanes of a warp: copies a map from shared memory to a multiple of 128 bytes, for threads
/// that acquire it.
KILN_DEVICE void tensor_map_release(KilnTensorMap* to, u32 map) {
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
      "[%0], [%1], 128;" ::"l"(to),
      "r"(map)
      : "memory");
}
/// The copies that this thread starts from here on read the map that was released.
KILN_DEVICE void tensor_map_acquire(const KilnTensorMap* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

// ---- cuda/common/group_args.h ----
// One product of a list as a call of its own. Expects abi.h, list_abi.h.

/// The list in the workspace.
KILN_DEVICE const KilnListEntry* entries_of(const KilnGpuArgs& args) {
  return static_cast<const KilnListEntry*>(args.workspace);
}

/// The tensor maps of one product's left and right operand, behind all entries.
KILN_DEVICE KilnTensorMap* maps_of(const KilnGpuArgs& args, int product) {
  const i64 behind = ceil_div(args.batch * i64(sizeof(KilnListEntry)), 128) * 128;
  return reinterpret_cast<KilnTensorMap*>(static_cast<unsigned char*>(args.workspace) + behind) +
         i64(product) * 2;
}

/// The call of one product, seen as a batch's.
KILN_DEVICE KilnGpuArgs args_of_product(const KilnGpuArgs& args, int product) {
  const KilnListEntry& entry = entries_of(args)[product];
  KilnGpuArgs own = args;
  own.m = entry.m;
  own.n = entry.n;
  own.k = entry.k;
  own.lda = entry.lda;
  own.ldb = entry.ldb;
  own.ldc = entry.ldc;
  own.ldd = entry.ldd;
  own.stride_a = own.stride_b = own.stride_c = own.stride_d = 0;
  own.a = entry.a;
  own.b = entry.b;
  own.c = entry.c;
  own.d = entry.d;
  own.bias = entry.bias;
  own.residual = entry.residual;
  return own;
}

// ---- cuda/common/groups.h ----
// The products of a list, and which tiles each has. The list lies in the workspace, so each block
// reads it and counts tiles before its first one. Expects abi.h, list_abi.h, groups_ptx.h,
// group_args.h.

/// Three tables in shared memory, of kMostGroups words and one more.
struct Groups {
  u32 widths;  // of each product the tiles along its rows
  u32 tiles;   // before each product, and of all
  u32 stages;  // of each product's k
  int count;
  const KilnListEntry* entries;

  static __device__ __forceinline__ Groups at(u32 base, const KilnGpuArgs& args) {
    return {base, base + kMostGroups * 4, base + (2 * kMostGroups + 1) * 4, int(args.batch),
            entries_of(args)};
  }
  /// By all threads of a block. `tiles` has the tiles along each product's columns until they are
  /// counted.
  __device__ __forceinline__ void read(const KilnGpuArgs&, int thread, int threads) const {
    for (int i = thread; i < count; i += threads) {
      store_shared_word(widths + i * 4, u32((int(entries[i].n) + kListColumns - 1) / kListColumns));
      store_shared_word(tiles + i * 4, u32((int(entries[i].m) + kGroupRows - 1) / kGroupRows));
      store_shared_word(stages + i * 4, u32((int(entries[i].k) + kGroupDepth - 1) / kGroupDepth));
    }
  }
  /// By the lanes of one warp, once those are there.
  __device__ __forceinline__ void count_tiles(
      int lane) const {
    int before = 0;
    for (int first = 0; first < count; first += 32) {
      const int i = first + lane;
      const int own = i < count ? tiles_before(i) * width(i) : 0;
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
  __device__ __forceinline__ int width(int product) const {
    return int(load_shared_word(widths + product * 4));
  }
  __device__ __forceinline__ int stages_of(int product) const {
    return int(load_shared_word(stages + product * 4));
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

// ---- cuda/common/tile_scheduler.h ----
// The tile scheduler: which tile a block computes next, and which part of its k. D's tiles form a
// grid: `left` counts tiles along the rows of the left operand, `right` along those of the right
// one (A and B, or B and A where D is computed transposed). k is counted in pipeline stages. Blocks
// of a cluster get neighbouring tiles and the same k; without clusters each block is a cluster of
// its own.
// Products of a list have tiles and k of their own; those of one lie behind those of the one before
// it, so that an empty product has none. Expects groups.h.

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
    const int at = tile - groups.tiles_before(work.batch);
    const int rights = groups.width(work.batch);
    const int lefts =
        (groups.tiles_before(work.batch + 1) - groups.tiles_before(work.batch)) / rights;
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
    // A product without k multiplies one stage of zeros, so that its D is written.
    work.count = max(1, groups.stages_of(work.batch));
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

/// The tensor maps of the product that is copied.
struct ProductMaps {
  const KilnTensorMap *left, *right;
  int product = -1;
  int place;  // of the product along the maps' third dimension: beyond the only one lie zeros

  /// Both maps were made for this call, where those of the call before lay.
  __device__ __forceinline__ void turn_to(const KilnGpuArgs& args, const Groups& groups, int next) {
    if (next == product) return;
    product = next;
    left = maps_of(args, next);
    right = left + 1;
    tensor_map_acquire(left);
    tensor_map_acquire(right);
    place = groups.stages_of(next) == 0 ? 1 : 0;
    // Whoever stores the product's D reads the entry, which lies in two lines at most.
    prefetch_line(entries_of(args) + next);
    prefetch_line(&entries_of(args)[next].residual);
  }
};

/// One thread fills the ring.
KILN_DEVICE void copy_all(const Shared& shared, TileScheduler scheduler,
                          const KilnGpuArgs& args
) {
  ProductMaps maps;
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
    maps.turn_to(args, scheduler.groups, work.batch);
    for (int i = 0; i < work.count; ++i) {
      mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
      const u32 barrier = shared.full + turn.stage * 8;
      const u32 to = shared.ring + turn.stage * kStageBytes;
      const int k = (work.begin + i) * kDepth;
      mbarrier_expect(barrier, kStageBytes);
      copy_rows<kLeftAcrossK, kLeftTile, kClusterRight>(to, maps.left, barrier,
                                                        work.left * kLeftTile, k, maps.place,
                                                        rank_right, same_left, kLeftHint);
      copy_rows<kRightAcrossK, kRightTile, kClusterLeft>(to + kLeftBytes, maps.right, barrier,
                                                         work.right * kRightTile, k, maps.place,
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

struct alignas(16) UnitD {
  TypeD element[16 / int(sizeof(TypeD))];
};

/// A buffer's elements to D, 16 bytes at a time: rows of a product's D begin at multiples of that,
/// but may end anywhere. (row0, column0) is the buffer's first element.
KILN_DEVICE void drain_buffer(u32 buffer, const Output& out, i64 row0, i64 column0, int lane) {
  constexpr int kOfUnit = 16 / int(sizeof(TypeD));
  constexpr int kUnits = (kSwap ? 16 : kChunk) / kOfUnit, kAll = (kSwap ? kChunk : 16) * kUnits;
  _Pragma("unroll") for (int i = 0; i < (kAll + 31) / 32; ++i) {
    const int at = i * 32 + lane, unit = at % kUnits;
    const i64 row = row0 + at / kUnits, column = column0 + unit * kOfUnit;
    if (at >= kAll || row >= out.rows || column >= out.columns) continue;
    UnitD some;
    load_shared_words(reinterpret_cast<u32(&)[4]>(some), buffer + swizzled(at / kUnits, unit));
    TypeD* d = out.d + row * out.ldd + column;
    if (column + kOfUnit <= out.columns) {
      *reinterpret_cast<UnitD*>(d) = some;
    } else {
      _Pragma("unroll") for (int e = 0; e < kOfUnit; ++e)
        if (column + e < out.columns) d[e] = some.element[e];
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
    const int row = lane & 15;
    if constexpr (kHeld == 4)
      stmatrix_x2(buffer + swizzled_byte(row, g, kPitch), word(i), word(i + 2));
    else
      stmatrix_x4(buffer + swizzled_byte(row, g + (lane >> 4), kPitch), word(i), word(i + 2),
                  word(i + 4), word(i + 6));
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
/// What the expression reads of matrices for all of a tile, loaded before its sums are there.
struct Ahead {
  Words words[kTurns][kHeld / 2];
};
KILN_DEVICE void load_ahead(Ahead& all, const KilnGpuArgs& args, const Work& work, u32 row_offset,
                            int thread) {
  const Output out = output_of(args_of_product(args, work.batch), 0);
  const WarpTile at = warp_tile(out, work, row_offset, thread);
  _Pragma("unroll") for (int turn = 0; turn < kTurns; ++turn)
    load_turn(all.words[turn], out, at, turn, thread & 31);
}

/// One warpgroup's part of a tile.
KILN_DEVICE void store_tile(
    const Acc (&sums)[kSubtiles][kSums],
    const Work& work, const KilnGpuArgs& args, const KilnTensorMap* map_d, u32 buffers,
    const Ahead& loaded,
    u32 row_offset, int group, int thread) {
  Output out = output_of(args_of_product(args, work.batch), 0);
  keep_in_register(out.alpha);
  const int warp = thread / 32, lane = thread & 31;
  const WarpTile at = warp_tile(out, work, row_offset, thread);
  const bool exact = false;
  const u32 mine = buffers + u32(group * 4 + warp) * kStoreBuffers * kBufferBytes;
  constexpr int kUnrolled = kTurns;
  _Pragma("unroll kUnrolled") for (int turn = 0; turn < kTurns; ++turn) {
    const i64 left = at.left0 + turn / (kSums / kHeld) * 64;
    const i64 right = at.right0 + turn % (kSums / kHeld) * (kHeld * 2);
    Acc some[kHeld];
    _Pragma("unroll") for (int e = 0; e < kHeld; ++e)
      some[e] = sums[turn / (kSums / kHeld)][turn % (kSums / kHeld) * kHeld + e];
    const Words(&words)[kHeld / 2] = loaded.words[turn];
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

// ---- cuda/wgmma/kernel.cu ----
// The kernel itself: who copies, who multiplies. Expects copy_all() and multiply(), store.h and,
// where k is divided, combine.h.

/// Through a shuffle: the assembler serialises wgmma in a loop on whose end the lanes of a warp may
/// not agree.
KILN_DEVICE int same_for_warp(int x) { return __shfl_sync(0xffffffff, x, 0); }

KILN_DEVICE void run_consumer(const Shared& shared, TileScheduler scheduler,
                              const KilnGpuArgs& args, const KilnTensorMap* map_d, int group) {
  const int thread = int(threadIdx.x) & 127, lane = thread & 31;
  Acc sums[kSubtiles][kSums];
  Turn turn;
  Work work;
  const u32 kRowOffset = group * kWarpgroupRows;
  const int region = group;
  // The others start some stages behind the first: while it finishes a tile, they still multiply.
  TileScheduler ahead = scheduler;  // the first tile may be of a short group, or there is none
  if (group > 0 && ahead.take(work))
    mbarrier_wait(shared.full + (min(same_for_warp(work.count), kStages - 1) - 1) * 8, 0);
  while (scheduler.take(work)) {
    work.count = same_for_warp(work.count);
    Ahead ahead;
    load_ahead(ahead, args, work, kRowOffset, thread);
    multiply(sums, shared, turn, work.count, kRowOffset, group, lane);
    store_tile(sums, work, args, map_d, shared.buffers, ahead, kRowOffset, group, thread);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args
    ) {
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  const Shared shared = Shared::at(shared_address(shared_bytes));
  // Through a shuffle, so that the compiler knows that it is the same for the whole warp.
  const int group = __shfl_sync(0xffffffff, int(threadIdx.x) / 128, 0);
  const u32 rank = 0;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      mbarrier_init(shared.full + i * 8, 1);
      mbarrier_init(shared.empty + i * 8, kReaders * kCluster);
    }
    mbarrier_init_fence();
  }
  const Groups groups = Groups::at(shared.flags, args);
  // The list may be the work of the grid before.
  wait_for_previous_grid();
  groups.read(args, int(threadIdx.x), kThreads);
  __syncthreads();
  if (group == kWarpgroups && int(threadIdx.x) < kThreads - 96)
    groups.count_tiles(int(threadIdx.x) & 31);
  __syncthreads();
  TileScheduler scheduler = scheduler_of(args, rank);
  scheduler.groups = groups;
  // Through a shuffle as well: the assembler serialises wgmma in a loop on whose end the lanes of a
  // warp may not agree.
  scheduler.tiles = __shfl_sync(0xffffffff, groups.tiles_before(groups.count), 0);
  if (group == kWarpgroups) {
    give_registers<kCopyRegisters>();
    if (threadIdx.x == kWarpgroups * 128) copy_all(shared, scheduler, args);
  } else {
    take_registers<kMultiplyRegisters>();
    wait_for_previous_grid();
    let_next_grid_start();
    run_consumer(shared, scheduler, args, nullptr, group);
  }
}

// ---- cuda/common/take_list.cu ----
// The steps before a list's products. Expects abi.h, list_chunk.h, types.h, groups_ptx.h,
// group_args.h, grid_ptx.h, tensor_map_ptx.h.

/// By a warp: one operand's tensor map of one product. `like` is right but for address, sizes and
/// pitch; `shared` has room for a map. Where there is no k the map is one element of `operand`.
template <typename T, bool AlongK>
KILN_DEVICE void make_map(KilnTensorMap* to, u32 shared, const KilnTensorMap& like,
                          const void* operand, i64 rows, i64 k, i64 ld,
                          int lane) {
  store_shared_word(shared + lane * 4, reinterpret_cast<const u32*>(&like)[lane]);
  __syncwarp();
  if (lane == 0) {
    const i64 length = max(i64(1), AlongK ? k : rows), lines = max(i64(1), AlongK ? rows : k);
    // The pitch of a single line or without k may be no multiple of 16 bytes.
    const i64 pitch = (lines > 1 && k > 0 ? ld : ceil_div(length, 16) * 16) * i64(sizeof(T));
    tensor_map_set_address(shared, operand);
    tensor_map_set_elements<0>(shared, u32(length));
    tensor_map_set_elements<1>(shared, u32(lines));
    tensor_map_set_pitch(shared, u64(pitch));
  }
  __syncwarp();
  tensor_map_release(to, shared);
}

/// Writes entries to their places in the workspace, where the kernel of the products reads them,
/// and behind all entries the maps of their operands. `map_left` and `map_right` are those of
/// operands without address and sizes. A warp makes one map.
extern "C" __global__ void __launch_bounds__(128)
    kiln_take_list(const __grid_constant__ KilnGpuArgs args,
                   const __grid_constant__ KilnTensorMap map_left,
                   const __grid_constant__ KilnTensorMap map_right,
                   const __grid_constant__ KilnListChunk chunk) {
  __shared__ __align__(128) u32 maps[4][32];
  // The products of the call before may still be read.
  wait_for_previous_grid();
  let_next_grid_start();
  const u64* const from = reinterpret_cast<const u64*>(chunk.entries);
  u64* const to = reinterpret_cast<u64*>(static_cast<KilnListEntry*>(args.workspace) + chunk.first);
  const int words = int(chunk.count) * int(sizeof(KilnListEntry) / sizeof(u64));
  for (int i = int(blockIdx.x) * 128 + int(threadIdx.x); i < words; i += int(gridDim.x) * 128)
    to[i] = from[i];
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) & 31;
  const int number = int(blockIdx.x) * 4 + warp, product = number / 2;
  if (product >= int(chunk.count)) return;
  const KilnListEntry& entry = chunk.entries[product];
  if (entry.m == 0 || entry.n == 0) return;  // it has no tiles, and any address
  KilnTensorMap* const map = maps_of(args, int(chunk.first) + product) + number % 2;
  const u32 shared = shared_address(maps[warp]);
  const KilnTensorMap& like = number % 2 == 0 ? map_left : map_right;
  if ((number % 2 == 0) != kSwap)
    make_map<TypeA, kAlongKA>(map, shared, like, entry.a, entry.m, entry.k, entry.lda, lane);
  else
    make_map<TypeB, kAlongKB>(map, shared, like, entry.b, entry.n, entry.k, entry.ldb, lane);
}
