// The model that ranks configs of cuda_simt: counts of what bounds ordinary multiply-adds on an SM.
#include <algorithm>
#include <cmath>

#include "generator/families/cuda/simt/config.h"
#include "generator/families/cuda/simt/sizes.h"
#include "generator/problem/groups.h"

namespace kiln::cuda {
namespace {

/// Fused multiply-adds of doubles take this many cycles of a scheduler, those of floats one.
double cycles_of(const Gemm& g, const DeviceCaps& d) {
  if (g.accumulator != fp64) return 1;
  return d.gpu.sm == 80 || d.gpu.sm == 90 || d.gpu.sm == 100 ? 2 : 64;
}

int accesses(int count, int quad) {
  return count % quad == 0 ? count / quad : count % 2 == 0 ? count / 2 : count;
}

/// Cycles that a warp keeps its scheduler for one step of k. A scheduler issues one instruction a
/// cycle; shared memory gives 128 bytes a cycle to all four, and what several lanes read together
/// is still written to the registers of each.
double step_cycles(const Problem& p, const DeviceCaps& d, const CudaSimt& c, const SimtSizes& w) {
  const Gemm& g = p.gemm;
  const double accumulators = double(c.thread_m) * c.thread_n, factors = c.thread_m + c.thread_n;
  const double multiply = accumulators * cycles_of(g, d);
  if (c.stages == 0) return multiply + factors * 24;  // addresses, and lines through L1
  const int quad = 16 / size_of(g.accumulator);
  const double loads = accesses(c.thread_m, quad) + accesses(c.thread_n, quad);
  // Warps of their own copy: of what others issue, a few addresses are left. Orders and loops as
  // measured at 4096 cubed on an H200.
  if (c.copy == SimtCopy::warps) {
    const double around = c.order == SimtOrder::rows     ? 1.07
                          : c.order == SimtOrder::folded ? 1.035
                                                         : 1.04;
    return multiply * (around + (c.unroll == 2 ? 0.01 : 0.0)) + 2 * loads;
  }
  const auto copies = [&](int rows, int width, DType type) {
    const double reads = double(rows) / w.threads / width;
    if (c.copy == SimtCopy::async) return reads * 3;
    return reads * (3 + width * (1.0 + (type == g.accumulator ? 0.0 : 1.0)));
  };
  // By the assembler's choice of registers; measured from 3 % better to as much worse.
  const double banks_met = c.order == SimtOrder::pairs ? 1.0 : 1.01;
  const double issue = accumulators * banks_met + loads + copies(c.block_m, c.width_a, g.a.dtype) +
                       copies(c.block_n, c.width_b, g.b.dtype);
  // Doubles read one by one have two-way bank conflicts; columns that are not spread have more.
  const double banks = c.spread ? 1.0 : 1.5;
  const double shared = factors * w.words * 4 * banks;
  const double most = std::max({multiply, issue, shared});
  // What the assembler makes of it was measured at about 1.06 of the counts.
  return 1.06 * (most + (c.ahead ? 0.12 : 0.25) * std::min(std::max(multiply, issue), shared));
}

/// Cycles that a pass costs beside its steps: barriers, and copies that nothing hides.
double turn_cycles(const CudaSimt& c) {
  if (c.stages == 0) return 0;
  if (c.stages == 1) return 900;
  if (c.copy == SimtCopy::warps) return 15;
  return c.ahead ? 60 : 140;
}

}  // namespace

double simt_ns(const Problem& p, const DeviceCaps& d, const CudaSimt& c, const SimtSizes& w) {
  const Gemm& g = p.gemm;
  const double ghz = 0.9 * (d.ghz > 0 ? d.ghz : 1.5), units = std::max(1, d.compute_units);
  const double warps = w.threads / 32.0;
  const double whole = double(w.tiles) * c.splits / units;  // blocks of a unit, if none were idle
  const double together = std::clamp(std::ceil(whole), 1.0, double(c.resident));
  const double rounds =
      c.sharing == Sharing::stream ? whole / together + 0.05 : std::ceil(whole / together);
  const double passes =
      stages_of_tile(g, std::max(1, c.block_k)) / (c.sharing == Sharing::split ? c.splits : 1);
  const double busy = std::max(1.0, together * warps / 4);  // warps of a scheduler
  // A single warp waits for its own multiply-adds.
  const double step = step_cycles(p, d, c, w) * (busy < 2 ? 1.25 : 1.0) * busy;
  double cycles = rounds * passes * (c.block_k * step + turn_cycles(c) / together);
  if (c.sharing != Sharing::tiles) {
    const double bytes = 2.0 * c.block_m * c.block_n * size_of(g.accumulator);
    cycles += 2500 + bytes * together * (c.sharing == Sharing::split ? rounds : 2) / 24;
  }
  const double tile_bytes =
      double(c.block_m) * size_of(g.a.dtype) + double(c.block_n) * size_of(g.b.dtype);
  const double from_l2 = double(w.tiles) * k_of_product(g) * tile_bytes / 4500;
  const double bytes =
      double(g.batch) * (double(g.m) * k_of_product(g) * size_of(g.a.dtype) +
                         double(g.columns_of_b()) * k_of_product(g) * size_of(g.b.dtype) +
                         double(g.m) * double(g.n) * size_of(g.d.dtype));
  const double memory = bytes / (0.8 * std::max(1, d.gpu.memory_gbs));
  return 3500 + std::max({cycles / ghz, from_l2, memory}) + rounds * 300;
}

}  // namespace kiln::cuda
