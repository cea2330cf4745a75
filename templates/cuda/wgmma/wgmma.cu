// Hopper: one warpgroup copies (bulk tensor copies into a ring of kStages), the others multiply
// (wgmma) and finish. Blocks are persistent. "Left" is the operand whose rows are the instruction's
// 64 rows, "right" the one whose rows are its columns; kSwap says that left is B, so that D's tile is
// computed transposed. Expects abi.h, types.h, convert.h, epilogue.h, hopper_ptx.h,
// grid_ptx.h, wgmma_ptx.h, wgmma.h, tile_scheduler.h.

constexpr int kCluster = kClusterLeft * kClusterRight;
constexpr int kLeftBytes = kLeftTile * 128;                              // of one stage
constexpr int kRightBytes = (kRightAcrossK ? (kRightTile + 63) / 64 * 64 : kRightTile) * 128;
//% if halves
constexpr int kStageBytes = 2 * (kLeftBytes + kRightBytes);  // both parts of either
//% else
constexpr int kStageBytes = kLeftBytes + kRightBytes;
//% end
constexpr int kSubtiles = kWarpgroupRows / 64;                           // of one warpgroup
constexpr int kThreads = (kWarpgroups + 1) * 128;
//% if store != direct
constexpr int kBufferBytes = 16 * kChunk * int(sizeof(TypeD));           // of a warp's part of D
constexpr int kStoreBytes = kWarpgroups * 4 * kStoreBuffers * kBufferBytes;
//% else
constexpr int kStoreBytes = 0;
//% end
static_assert(kRightTile / kClusterLeft % 8 == 0, "a block copies whole swizzle atoms");
//% if block_scales
static_assert(kRightLines % kRightTile == 0 || kRightLines == 1, "a tile is in one square");
//% end

/// Shared memory: the ring, buffers of stores, barriers.
struct Shared {
  u32 ring, buffers, full, empty, flags;  // flags of shared k, or the tables of groups
  static __device__ __forceinline__ Shared at(u32 base) {
    Shared s;
    s.ring = base;
    s.buffers = base + kStages * kStageBytes;
    s.full = s.buffers + kStoreBytes;
    s.empty = s.full + kStages * 8;
    s.flags = s.empty + kStages * 8;
    return s;
  }
};

/// Where in the ring a warp is, and the parity of that place's barriers.
struct Turn {
  int stage = 0;
  u32 parity = 0;
  __device__ __forceinline__ void step() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  //% if pingpong
  __device__ __forceinline__ void skip(int count) {
    const int at = stage + count;
    parity ^= u32(at / kStages) & 1;
    stage = at % kStages;
  }
  //% end
};

/// Copies this block's share of one operand's rows and hands it to every block that needs it.
//% if clip
/// `rows` of them exist from `row` on; `last` is the map whose box ends with them.
template <bool AcrossK, int Rows, int Sharers>
KILN_DEVICE void copy_rows(u32 to, const KilnTensorMap* map, const KilnTensorMap* last, int rows,
                           u32 barrier, int row, int k, int batch, u32 share, u16 mask, u64 hint) {
//% else
template <bool AcrossK, int Rows, int Sharers>
KILN_DEVICE void copy_rows(u32 to, const KilnTensorMap* map, u32 barrier, int row, int k, int batch,
                           u32 share, u16 mask, u64 hint) {
//% end
  if constexpr (AcrossK) {
    //% if left_registers
    // Boxes of 32 rows by a share of the stage's k, k being the slow direction.
    constexpr int kShare = kDepth / Sharers;
    const u32 offset = share * kShare * 128;
    _Pragma("unroll") for (int block = 0; block < Rows / kLeftBlockRows; ++block) {
      const u32 there = to + block * kDepth * 128 + offset;
      const int first = row + block * kLeftBlockRows;
      if constexpr (Sharers > 1)
        tma_load_multicast_3d(there, map, barrier, first, k + int(share) * kShare, batch, mask, hint);
      else
        tma_load_3d(there, map, barrier, first, k, batch, hint);
    }
    //% else
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
    //% end
  } else {
    constexpr int kShare = Rows / Sharers;
    //% if clip
    const int mine = rows - int(share) * kShare;
    if (mine <= 0) return;
    if (mine < kShare) map = last;
    //% end
    if constexpr (Sharers > 1)
      tma_load_multicast_3d(to + share * kShare * 128, map, barrier, k, row + int(share) * kShare,
                            batch, mask, hint);
    else
      tma_load_3d(to, map, barrier, k, row, batch, hint);
  }
}

//% if gate
/// Lines of one block's tile of B: units of each factor's lines in turn.
constexpr int kUnit = kSwap ? kWarpgroupRows / 2 : kRightTile / 2;

/// As copy_rows(), of B's two factors, which the map counts as batches. `line`: of either factor.
template <bool AcrossK, int Lines, int Sharers>
KILN_DEVICE void copy_factors(u32 to, const KilnTensorMap* map, u32 barrier, int line, int k,
                              int batch, u32 share, u16 mask, u64 hint) {
  constexpr int kUnits = Lines / kUnit / Sharers, kBox = AcrossK ? 64 : kUnit;
  _Pragma("unroll") for (int i = 0; i < kUnits; ++i) {
    const int unit = int(share) * kUnits + i;
    _Pragma("unroll") for (int at = 0; at < kUnit; at += kBox) {
      const u32 there = to + (unit * kUnit + at) * 128;
      const int first = line + unit / 2 * kUnit + at, factor = batch * 2 + unit % 2;
      if constexpr (Sharers > 1)
        tma_load_multicast_3d(there, map, barrier, AcrossK ? first : k, AcrossK ? k : first, factor,
                              mask, hint);
      else
        tma_load_3d(there, map, barrier, AcrossK ? first : k, AcrossK ? k : first, factor, hint);
    }
  }
}

KILN_DEVICE TileScheduler scheduler_of(const KilnGpuArgs& args, u32 rank) {
  const int left_rows = int(kSwap ? 2 * args.n : args.m);
  const int right_rows = int(kSwap ? args.m : 2 * args.n);
//% else
KILN_DEVICE TileScheduler scheduler_of(const KilnGpuArgs& args, u32 rank) {
  const int left_rows = int(kSwap ? args.n : args.m), right_rows = int(kSwap ? args.m : args.n);
//% end
  return TileScheduler::start(
      (left_rows + kLeftTile * kClusterLeft - 1) / (kLeftTile * kClusterLeft),
      (right_rows + kRightTile * kClusterRight - 1) / (kRightTile * kClusterRight),
      (int(args.k) + kDepth - 1) / kDepth, int(args.batch), rank);
}

//% if groups
/// Clusters' tiles across the lines of B.
KILN_DEVICE int tiles_across(const KilnGpuArgs& args) {
  //% if gate
  const int lines = int(2 * args.n);
  //% else
  const int lines = int(args.n);
  //% end
  constexpr int kLines = kSwap ? kLeftTile * kClusterLeft : kRightTile * kClusterRight;
  return (lines + kLines - 1) / kLines;
}
//% end

//% if clip
/// The maps of both operands; `last_` ones end with the operand's rows.
struct Maps {
  const KilnTensorMap *left, *right, *last_left, *last_right;
};

/// How many of a tile's rows exist.
template <int Tile>
KILN_DEVICE int rows_of(i64 rows, int tile) {
  return max(0, min(Tile, int(rows) - tile * Tile));
}

/// One thread fills the ring.
KILN_DEVICE void copy_all(const Shared& shared, TileScheduler scheduler, const KilnGpuArgs& args,
                          const Maps& maps) {
//% else
/// One thread fills the ring.
KILN_DEVICE void copy_all(const Shared& shared, TileScheduler scheduler, const KilnTensorMap* left,
                          const KilnTensorMap* right) {
//% end
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
    //% if clip
    //% if clip_left
    const int left_rows = rows_of<kLeftTile>(kSwap ? args.n : args.m, work.left);
    //% else
    constexpr int left_rows = kLeftTile;
    //% end
    //% if clip_right
    const int right_rows = rows_of<kRightTile>(kSwap ? args.m : args.n, work.right);
    const u32 bytes = (left_rows + right_rows) * 128;
    //% else
    constexpr int right_rows = kRightTile;
    const u32 bytes = left_rows * 128 + kRightBytes;
    //% end
    //% end
    //% if groups && masked
    const int batch_of_a = work.batch;
    //% end
    //% if groups && !masked
    constexpr int batch_of_a = 0;
    //% end
    for (int i = 0; i < work.count; ++i) {
      mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
      const u32 barrier = shared.full + turn.stage * 8;
      const u32 to = shared.ring + turn.stage * kStageBytes;
      const int k = (work.begin + i) * kDepth;
      //% if clip
      mbarrier_expect(barrier, bytes);
      //% if gate && swap
      copy_factors<kLeftAcrossK, kLeftTile, kClusterRight>(to, maps.left, barrier,
                                                           work.left * (kLeftTile / 2), k,
                                                           work.batch, rank_right, same_left,
                                                           kLeftHint);
      //% else
      copy_rows<kLeftAcrossK, kLeftTile, kClusterRight>(
          to, maps.left, maps.last_left, left_rows, barrier, work.left * kLeftTile, k, work.batch,
          rank_right, same_left, kLeftHint);
      //% end
      //% if gate && !swap
      copy_factors<kRightAcrossK, kRightTile, kClusterLeft>(to + kLeftBytes, maps.right, barrier,
                                                            work.right * (kRightTile / 2), k,
                                                            work.batch, rank_left, same_right,
                                                            kRightHint);
      //% else
      copy_rows<kRightAcrossK, kRightTile, kClusterLeft>(
          to + kLeftBytes, maps.right, maps.last_right, right_rows, barrier,
          work.right * kRightTile, k, work.batch, rank_left, same_right, kRightHint);
      //% end
      //% else
      mbarrier_expect(barrier, kStageBytes);
      //% if halves
      _Pragma("unroll") for (int part = 0; part < 2; ++part) {
        const int batch = work.batch * 2 + part;
        copy_rows<kLeftAcrossK, kLeftTile, kClusterRight>(
            to + part * kLeftBytes, left, barrier, work.left * kLeftTile, k, batch, rank_right,
            same_left, kLeftHint);
        copy_rows<kRightAcrossK, kRightTile, kClusterLeft>(
            to + 2 * kLeftBytes + part * kRightBytes, right, barrier, work.right * kRightTile, k,
            batch, rank_left, same_right, kRightHint);
      }
      //% else
      //% if gate && swap
      copy_factors<kLeftAcrossK, kLeftTile, kClusterRight>(to, left, barrier,
                                                           work.left * (kLeftTile / 2), k,
                                                           work.batch, rank_right, same_left,
                                                           kLeftHint);
      //% else
      //% if groups && !swap
      copy_rows<kLeftAcrossK, kLeftTile, kClusterRight>(
          to, left, barrier, work.first_row + work.left * kLeftTile, k, batch_of_a, rank_right,
          same_left, kLeftHint);
      //% else
      copy_rows<kLeftAcrossK, kLeftTile, kClusterRight>(to, left, barrier, work.left * kLeftTile, k,
                                                        work.batch, rank_right, same_left,
                                                        kLeftHint);
      //% end
      //% end
      //% if gate && !swap
      copy_factors<kRightAcrossK, kRightTile, kClusterLeft>(to + kLeftBytes, right, barrier,
                                                            work.right * (kRightTile / 2), k,
                                                            work.batch, rank_left, same_right,
                                                            kRightHint);
      //% else
      //% if groups && swap
      copy_rows<kRightAcrossK, kRightTile, kClusterLeft>(
          to + kLeftBytes, right, barrier, work.first_row + work.right * kRightTile, k, batch_of_a,
          rank_left, same_right, kRightHint);
      //% else
      copy_rows<kRightAcrossK, kRightTile, kClusterLeft>(to + kLeftBytes, right, barrier,
                                                         work.right * kRightTile, k, work.batch,
                                                         rank_left, same_right, kRightHint);
      //% end
      //% end
      //% end
      //% end
      turn.step();
    }
  }
}

/// This warp no longer reads a place of the ring: every block that writes to it must know.
KILN_DEVICE void release(u32 empty, int lane) {
  //% if cluster
  if (lane < kCluster) mbarrier_arrive_at(empty, lane);
  //% else
  if (lane == 0) mbarrier_arrive(empty);
  //% end
}

/// All sums, so that the compiler keeps what it does with them on its side of a wait.
KILN_DEVICE void pin_all(Acc (&sums)[kSubtiles][kSums]) {
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int r = 0; r < kSums; ++r) pin(sums[s][r]);
}

//% if left_registers
/// The instructions of one stage; `accumulate` 0 lets its first step start anew.
KILN_DEVICE void multiply_stage(Acc (&sums)[kSubtiles][kSums], const LeftWords& left, u64 right,
                                int accumulate) {
  pin_all(sums);
  wgmma_fence();
  _Pragma("unroll") for (int step = 0; step < kSteps; ++step)
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
      wgmma_m64(sums[s], left.words[step][s], right + ((step * 32) >> 4), accumulate | step);
  wgmma_commit();
  pin_all(sums);
}
//% else
/// The instructions of one stage; `accumulate` 0 lets its first step start anew.
KILN_DEVICE void multiply_stage(Acc (&sums)[kSubtiles][kSums], u64 left, u64 right, int accumulate) {
  constexpr u32 kLeftStep = kLeftAcrossK ? 16 * 128 : 32, kRightStep = kRightAcrossK ? 16 * 128 : 32;
  pin_all(sums);
  wgmma_fence();
  _Pragma("unroll") for (int step = 0; step < 4; ++step)
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
      wgmma_m64(sums[s], left + ((s * 64 * 128 + step * kLeftStep) >> 4),
                right + ((step * kRightStep) >> 4), accumulate | step);
  wgmma_commit();
  pin_all(sums);
}
//% end

//% if halves
/// One stage of the product of two parts; `accumulate` 0 lets its first step start anew.
KILN_DEVICE void multiply_parts(Acc (&sums)[kSubtiles][kSums], u64 left, u64 right, int accumulate) {
  _Pragma("unroll") for (int step = 0; step < 4; ++step)
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
      wgmma_m64(sums[s], left + ((s * 64 * 128 + step * 32) >> 4), right + ((step * 32) >> 4),
                accumulate | step);
}

/// The products of high parts are promoted stage by stage while the tensor cores multiply high by
/// low parts, whose sums are 2^-11 of the others and stay in its accumulators for all of k.
KILN_DEVICE void multiply_halves(Acc (&sums)[kSubtiles][kSums], const Shared& shared, Turn& turn,
                                 int count, u64 left0, u64 right0, int lane) {
  Acc part[kSubtiles][kSums], cross[kSubtiles][kSums];
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[s][r] = cross[s][r] = 0;
  u32 behind = 0;
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
    const u64 left = left0 + u64(turn.stage) * (kStageBytes >> 4);
    const u64 right = right0 + u64(turn.stage) * (kStageBytes >> 4);
    pin_all(part);
    wgmma_fence();
    multiply_parts(part, left, right, 0);
    wgmma_commit();
    wgmma_wait<1>();
    if (i > 0) release(behind, lane);
    multiply_parts(cross, left + (kLeftBytes >> 4), right, i);
    multiply_parts(cross, left, right + (kRightBytes >> 4), 1);
    wgmma_commit();
    wgmma_wait<1>();
    pin_all(part);
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
      _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[s][r] += part[s][r];
    behind = shared.empty + turn.stage * 8;
    turn.step();
  }
  wgmma_wait<0>();
  pin_all(cross);
  release(behind, lane);
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[s][r] += cross[s][r] * kLowUnit;
}
//% end

//% if block_scales
/// One operand's scales in one batch: kLines of its rows share one for every stage of k.
template <int Lines>
struct BlockScales {
  const float* from;
  i64 rows, pitch;
  static __device__ __forceinline__ BlockScales of(const void* scales, i64 rows, i64 k, i64 batch) {
    BlockScales s;
    s.rows = rows;
    s.pitch = ceil_div(k, kDepth);
    s.from = static_cast<const float*>(scales) + batch * ceil_div(rows, Lines) * s.pitch;
    return s;
  }
  __device__ __forceinline__ float at(i64 row, int stage) const {
    return row < rows ? from[row / Lines * pitch + stage] : 0.0f;
  }
};

/// The scales that one thread's sums of a tile meet.
struct TileScales {
  BlockScales<kLeftLines> left;
  BlockScales<kRightLines> right;
  i64 first_left, first_right;  // rows of sum 0
  int begin;                    // first stage of the work

  static __device__ __forceinline__ TileScales of(const KilnGpuArgs& args, const Work& work,
                                                  u32 row_offset, int thread) {
    TileScales t;
    t.left = BlockScales<kLeftLines>::of(kSwap ? args.scale_b : args.scale_a,
                                         kSwap ? args.n : args.m, args.k, work.batch);
    t.right = BlockScales<kRightLines>::of(kSwap ? args.scale_a : args.scale_b,
                                           kSwap ? args.m : args.n, args.k, work.batch);
    t.first_left = i64(work.left) * kLeftTile + row_offset + thread / 32 * 16 + thread % 32 / 4;
    t.first_right = i64(work.right) * kRightTile + thread % 4 * 2;
    //% if groups && !masked
    // Rows of the matrix that all groups share. Scales beyond the group's meet no row that is stored.
    //% if swap
    t.right.from = static_cast<const float*>(args.scale_a);
    t.first_right += work.first_row;
    //% else
    t.left.from = static_cast<const float*>(args.scale_a);
    t.first_left += work.first_row;
    //% end
    //% end
    t.begin = work.begin;
    return t;
  }
};

/// Those of one stage: of two rows in each 64 of the left operand, and of the right one's columns,
/// which have one each or, as parts of one square, one together.
struct StageScales {
  static constexpr int kColumns = kRightLines == 1 ? kSums / 2 : 1;
  float left[kSubtiles][2], right[kColumns];

  __device__ __forceinline__ void load(const TileScales& tile, int i) {
    const int stage = tile.begin + i;
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
      _Pragma("unroll") for (int half = 0; half < 2; ++half)
        left[s][half] = tile.left.at(tile.first_left + s * 64 + half * 8, stage);
    _Pragma("unroll") for (int c = 0; c < kColumns; ++c)
      right[c] = tile.right.at(tile.first_right + c / 2 * 8 + c % 2, stage);
  }
  __device__ __forceinline__ float of(int s, int r) const {
    return left[s][r / 2 % 2] * right[kRightLines == 1 ? r / 4 * 2 + r % 2 : 0];
  }
};

//% end
/// The products of `count` stages.
KILN_DEVICE void multiply(Acc (&sums)[kSubtiles][kSums], const Shared& shared, Turn& turn, int count,
                          //% if block_scales
                          u32 row_offset, int group, int lane, const TileScales& scales) {
                          //% else
                          u32 row_offset, int group, int lane) {
                          //% end
  //% if left_registers
  const LeftLane mine = LeftLane::of(row_offset, int(threadIdx.x) & 127);
  const u64 right0 = descriptor(kAlongK, shared.ring + kLeftBytes);
  // The next stage's words are fetched while this one's are multiplied, and put in order only when
  // no instruction is in flight: the assembler lets nothing write what an instruction may read.
  LeftWords fetched, words;
  mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
  mine.fetch(fetched, shared.ring + turn.stage * kStageBytes);
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    const u32 empty = shared.empty + turn.stage * 8;
    mine.order(words, fetched);
    multiply_stage(sums, words, right0 + u64(turn.stage) * (kStageBytes >> 4), i);
    turn.step();
    if (i + 1 < count) {
      mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
      mine.fetch(fetched, shared.ring + turn.stage * kStageBytes);
    }
    wgmma_wait<0>();
    pin_all(sums);
    release(empty, lane);
  }
  //% if pingpong
  named_barrier_arrive(kTurnBarrier + 1 - group, 256);
  //% end
  //% else
  constexpr u64 kLeftLayout = kLeftAcrossK ? across_k(64 * 128) : kAlongK;
  constexpr u64 kRightLayout = kRightAcrossK ? across_k(64 * 128) : kAlongK;
  const u64 left0 = descriptor(kLeftLayout, shared.ring + row_offset * 128);
  //% if halves
  const u64 right0 = descriptor(kRightLayout, shared.ring + 2 * kLeftBytes);
  multiply_halves(sums, shared, turn, count, left0, right0, lane);
  //% if pingpong
  named_barrier_arrive(kTurnBarrier + 1 - group, 256);
  //% end
  //% else
  const u64 right0 = descriptor(kRightLayout, shared.ring + kLeftBytes);
  //% if promote
  // The instruction keeps about 14 bits of 8-bit products' sums: each stage's are added in fp32.
  Acc part[kSubtiles][kSums];
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[s][r] = 0;
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    //% if block_scales
    StageScales now;
    now.load(scales, i);
    //% end
    mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
    const u64 place = u64(turn.stage) * (kStageBytes >> 4);
    multiply_stage(part, left0 + place, right0 + place, 0);
    wgmma_wait<0>();
    pin_all(part);
    release(shared.empty + turn.stage * 8, lane);
    turn.step();
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
      //% if block_scales
      _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[s][r] += part[s][r] * now.of(s, r);
      //% else
      _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[s][r] += part[s][r];
      //% end
  }
  //% if pingpong
  named_barrier_arrive(kTurnBarrier + 1 - group, 256);
  //% end
  //% else
  // One group of instructions stays in flight, so that a place is released one stage late.
  u32 behind = 0;
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
    const u64 place = u64(turn.stage) * (kStageBytes >> 4);
    multiply_stage(sums, left0 + place, right0 + place, i);
    wgmma_wait<1>();
    if (i > 0) release(behind, lane);
    behind = shared.empty + turn.stage * 8;
    turn.step();
  }
  //% if pingpong
  // All of the ring that this tile needs has arrived: the other may wait for what follows, and its
  // first instructions queue behind these.
  named_barrier_arrive(kTurnBarrier + 1 - group, 256);
  //% end
  wgmma_wait<0>();
  pin_all(sums);
  release(behind, lane);
  //% end
  //% end
  //% end
}
