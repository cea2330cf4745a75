// The model that ranks configs of cuda_wgmma_weights: that of cuda_wgmma (fitted on an H200), with
// what decoding and scaling add, counted in instructions.
#include <algorithm>
#include <cmath>

#include "generator/families/cuda/common/weights.h"
#include "generator/families/cuda/wgmma_weights/config.h"
#include "generator/families/cuda/wgmma_weights/sizes.h"
#include "generator/problem/extent.h"
#include "generator/problem/groups.h"

namespace kiln::cuda {
namespace {

/// Instructions of a warp for the words of one step: those of four pairs, and their reads.
double decode_instructions(const Problem& p, const CudaWgmmaWeights& c,
                           const WgmmaWeightsSizes& w) {
  const double pair = pair_instructions(p.gemm) + (c.round_weights ? 1 : 0);
  return 4 * pair + (w.code_bits == 4 ? 2 : 4) + 6;
}

/// Where a warpgroup waits for its instructions in a turn: how often, and how many instructions
/// follow before the next one of the tensor cores. The sums of a group are scaled, and codes are
/// decoded. Where weights are rounded, the words of the next turn are there.
struct Waits {
  double count, instructions;
};

Waits waits_of(const Problem& p, const CudaWgmmaWeights& c, const WgmmaWeightsSizes& w) {
  if (c.round_weights) return {1, 6};
  const double decode = decode_instructions(p, c, w);
  if (w.along == 0) return {double(w.factors), decode};
  return {w.factors * c.block_k / double(w.along), w.wgmma.accumulators + 12.0 + decode};
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
  const double multiply = steps * std::max({c.tile_m / 2.0, 57.0, decode / warpgroups});
  const Waits waits = waits_of(p, c, w);
  const double idle = waits.count * (warpgroups * waits.instructions + 60) + 40;
  // Of a column's scale two conversions or three.
  const double groups = w.factors * (w.along == 0 ? 0 : depth / double(w.along));
  // A warp has a scheduler for itself among its warpgroup's.
  const double issue = steps * decode + waits.count * waits.instructions + groups * 6 + 40;
  const double stage_bytes = double(w.wgmma.stage_bytes);
  const double read = warpgroups * (steps * c.tile_m * 32 + 64.0 * w.factors * w.code_pitch * turn);
  const double moved = (read + stage_bytes * turn) / 128;
  const double copied = stage_bytes * turn / 73;
  const double filled = turn * (stage_bytes / 73 + 900) / std::max(1, c.stages - 1);
  return std::max({warpgroups * multiply + idle, warpgroups * issue, moved, copied, filled}) + 15;
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

double wgmma_weights_ns(const Problem& p, const DeviceCaps& d, const CudaWgmmaWeights& c,
                        const WgmmaWeightsSizes& w) {
  const Gemm& g = p.gemm;
  const double ghz = 0.87 * (d.ghz > 0 ? d.ghz : 2.0);       // the clock under load
  const double tile = double(c.tile_m) * 64 * c.warpgroups;  // elements of D
  const double parts_tile = tile * w.factors;                // sums of it
  const double per_block = computed_tiles(g, c, w) * c.splits / w.wgmma.clusters;
  const double rounds = c.sharing == Sharing::stream ? per_block + 0.1 : std::ceil(per_block);
  const double finish = tile * 0.044 * size_of(g.d.dtype) / 2 / c.warpgroups + 650;
  const double cycles = rounds * double(w.wgmma.stages_of_k) / c.splits * turn_cycles(p, c, w) +
                        (rounds - 1) * 1.1 * finish;
  double after = finish / ghz;
  if (c.sharing == Sharing::summed) {
    after += 1700 + double(w.wgmma.tiles) * c.splits * parts_tile * 4 / 1500;
  } else if (c.sharing != Sharing::tiles) {
    const double parts = c.sharing == Sharing::split ? c.splits : 3;
    after += (4200 + std::max(std::ceil(parts / w.wgmma.partials_at_once) * 80,
                              parts * parts_tile * 4 / 43)) /
             ghz;
  }
  const double bytes =
      computed_rows(g) * (double(g.k) * size_of(g.a.dtype) + double(g.n) * size_of(g.d.dtype)) +
      double(g.batch) * double(g.columns_of_b()) * double(g.k) * w.code_bits / 8;
  const double memory = bytes / (0.94 * std::max(1, d.gpu.memory_gbs));
  const double work = cycles / ghz;
  // Of configs that the model cannot tell apart one stands for all in the first guesses.
  return (940 + after + std::max(work, memory) + 0.21 * std::min(work, memory)) *
         (c.group == 8 ? 1.0 : 1.015);
}

}  // namespace kiln::cuda
