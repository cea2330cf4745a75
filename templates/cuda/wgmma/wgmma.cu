// Hopper: one warpgroup copies (copy.h), the others multiply (wgmma) and finish. Blocks are
// persistent. Expects wgmma.h, copy.h, consumer.h, convert.h, epilogue.h, where there are scales of
// blocks scales.h, and edges.h where groups of k begin within stages.

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
//% if alternate || halves
/// Some of a stage's four steps, of operands that are k-major; `accumulate` 0 lets step 0 start
/// anew.
template <int First, int End>
KILN_DEVICE void multiply_steps(Acc (&sums)[kSubtiles][kSums], u64 left, u64 right,
                                int accumulate) {
  _Pragma("unroll") for (int step = First; step < End; ++step)
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
      wgmma_m64(sums[s], left + ((s * 64 * 128 + step * 32) >> 4), right + ((step * 32) >> 4),
                accumulate | step);
}
//% else
//% if in_turn
/// A stage's products of 64 rows.
KILN_DEVICE void multiply_64(Acc (&part)[kSums], u64 left, u64 right) {
  constexpr u32 kLeftStep = kLeftAcrossK ? 16 * 128 : 32,
                kRightStep = kRightAcrossK ? 16 * 128 : 32;
  pin_sums(part);
  wgmma_fence();
  _Pragma("unroll") for (int step = 0; step < 4; ++step)
    wgmma_m64(part, left + ((step * kLeftStep) >> 4), right + ((step * kRightStep) >> 4), step);
  wgmma_commit();
  wgmma_wait<0>();
  pin_sums(part);
}
//% else
/// The instructions of one stage; `accumulate` 0 lets its first step start anew.
KILN_DEVICE void multiply_stage(Acc (&sums)[kSubtiles][kSums], u64 left, u64 right,
                                int accumulate) {
  constexpr u32 kLeftStep = kLeftAcrossK ? 16 * 128 : 32,
                kRightStep = kRightAcrossK ? 16 * 128 : 32;
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
//% end
//% end

//% if halves
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
    multiply_steps<0, 4>(part, left, right, 0);
    wgmma_commit();
    wgmma_wait<1>();
    if (i > 0) release(behind, lane);
    multiply_steps<0, 4>(cross, left + (kLeftBytes >> 4), right, i);
    multiply_steps<0, 4>(cross, left, right + (kRightBytes >> 4), 1);
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

//% if in_turn
/// Sums are promoted for 64 rows after the other, so that only theirs are there twice.
KILN_DEVICE void multiply_in_turn(Acc (&sums)[kSubtiles][kSums], const Shared& shared, Turn& turn,
                                  int count, u64 left0, u64 right0, u32 row_offset,
                                  //% if k_group_edges
                                  int lane, int group,
                                  const Edges& edges
                                  //% else
                                  int lane
                                  //% end
) {
  Acc part[kSums];
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[s][r] = 0;
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
    //% if gather_copies
    fence_async_shared();
    //% end
    //% if k_group_edges
    edges.clear(shared.ring + turn.stage * kStageBytes, i, count, row_offset, group);
    //% end
    const u64 place = u64(turn.stage) * (kStageBytes >> 4);
    //% if block_scales
    //% if tma_scales
    const auto scales =
        StageScales::of(shared.scales + turn.scales, row_offset, int(threadIdx.x) & 127);
    //% else
    const auto scales = StageScales::of(shared.scales + turn.stage * kScaleBytes, row_offset,
                                        int(threadIdx.x) & 127);
    //% end
    //% end
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s) {
      multiply_64(part, left0 + place + ((s * 64 * 128) >> 4), right0 + place);
      if (s + 1 == kSubtiles) {
        //% if block_scales
        __syncwarp();  // all lanes have their scales
        //% end
        release(shared.empty + turn.stage * 8, lane);
      }
      //% if block_scales
      _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[s][r] += part[r] * scales.of(s, r);
      //% else
      _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[s][r] += part[r];
      //% end
    }
    turn.step();
  }
}
//% end

/// The products of `count` stages.
KILN_DEVICE void multiply(Acc (&sums)[kSubtiles][kSums], const Shared& shared, Turn& turn,
                          int count, u32 row_offset, int group,
                          //% if k_group_edges
                          int lane,
                          const Edges& edges
                          //% else
                          int lane
                          //% end
) {
  //% if left_registers
  const LeftLane mine = LeftLane::of(row_offset, int(threadIdx.x) & 127);
  const u64 right0 = descriptor(kAlongK, shared.ring + kLeftBytes);
  // The next stage's words are fetched while this one's are multiplied, and put in order only when
  // no instruction is in flight: the assembler lets nothing write what an instruction may read.
  LeftWords fetched, words;
  mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
  //% if gather_copies
  fence_async_shared();
  //% end
  mine.fetch(fetched, shared.ring + turn.stage * kStageBytes);
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    const u32 empty = shared.empty + turn.stage * 8;
    mine.order(words, fetched);
    multiply_stage(sums, words, right0 + u64(turn.stage) * (kStageBytes >> 4), i);
    turn.step();
    if (i + 1 < count) {
      mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
      //% if gather_copies
      fence_async_shared();
      //% end
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
  //% if in_turn
  //% if k_group_edges
  multiply_in_turn(sums, shared, turn, count, left0, right0, row_offset, lane, group, edges);
  //% else
  multiply_in_turn(sums, shared, turn, count, left0, right0, row_offset, lane);
  //% end
  //% else
  Acc part[kSubtiles][kSums];
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[s][r] = 0;
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
    //% if gather_copies
    fence_async_shared();
    //% end
    //% if k_group_edges
    edges.clear(shared.ring + turn.stage * kStageBytes, i, count, row_offset, group);
    //% end
    const u64 place = u64(turn.stage) * (kStageBytes >> 4);
    //% if alternate
    // Each warpgroup waits until the other has one step left, so that it promotes while this one
    // multiplies: faster in small products, slower in large ones (docs/performance-log.md).
    named_barrier_sync(kTurnBarrier + group, 256);
    pin_all(part);
    wgmma_fence();
    multiply_steps<0, 3>(part, left0 + place, right0 + place, 0);
    wgmma_commit();
    multiply_steps<3, 4>(part, left0 + place, right0 + place, 1);
    wgmma_commit();
    wgmma_wait<1>();
    named_barrier_arrive(kTurnBarrier + 1 - group, 256);
    //% else
    multiply_stage(part, left0 + place, right0 + place, 0);
    //% end
    //% if block_scales
    //% if tma_scales
    const auto scales =
        StageScales::of(shared.scales + turn.scales, row_offset, int(threadIdx.x) & 127);
    //% else
    const auto scales = StageScales::of(shared.scales + turn.stage * kScaleBytes, row_offset,
                                        int(threadIdx.x) & 127);
    //% end
    //% end
    wgmma_wait<0>();
    pin_all(part);
    //% if block_scales
    __syncwarp();  // all lanes have their scales
    //% end
    release(shared.empty + turn.stage * 8, lane);
    turn.step();
    _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
      //% if block_scales
      _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[s][r] += part[s][r] * scales.of(s, r);
    //% else
    _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[s][r] += part[s][r];
    //% end
  }
  //% end
  //% if pingpong
  named_barrier_arrive(kTurnBarrier + 1 - group, 256);
  //% end
  //% else
  // One group of instructions stays in flight, so that a place is released one stage late.
  u32 behind = 0;
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
    //% if gather_copies
    fence_async_shared();
    //% end
    //% if k_group_edges
    edges.clear(shared.ring + turn.stage * kStageBytes, i, count, row_offset, group);
    //% end
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
