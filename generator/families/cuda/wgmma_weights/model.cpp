// The model that ranks configs of cuda_wgmma_weights: that of cuda_wgmma (fitted on an H200), with
// what decoding and scaling add, counted in instructions.
#include <algorithm>
#include <cmath>

#include "generator/families/cuda/common/weights.h"
#include "generator/families/cuda/wgmma_weights/config.h"
#include "generator/families/cuda/wgmma_weights/sizes.h"
#include "generator/problem/extent.h"
#include "generator/problem/groups.h"

namespace kiln::cuda::wgmma_weights_model {
namespace {

// The numbers of the model. [wgmma]: those of cuda_wgmma's model, fitted on an H200; [counted]:
// instructions of the generated code; [trial]: chosen by trial, no measurement is kept.

// --- A turn, in cycles or instructions.
constexpr double kDecodeHalfBytes = 2, kDecodeBytes = 4, kDecodeReads = 6;  // of a step [counted]
constexpr double kNextTurn = 6;        // where the next turn's words are there [counted]
constexpr double kScaleSums = 12;      // of a group, beside one for each accumulator [counted]
constexpr double kLeastMultiply = 57;  // cycles of an instruction with registers [wgmma]
constexpr double kWait = 60, kTurnWait = 40;        // cycles of a wait, and of a turn's [trial]
constexpr double kScaleIssue = 6, kTurnIssue = 40;  // of a group's scales, of a turn [counted]
constexpr double kSharedRate = 128, kL2Rate = 73;   // bytes a cycle [data sheet; wgmma]
constexpr double kRefill = 900;  // cycles until a place of the ring is filled again [trial]
constexpr double kTurn = 15;     // cycles from turn to turn [trial]

// --- A call, as in cuda_wgmma [wgmma].
constexpr double kClock = 0.87, kGhz = 2;
constexpr double kStreamRound = 0.1;
constexpr double kStoreBox = 0.044, kFinish = 650, kShown = 1.1;
constexpr double kSecondLaunch = 1700, kSummedRate = 1500;
constexpr double kReduction = 4200, kTurnOfPart = 80, kPartRate = 43, kPartsOfStream = 3;
constexpr double kOfNominal = 0.94, kCall = 940, kExposed = 0.21, kOtherWalk = 1.015;

/// Instructions of a warp for the words of one step: those of four pairs, and their reads.
double decode_instructions(const Problem& p, const CudaWgmmaWeights& c,
                           const WgmmaWeightsSizes& w) {
  const double pair = pair_instructions(p.gemm) + (c.round_weights ? 1 : 0);
  return 4 * pair + (w.code_bits == 4 ? kDecodeHalfBytes : kDecodeBytes) + kDecodeReads;
}

/// Where a warpgroup waits for its instructions in a turn: how often, and how many instructions
/// follow before the next one of the tensor cores. The sums of a group are scaled, and codes are
/// decoded. Where weights are rounded, the words of the next turn are there.
struct Waits {
  double count, instructions;
};

Waits waits_of(const Problem& p, const CudaWgmmaWeights& c, const WgmmaWeightsSizes& w) {
  if (c.round_weights) return {1, kNextTurn};
  const double decode = decode_instructions(p, c, w);
  if (w.along == 0) return {double(w.factors), decode};
  return {w.factors * c.block_k / double(w.along), w.wgmma.accumulators + kScaleSums + decode};
}

/// Cycles of one turn: the instructions of all warpgroups, which share the tensor cores; what
/// decoding and scaling take of the schedulers; what shared memory moves; what L2 gives, and when a
/// place of the ring is filled again. Warpgroups wait together, for the same stages: the tensor
/// cores rest meanwhile. (Counted so, 512 rows of int4 in groups of 128 take 1.3 times what their
/// instructions do; 1.34 was measured on an H200.)
double turn_cycles(const Problem& p, const CudaWgmmaWeights& c, const WgmmaWeightsSizes& w) {
  const int turn = c.stages_of_turn();
  const double depth = double(c.block_k) * turn;
  const double steps = w.factors * depth / 16.0, warpgroups = c.warpgroups;
  const double decode = decode_instructions(p, c, w);
  const double multiply = steps * std::max({c.tile_m / 2.0, kLeastMultiply, decode / warpgroups});
  const Waits waits = waits_of(p, c, w);
  const double idle = waits.count * (warpgroups * waits.instructions + kWait) + kTurnWait;
  // Of a column's scale two conversions or three.
  const double groups = w.factors * (w.along == 0 ? 0 : depth / double(w.along));
  // A warp has a scheduler for itself among its warpgroup's.
  const double issue =
      steps * decode + waits.count * waits.instructions + groups * kScaleIssue + kTurnIssue;
  const double stage_bytes = double(w.wgmma.stage_bytes);
  const double read = warpgroups * (steps * c.tile_m * 32 + 64.0 * w.factors * w.code_pitch * turn);
  const double moved = (read + stage_bytes * turn) / kSharedRate;
  const double copied = stage_bytes * turn / kL2Rate;
  const double filled = turn * (stage_bytes / kL2Rate + kRefill) / std::max(1, c.stages - 1);
  return std::max({warpgroups * multiply + idle, warpgroups * issue, moved, copied, filled}) +
         kTurn;
}

/// Rows of A and D that are computed; of masked groups those that are expected.
double computed_rows(const Gemm& g) {
  if (g.grouping() == Grouping::rows) return double(g.m);
  return double(g.batch) * (g.grouping() == Grouping::masked ? expected_rows_of(g) : double(g.m));
}

/// Tiles; of groups as many as are expected, half of the last one of each being empty, which is the
/// only one of few rows.
double computed_tiles(const Gemm& g, const CudaWgmmaWeights& c, const WgmmaWeightsSizes& w) {
  if (!grouped(g)) return double(w.wgmma.tiles);
  const double each = std::max(1.0, computed_rows(g) / double(g.batch) / c.tile_m + 0.5);
  return each * double(g.batch) * double(w.wgmma.tiles_left);
}

}  // namespace
}  // namespace kiln::cuda::wgmma_weights_model

namespace kiln::cuda {

double wgmma_weights_ns(const Problem& p, const DeviceCaps& d, const CudaWgmmaWeights& c,
                        const WgmmaWeightsSizes& w) {
  using namespace wgmma_weights_model;
  const Gemm& g = p.gemm;
  const double ghz = kClock * (d.ghz > 0 ? d.ghz : kGhz);    // the clock under load
  const double tile = double(c.tile_m) * 64 * c.warpgroups;  // elements of D
  const double parts_tile = tile * w.factors;                // sums of it
  const double per_block = computed_tiles(g, c, w) * c.splits / w.wgmma.clusters;
  const double rounds =
      c.sharing == Sharing::stream ? per_block + kStreamRound : std::ceil(per_block);
  const double finish = tile * kStoreBox * size_of(g.d.dtype) / 2 / c.warpgroups + kFinish;
  const double cycles = rounds * double(w.wgmma.stages_of_k) / c.splits * turn_cycles(p, c, w) +
                        (rounds - 1) * kShown * finish;
  double after = finish / ghz;
  if (c.sharing == Sharing::summed) {
    after += kSecondLaunch + double(w.wgmma.tiles) * c.splits * parts_tile * 4 / kSummedRate;
  } else if (c.sharing != Sharing::tiles) {
    const double parts = c.sharing == Sharing::split ? c.splits : kPartsOfStream;
    after += (kReduction + std::max(std::ceil(parts / w.wgmma.partials_at_once) * kTurnOfPart,
                                    parts * parts_tile * 4 / kPartRate)) /
             ghz;
  }
  const double bytes =
      computed_rows(g) * (double(g.k) * size_of(g.a.dtype) + double(g.n) * size_of(g.d.dtype)) +
      double(g.batch) * double(g.columns_of_b()) * double(g.k) * w.code_bits / 8;
  const double memory = bytes / (kOfNominal * std::max(1, d.gpu.memory_gbs));
  const double work = cycles / ghz;
  // Of configs that the model cannot tell apart one stands for all in the first guesses.
  return (kCall + after + std::max(work, memory) + kExposed * std::min(work, memory)) *
         (c.group == 8 ? 1.0 : kOtherWalk);
}

}  // namespace kiln::cuda
