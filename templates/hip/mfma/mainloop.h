// The main loop of hip_mfma, one for each pace: when a block's waves load, store, read and
// multiply. Expects mfma.hip and pace.h.
#pragma once

//% if pace == free
/// Adds the products of one stage.
KILN_DEVICE void multiply(Tile& sums, u32 stage, LaneRows rows) {
  KILN_UNROLL for (int step = 0; step < kSteps; ++step) {
    Step now;
    now.read(stage, rows, step);
    //% if fence
    schedule_fence();
    //% end
    //% if priority
    set_priority<1>();
    //% end
    now.add_products(sums);
    //% if priority
    set_priority<0>();
    //% end
    //% if fence
    schedule_fence();
    //% end
  }
}
//% end
//% if pace == interleaved
constexpr int kProducts = kPieces * kBlocksM * kBlocksN;  // of one step

//% if pipeline == single
/// Blocks of A's rows that a stage's last step multiplies while the next stage is written.
constexpr int kFirstBlocks = kBlocksM / 2;
//% else
constexpr int kFirstBlocks = 0;
//% end
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
  //% if direct
  load_stage(0, a, b, thread);
  wait_for_loads();
  shared_barrier();
  load_stage(kStageBytes, a, b, thread);
  //% else
  Next next;
  next.load(a, b, thread);
  next.store(0, thread);
  next.load(a, b, thread);
  shared_barrier();
  //% end
  constexpr int kLoads = StageA::kLoads + StageB::kLoads;
  Step now;
  now.read(0, rows, 0);
  u32 stage = 0;
  for (i32 i = 1; i < count; ++i) {
    //% if pipeline == single
    multiply_to_last<0, 0>(sums, now, stage, rows);
    // All have read the stage: it can be written. Once that is done, it can be read again.
    shared_barrier();
    next.store(stage, thread);
    now.add_products(sums, 0, kFirstBlocks);
    // Half of these products stand behind the last store, and cover its latency.
    lay_between<kSharedWrite, 0, Next::kStores, 2 * Next::kStores, kProducts - kRestProducts>();
    lay_rest<Next::kStores, 2 * Next::kStores, kProducts - kRestProducts>();
    shared_barrier();
    //% end
    //% if pipeline == twice
    // Its readers have passed the barrier of the stage before.
    next.store(kStageBytes - stage, thread);
    next.load(a, b, thread);
    multiply_to_last<Next::kStores, kLoads>(sums, now, stage, rows);
    stage = kStageBytes - stage;
    shared_barrier();
    //% end
    //% if pipeline == direct
    multiply_to_last<0, 0>(sums, now, stage, rows);
    // What arrived is there for all, and all have read the stage that is loaded next.
    wait_for_loads();
    shared_barrier();
    load_stage(stage, a, b, thread);
    stage = kStageBytes - stage;
    //% end
    Step then;
    then.read(stage, rows, 0);
    //% if pipeline == single
    next.load(a, b, thread);
    //% end
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
  //% if direct
  // Those of nothing write zeros to shared memory, which the block is about to give back.
  wait_for_loads();
  //% end
}
//% end

//% if pace == pingpong
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
  //% if direct
  load_stage(0, a, b, thread);
  wait_for_loads();
  //% else
  Next next;
  next.load(a, b, thread);
  next.store(0, thread);
  if (count > 1) next.load(a, b, thread);
  //% end
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
          //% if direct
          load_stage(kStageBytes - stage, a, b, thread);
          //% else
          next.store(kStageBytes - stage, thread);
          if (i + 1 < count) next.load(a, b, thread);
          //% end
        }
        //% if direct
        if (step == kSteps - 1 && part == kParts - 1) wait_for_loads();
        //% end
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
//% end

//% if pace == free
/// All of this block's k.
KILN_DEVICE void multiply_all(Tile& sums, SourceA a, SourceB b, u32 thread, LaneRows rows) {
  const i32 count = i32(ceil_div(a.k_left, kTileK));
  if (count <= 0) return;
  //% if direct
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
  //% else
  Next next;
  next.load(a, b, thread);
  //% end
  //% if pipeline == single
  for (i32 i = 1;; ++i) {
    next.store(0, thread);
    block_barrier();
    if (i < count) next.load(a, b, thread);
    multiply(sums, 0, rows);
    if (i == count) return;  // the stage is not written again
    block_barrier();
  }
  //% end
  //% if pipeline == twice
  next.store(0, thread);
  if (count > 1) next.load(a, b, thread);
  u32 stage = 0;
  for (i32 i = 1;; ++i) {
    // What was stored is there for all, and nobody reads the other stage any more.
    block_barrier();
    if (i < count) next.store(kStageBytes - stage, thread);
    if (i + 1 < count) next.load(a, b, thread);
    multiply(sums, stage, rows);
    if (i == count) return;
    stage = kStageBytes - stage;
  }
  //% end
}
//% end
