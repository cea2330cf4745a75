// The model that ranks configs of cuda_weights.
#include <algorithm>
#include <cmath>

#include "generator/families/cuda/common/weights.h"
#include "generator/families/cuda/weights/config.h"
#include "generator/families/cuda/weights/sizes.h"
#include "generator/problem/groups.h"

namespace kiln::cuda {
namespace {

/// Multiply-adds of one SM in a cycle by mma.sync, by data sheets (dense, fp32 accumulators); on
/// Hopper 0.62 of what wgmma does.
double products_per_cycle(int sm) {
  if (sm >= 110) return 512;
  if (sm >= 100) return 1024;
  if (sm >= 90) return 1270;
  return sm == 80 ? 1024 : 512;
}

/// Cycles of an SM for one stage of one block.
double stage_cycles(const Problem& p, const DeviceCaps& d, const WeightsSizes& w,
                    const CudaWeights& c, int resident) {
  const double k = c.block_k, warps = c.warps;
  const double multiply = double(c.tile_m) * c.tile_n * k / products_per_cycle(d.gpu.sm) *
                          std::max(1.0, 4.0 / (warps * resident));
  // Every warp reads all of A's tile, and its own codes.
  const double read = warps * c.tile_m * double(w.pitch_a) + double(c.tile_n) * w.pitch_b;
  const double shared = (read + double(w.stage_bytes)) / 128;
  // Instructions of a warp, as its main loop has them: of each word of codes of 8 columns, of A's
  // words, products, scales, copies.
  const double decodes = w.tiles_m * (k * w.code_bits / 64) * word_instructions(p.gemm);
  const double lefts = w.tiles_n * (k / 16) * (w.code_bits == 4 ? 2.5 : 1);
  const double products = w.tiles_m * w.tiles_n * (k / 16);
  const double scales = w.along == 0 ? 0 : k / w.along * w.tiles_m * (w.tiles_n * 6.0 + 10);
  const double copies = double(w.stage_bytes) / w.unit / w.threads * (w.async ? 6 : 20) + 40;
  const double issue =
      warps * (decodes + lefts + products + scales + copies) / std::min(4.0, warps * resident);
  double sum = 0;
  for (const double part : {multiply, shared, issue}) sum += std::pow(part, 4);
  // At its end every stage has a barrier, which other blocks cover.
  return std::pow(sum, 0.25) + 120.0 / resident;
}

/// Blocks that have work; of groups as many as are expected, half of the last tile of each being
/// empty.
double blocks_of(const Gemm& g, const WeightsSizes& w, const CudaWeights& c) {
  if (!grouped(g)) return double(w.grid);
  const double rows =
      g.grouping() == Grouping::rows ? double(g.m) / double(g.batch) : expected_rows_of(g);
  return std::max(1.0, rows / c.tile_m + 0.5) * double(g.batch) * double(ceil_div(g.n, w.columns));
}

}  // namespace

double weights_ns(const Problem& p, const DeviceCaps& d, const CudaWeights& c,
                  const WeightsSizes& w) {
  const Gemm& g = p.gemm;
  const double ghz = 0.87 * (d.ghz > 0 ? d.ghz : 1.5), units = std::max(1, d.compute_units);
  const double blocks = blocks_of(g, w, c);
  const double stages = double(ceil_div(w.stages_of_k, c.splits));
  const int resident =
      static_cast<int>(std::clamp(std::ceil(blocks / units), 1.0, double(w.blocks)));
  const double per_unit = std::ceil(blocks / units);
  // Bytes on their way to an SM must cover a latency of about 1000 cycles.
  const double ahead = std::min(double(c.stages - 1), stages);
  const double bytes_per_cycle =
      std::min(double(std::max(1, d.gpu.memory_gbs)) / units / ghz * 0.92,
               double(w.stage_bytes) * ahead * resident / 1000);
  // Parts of A come from L2, which gives about twice what memory does.
  const double arrive =
      (double(c.tile_n) * w.pitch_b + 0.5 * double(c.tile_m) * w.pitch_a) / bytes_per_cycle;
  const double busy = stage_cycles(p, d, w, c, resident);
  const double block = stages * (std::max(busy, arrive) + 0.15 * std::min(busy, arrive));
  const double edges = 1500 + double(c.tile_m) * c.tile_n * size_of(g.d.dtype) / 24 / resident;
  double cycles = per_unit * block + std::ceil(per_unit / resident) * edges;
  if (c.splits > 1)
    cycles += 1500 + double(c.tile_m) * c.tile_n * size_of(g.accumulator) * (c.splits + 1) / 40;
  // Of configs that the model cannot tell apart one stands for all in the first guesses.
  return 2500 + cycles / ghz * (c.group == 8 ? 1.0 : 1.01);
}

}  // namespace kiln::cuda
