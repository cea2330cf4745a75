// The model that ranks configs of cuda_mma.
#include <algorithm>
#include <cmath>

#include "generator/families/cuda/mma/config.h"
#include "generator/families/cuda/mma/sizes.h"
#include "generator/problem/groups.h"

namespace kiln::cuda {
namespace {

/// Multiply-adds of one SM in a cycle, by data sheets (dense, fp32 accumulators). On Hopper 16-bit
/// and narrower types reach about 0.62 of what wgmma does.
double products_per_cycle(const Gemm& g, int sm) {
  struct Row {
    int sm;
    double half, tf32, bytes, doubles;
  };
  constexpr Row kRows[] = {
      {120, 512, 256, 1024, 2},   {110, 512, 256, 1024, 2},   {103, 1024, 512, 2048, 4},
      {100, 1024, 512, 2048, 64}, {90, 1270, 635, 2540, 128}, {89, 512, 256, 1024, 2},
      {86, 512, 256, 1024, 2},    {80, 1024, 512, 2048, 64},  {0, 512, 1, 1, 1}};
  for (const Row& row : kRows) {
    if (sm < row.sm) continue;
    switch (size_of(g.a.dtype)) {
      case 8:
        return row.doubles;
      case 4:
        return row.tf32;
      case 2:
        return row.half;
      default:
        return row.bytes;
    }
  }
  return 1;
}

/// Cycles of an SM for one stage of one block.
double stage_cycles(const Problem& p, const DeviceCaps& d, const MmaSizes& w, const CudaMma& c,
                    int resident) {
  const int size = size_of(p.gemm.a.dtype), warps = w.threads / 32;
  const double multiply = double(c.block_m) * c.block_n * c.block_k /
                          products_per_cycle(p.gemm, d.gpu.sm) *
                          std::max(1.0, 4.0 / warps / resident);
  const double read = double(warps) * (w.warp_m + w.warp_n) * c.block_k * size;
  const double shared = (read + double(w.stage_bytes)) / 128;
  const double l2 = double(w.stage_bytes) / (w.width >= 16 ? 36 : 36 * w.width / 16.0);
  // Instructions: a few each copy, products, reads, and the rounding of fp32 to tf32.
  const double copies = double(w.stage_bytes) / w.unit / 32 * (w.async ? 6 : 8 + 32.0 / w.width);
  const double tiles = double(w.tiles_m) * w.tiles_n;
  const double read_each = (w.tiles_m * 4 + w.tiles_n * 2) * (p.gemm.a.dtype == tf32 ? 2.5 : 0.5);
  const double products = tiles * w.step_k / c.instruction_k * (16.0 / w.instruction->rows);
  const double in_all = copies + warps * w.steps * (products + read_each * w.chunks);
  const double issue = in_all / std::min(4, warps * resident);
  // Units that are all busy are in each other's way.
  double sum = 0;
  for (const double part : {multiply, shared, l2, issue}) sum += std::pow(part, 4);
  // At its end every stage has a barrier, which other blocks and what was read ahead cover.
  double busy = std::pow(sum, 0.25) + (c.ahead ? 40.0 : 100.0) / resident;
  // Few warps cannot hide what each waits for its reads.
  const double alone = std::clamp(1 - (warps * resident - 4) / 8.0, 0.0, 1.0);
  busy += alone * w.steps * (c.ahead ? 10 : 45) / resident;
  // Copies take about 1000 cycles: so long must the stages that are there last.
  const double covered = busy * resident * (c.stages - 1);
  return busy * (1 + 0.02 * 1000 / covered) +
         std::max(0.0, 1000 - covered) / (c.stages - 1) / resident;
}

}  // namespace

double mma_ns(const Problem& p, const DeviceCaps& d, const CudaMma& c, const MmaSizes& w) {
  const Gemm& g = p.gemm;
  const double ghz = 0.87 * (d.ghz > 0 ? d.ghz : 1.5), units = std::max(1, d.compute_units);
  const double blocks = double(w.tiles) * c.splits;
  const double stages = g.grouping() == Grouping::k ? stages_of_tile(g, c.block_k)
                                                    : double(ceil_div(w.stages_of_k, c.splits));
  // Full waves on all SMs, then the last wave with fewer blocks an SM.
  const int resident =
      static_cast<int>(std::clamp(std::ceil(blocks / units), 1.0, double(w.blocks)));
  const double per_unit = c.stream ? blocks / units + 0.05 : std::ceil(blocks / units);
  const double block = stages * stage_cycles(p, d, w, c, resident);
  // The first stage comes from memory, the last stores its accumulators in a burst.
  const double edges = 1500 + double(c.block_m) * c.block_n * size_of(g.d.dtype) / 24 / resident;
  double cycles = per_unit * block + std::ceil(per_unit / resident) * edges;
  if (c.sharing() != Sharing::tiles) {
    const int parts = c.stream ? 2 : c.splits;
    cycles += 2500 + double(c.block_m) * c.block_n * size_of(g.accumulator) * (parts + 1) / 40;
  }
  const double bytes =
      double(g.batch) * (double(g.m) * k_of_product(g) * size_of(g.a.dtype) +
                         double(g.columns_of_b()) * k_of_product(g) * size_of(g.b.dtype) +
                         double(g.m) * double(g.n) * size_of(g.d.dtype));
  const double memory = bytes / (0.8 * std::max(1, d.gpu.memory_gbs));
  const double work = cycles / ghz;
  // Of configs that the model cannot tell apart one stands for all in the first guesses.
  const double order = (c.group == 8 ? 1.0 : 1.012) * (c.warps_m > c.warps_n ? 1.003 : 1.0) *
                       (c.instruction_k == 16 && size_of(g.a.dtype) == 8 ? 1.006 : 1.0);
  return (2500 + std::max(work, memory) + 0.2 * std::min(work, memory)) * order;
}

}  // namespace kiln::cuda
