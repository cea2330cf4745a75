// A times weights of four or eight bits by the instruction of a warpgroup. The weights are the left
// operand, from registers, so that D is computed transposed; A's rows are the right one, from
// shared memory. A stage holds codes as they are stored and A's lines of 64 k. While one warpgroup
//% if round_weights
// turns codes into numbers and multiplies these by their scales, in A's type, the tensor cores
// multiply another's. Sums are of all of k, which is divided by turns of kTurn stages. Expects
// fragment.h, scaling.h, wgmma.h, consumer.h, tile_scheduler.h.
//% else
// turns codes into numbers, the tensor cores multiply another's. The sum of a group starts anew, is
// scaled in fp32 and added. Expects fragment.h, scaling.h, wgmma.h, consumer.h, tile_scheduler.h.
//% end

constexpr int kSteps = kDepth / 16;  // instructions of a stage
//% if round_weights
constexpr int kTurn = kDecodeK / kDepth;  // stages whose instructions follow one another
constexpr int kChain = kSteps;            // instructions that add up before their sums are read
//% end
//% if whole_column && !round_weights
constexpr int kChain = kSteps;  // of them that add up before their sums are read
//% end
//% if !whole_column && !round_weights
constexpr int kChain = kGroupK / 16;  // of them that add up before their sums are read
//% end
constexpr int kFlight = kChain < 4 ? kChain : 4;  // on their way at once, each with its own words

//% if gate
// A warpgroup has 64 columns of B of either factor, under the same columns of D.
constexpr int kColumns = kLeftTile / 2;        // of D in a tile
constexpr int kFactorBytes = 64 * kCodePitch;  // of a stage's codes
//% end

KILN_DEVICE TileScheduler scheduler_of(const KilnGpuArgs& args, u32 rank) {
  return TileScheduler::start(
      //% if gate
      (int(args.n) + kColumns - 1) / kColumns,
      //% else
      (int(args.n) + kLeftTile - 1) / kLeftTile,
      //% end
      (int(args.m) + kRightTile - 1) / kRightTile,
      //% if round_weights
      (int(args.k) + kDecodeK - 1) / kDecodeK,
      //% else
      (int(args.k) + kDepth - 1) / kDepth,
      //% end
      int(args.batch), rank);
}

//% if row_groups
/// Tiles across the columns of D.
KILN_DEVICE int tiles_across(const KilnGpuArgs& args) {
  //% if gate
  return (int(args.n) + kColumns - 1) / kColumns;
  //% else
  return (int(args.n) + kLeftTile - 1) / kLeftTile;
  //% end
}

//% end
/// One thread fills the ring.
KILN_DEVICE void copy_all(const Shared& shared, TileScheduler scheduler, const KilnTensorMap* left,
                          const KilnTensorMap* right) {
  Turn turn;
  Work work;
  bool more = scheduler.take(work);
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  for (; more; more = scheduler.take(work))
    //% if round_weights
    for (int i = 0; i < work.count * kTurn; ++i) {
      //% include cuda/wgmma_weights/copy_stage.h
    }
  //% else
  for (int i = 0; i < work.count; ++i) {
    //% include cuda/wgmma_weights/copy_stage.h
  }
  //% end
}

//% if gate
/// Scales and zero points of a lane's two columns of either factor in a tile.
//% else
/// Scales and zero points of a lane's two columns in a tile.
//% end
struct TileScales {
  Scaling scaling;
  int begin;  // first stage of the work

  static __device__ __forceinline__ TileScales of(const KilnGpuArgs& args, const Work& work,
                                                  u32 row_offset, int thread) {
    //% if gate
    const int column0 = work.left * kColumns + int(row_offset) / 2 + thread / 32 * 16;
    //% else
    const int column0 = work.left * kLeftTile + int(row_offset) + thread / 32 * 16;
    //% end
    return {Scaling::at(args, work.batch, column0, thread % 32), work.begin};
  }
};

//% if round_weights
//% if gate
/// The products of `count` turns, in each of them those of one factor and then those of the other.
/// While the last instructions of a turn are on their way, the next one's first words are decoded:
/// the assembler lets no instruction be on its way from one turn of the loop to the next.
//% else
/// The products of `count` turns. While the last instructions of a turn are on their way, the next
/// one's first words are decoded: the assembler lets no instruction be on its way from one turn of
/// the loop to the next.
//% end
KILN_DEVICE void multiply(Acc (&sums)[kSubtiles][kSums], const Shared& shared, Turn& turn,
                          int count, u32 row_offset, int, int lane, const TileScales& scales) {
  constexpr int kFactorSteps = kTurn * kSteps, kAll = kSubtiles * kFactorSteps;  // of a turn
  const CodeLane mine = CodeLane::of(row_offset, int(threadIdx.x) & 127);
  const u64 right0 = descriptor(kAlongK, shared.ring + kLeftBytes);
  int chunk = scales.begin;
  Fetched fetched;
  scales.scaling.fetch(fetched, chunk);
  Codes codes[2];
  u32 words[kFlight][4];
  mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
  mine.fetch(codes[0], shared.ring + turn.stage * kStageBytes, 0);
  Factors factors = scales.scaling.factors(fetched, chunk);
  scales.scaling.fetch(fetched, ++chunk);
  _Pragma("unroll") for (int step = 0; step < kReadSteps; ++step)
    mine.decode(words[step], codes[0], step, factors, 0, 0);
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    int place[kTurn];  // of its stages in the ring
    pin_all(sums);
    _Pragma("unroll") for (int at = 0; at < kAll; ++at) {
      const int f = at / kFactorSteps, of_factor = at % kFactorSteps;
      const int stage = of_factor / kSteps, step = of_factor % kSteps;
      if (f == 0 && step == 0) {
        place[stage] = turn.stage;
        turn.step();
      }
      // The next codes come while these are decoded.
      const int next = (at / kReadSteps + 1) * kReadSteps;
      const bool enters = next % kSteps == 0 && (next < kFactorSteps || next == kAll);
      if (at % kReadSteps == 0 && enters && (next < kAll || i + 1 < count)) {
        mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
        mine.fetch(codes[next / kReadSteps % 2], shared.ring + turn.stage * kStageBytes, 0);
      }
      if (at % kReadSteps == 0 && !enters)
        mine.fetch(codes[next / kReadSteps % 2],
                   //% if gate
                   shared.ring + place[next % kFactorSteps / kSteps] * kStageBytes +
                       next / kFactorSteps * kFactorBytes,
                   //% else
                   shared.ring + place[next % kFactorSteps / kSteps] * kStageBytes,
                   //% end
                   next % kSteps / kReadSteps);
      // The instruction that took these words has ended, and with its last one a stage.
      if (at >= kFlight) wgmma_wait<kFlight - 1>();
      const int ended = at - kFlight - (kAll - kFactorSteps);  // of the last factor
      if (ended >= 0 && ended % kSteps == kSteps - 1)
        release(shared.empty + place[ended / kSteps] * 8, lane);
      u32(&left)[4] = words[at % kFlight];
      if (at >= kReadSteps)
        mine.decode(left, codes[at / kReadSteps % 2], at % kReadSteps, factors, f * 2,
                    of_factor * 16 / kGroupK);
      wgmma_fence();
      wgmma_m64(sums[f], left,
                right0 + u64(place[stage]) * (kStageBytes >> 4) +
                    ((step / 4 * kRightTile * 128 + step % 4 * 32) >> 4),
                i | of_factor);
      wgmma_commit();
    }
    factors = scales.scaling.factors(fetched, chunk);
    scales.scaling.fetch(fetched, ++chunk);
    wgmma_wait<kFlight - 1>();
    mine.decode(words[0], codes[0], 0, factors, 0, 0);
    //% if code_bits == 4
    wgmma_wait<kFlight - 2>();
    mine.decode(words[1], codes[0], 1, factors, 0, 0);
    //% end
    wgmma_wait<0>();
    pin_all(sums);
    release(shared.empty + place[kTurn - 1] * 8, lane);
  }
}
//% else
//% if gate
KILN_DEVICE void pin_factor(Acc (&sums)[kSums]) {
  _Pragma("unroll") for (int r = 0; r < kSums; ++r) pin(sums[r]);
}

//% end
//% if whole_column
/// The instructions of one stage; `accumulate` 0 lets its first step start anew.
//% else
/// The products of one stage, group by group, scaled and added.
//% end
//% if gate
/// Of factor `f`.
//% end
KILN_DEVICE void multiply_stage(
    //% if gate
    Acc (&sums)[kSums],
    //% else
    Acc (&sums)[kSubtiles][kSums],
    //% end
    const CodeLane& mine, u32 stage, u64 right,
    //% if gate && whole_column
    const Factors& factors, int f,
    int accumulate
    //% end
    //% if gate && !whole_column
    const Factors& factors,
    int f
    //% end
    //% if !gate && whole_column
    const Factors& factors,
    int accumulate
    //% end
    //% if !gate && !whole_column
    const Factors& factors
    //% end
) {
  //% if gate && whole_column
  Acc(&part)[kSums] = sums;
  //% end
  //% if gate && !whole_column
  Acc part[kSums];
  //% end
  //% if !gate && whole_column
  Acc(&part)[kSubtiles][kSums] = sums;
  //% end
  //% if !gate && !whole_column
  Acc part[kSubtiles][kSums];
  //% end
  Codes codes[2];
  u32 words[kFlight][4];
  mine.fetch(codes[0], stage, 0);
  _Pragma("unroll") for (int step = 0; step < kSteps; ++step) {
    const int read = step / kReadSteps;
    // The next codes come while these are decoded.
    if (step % kReadSteps == 0 && step + kReadSteps < kSteps)
      mine.fetch(codes[(read + 1) % 2], stage, read + 1);
    //% if whole_column
    const int group = 0, before = accumulate | step;
    //% else
    const int group = step / kChain, before = step % kChain;
    //% end
    // The instruction that took these words has ended.
    if (step % kChain >= kFlight) wgmma_wait<kFlight - 1>();
    u32(&left)[4] = words[step % kFlight];
    //% if gate
    mine.decode(left, codes[read % 2], step % kReadSteps, factors.offset[f * 2][group],
                factors.offset[f * 2 + 1][group]);
    if (step % kChain == 0) pin_factor(part);
    wgmma_fence();
    wgmma_m64(part, left, right + ((step / 4 * kRightTile * 128 + step % 4 * 32) >> 4), before);
    wgmma_commit();
    if (step % kChain != kChain - 1) continue;
    wgmma_wait<0>();
    pin_factor(part);
    //% if !whole_column
    _Pragma("unroll") for (int r = 0; r < kSums; ++r)
      sums[r] += factors.scale[f * 2 + r / 2 % 2][group] * part[r];
    //% end
    //% else
    mine.decode(left, codes[read % 2], step % kReadSteps, factors.offset[0][group],
                factors.offset[1][group]);
    if (step % kChain == 0) pin_all(part);
    wgmma_fence();
    wgmma_m64(part[0], left, right + ((step / 4 * kRightTile * 128 + step % 4 * 32) >> 4), before);
    wgmma_commit();
    if (step % kChain != kChain - 1) continue;
    wgmma_wait<0>();
    pin_all(part);
    //% if !whole_column
    _Pragma("unroll") for (int r = 0; r < kSums; ++r)
      sums[0][r] += factors.scale[r / 2 % 2][group] * part[0][r];
    //% end
    //% end
  }
}

/// The products of `count` stages.
KILN_DEVICE void multiply(Acc (&sums)[kSubtiles][kSums], const Shared& shared, Turn& turn,
                          int count, u32 row_offset, int, int lane, const TileScales& scales) {
  const CodeLane mine = CodeLane::of(row_offset, int(threadIdx.x) & 127);
  const u64 right0 = descriptor(kAlongK, shared.ring + kLeftBytes);
  Fetched fetched;
  //% if whole_column
  scales.scaling.fetch(fetched, 0);
  const Factors factors = scales.scaling.factors(fetched, 0);
  //% else
  int chunk = scales.begin;
  scales.scaling.fetch(fetched, chunk);
  //% if gate
  _Pragma("unroll") for (int f = 0; f < 2; ++f)
    _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[f][r] = 0;
  //% else
  _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[0][r] = 0;
  //% end
  //% end
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
    //% if !whole_column
    const Factors factors = scales.scaling.factors(fetched, chunk);
    scales.scaling.fetch(fetched, ++chunk);
    //% end
    const u32 stage = shared.ring + turn.stage * kStageBytes;
    const u64 right = right0 + u64(turn.stage) * (kStageBytes >> 4);
    //% if gate
    _Pragma("unroll") for (int f = 0; f < 2; ++f)
      //% if whole_column
      multiply_stage(sums[f], mine, stage + f * kFactorBytes, right, factors, f, i);
    //% else
    multiply_stage(sums[f], mine, stage + f * kFactorBytes, right, factors, f);
    //% end
    //% else
    //% if whole_column
    multiply_stage(sums, mine, stage, right, factors, i);
    //% else
    multiply_stage(sums, mine, stage, right, factors);
    //% end
    //% end
    release(shared.empty + turn.stage * 8, lane);
    turn.step();
  }
  //% if whole_column && gate
  _Pragma("unroll") for (int f = 0; f < 2; ++f)
    _Pragma("unroll") for (int r = 0; r < kSums; ++r)
      sums[f][r] *= factors.scale[f * 2 + r / 2 % 2][0];
  //% end
  //% if whole_column && !gate
  _Pragma("unroll") for (int r = 0; r < kSums; ++r) sums[0][r] *= factors.scale[r / 2 % 2][0];
  //% end
}
//% end
