#include "generator/families/cuda/wgmma_weights/sizes.h"

#include <algorithm>

#include "generator/expression/code.h"
#include "generator/families/cuda/wgmma_weights/config.h"
#include "generator/problem/epilogue.h"
#include "generator/problem/extent.h"
#include "generator/problem/gate.h"

namespace kiln::cuda {
namespace {

/// Registers of a thread that multiplies: sums, those of a group, the words of the instructions on
/// their way, codes of this read and the next, scales and zero points of two columns as they are
/// fetched and as they are used, and the rest, more of it with codes of eight bits: a tile of 176
/// rows in groups of 128 spills 72 bytes. Where weights are rounded, no group has sums of its own.
int registers_of(const Problem& p, const CudaWgmmaWeights& c, const WgmmaWeightsSizes& w) {
  const Gemm& g = p.gemm;
  const bool of_groups = w.along > 0 && !c.round_weights;
  const int sums = w.wgmma.accumulators * (w.factors + (of_groups ? 1 : 0));
  const int groups = w.along > 0 ? c.block_k * c.stages_of_turn() / w.along : 1;
  const int each = (g.b.q.zero == Zero::none                ? 2
                    : w.code_bits == 4 && g.a.dtype == fp16 ? 5
                                                            : 4) +
                   (g.b.q.zero == Zero::floating ? 1 : 0);
  const bool smooth = expression::uses_exponential(epilogue_of(g));
  // Whole columns of fp8 with a gate spill 16 bytes of two warpgroups' threads at 136 rows, with
  // split-K 40 at 120; groups of 128, two of them a stage, with stream-K 180 at 80.
  const bool cut = c.sharing == Sharing::split || c.sharing == Sharing::stream;
  const int gate = w.factors == 1 ? 0 : cut ? 48 : 24;
  return sums + 16 + 16 + 2 * w.factors * groups * each + 24 + (w.code_bits == 8 ? 8 : 0) +
         (smooth ? 8 : 0) + (c.turn > 0 ? 8 : 0) + gate;
}

}  // namespace

WgmmaWeightsSizes wgmma_weights_sizes(const Problem& p, const DeviceCaps& d,
                                      const CudaWgmmaWeights& c) {
  const int factors = gated(p.gemm) ? 2 : 1;
  WgmmaWeightsSizes w{.numbers = p,
                      .wgmma_config = {.left = 64 * factors * c.warpgroups,
                                       .right = c.tile_m,
                                       .stages = c.stages,
                                       .warpgroups = c.warpgroups,
                                       .swap = true,
                                       .sharing = c.sharing,
                                       .splits = c.splits,
                                       .group = c.group},
                      .wgmma = {},
                      .factors = factors,
                      .code_bits = bits_of(p.gemm.b.dtype),
                      .along = scale_block(p.gemm.b.q.scale).along,
                      .code_pitch = 0,
                      .registers = 0};
  w.numbers.gemm.b.dtype = p.gemm.a.dtype;
  // Each column reads the scale of its square; of what type scales are does not matter here.
  if (p.gemm.b.q.scale == Scale::square_128) w.numbers.gemm.b.q.scale = Scale::line_128;
  if (p.gemm.b.q.scale == Scale::mx_32) w.numbers.gemm.b.q.scale = Scale::line_32;
  w.wgmma = wgmma_sizes(w.numbers, d, w.wgmma_config);
  w.code_pitch = c.block_k * w.code_bits / 8;
  WgmmaSizes& own = w.wgmma;
  own.left_registers = true;
  own.depth = c.block_k;
  own.stages_of_k = ceil_div(p.gemm.k, std::int64_t{c.block_k} * c.stages_of_turn());
  const std::int64_t stage_bytes = std::int64_t{w.wgmma_config.left} * w.code_pitch +
                                   std::int64_t{c.tile_m} * c.block_k * size_of(p.gemm.a.dtype);
  own.shared_bytes += c.stages * (stage_bytes - own.stage_bytes);
  own.stage_bytes = stage_bytes;
  if (c.sharing == Sharing::stream)
    own.clusters = static_cast<int>(
        std::min<std::int64_t>(std::max(1, d.compute_units), own.tiles * own.stages_of_k));
  w.registers = registers_of(p, c, w);
  return w;
}

}  // namespace kiln::cuda
