// The model that ranks configs of cuda_simt: counts of what bounds ordinary multiply-adds on an SM.
#include <algorithm>
#include <cmath>

#include "generator/families/cuda/simt/config.h"
#include "generator/families/cuda/simt/sizes.h"
#include "generator/problem/groups.h"

namespace kiln::cuda::simt_model {
namespace {

// The numbers of the model. [counted]: instructions of the generated code; [measured]: on an H200,
// as said beside it; [trial]: chosen by trial, no measurement is kept.

// --- A step of k, in cycles of a warp's scheduler.
constexpr double kSlowDoubles = 64, kFastDoubles = 2;  // of a double's multiply-add [data sheets]
constexpr double kUnstaged = 24;  // of a factor: its address, and lines through L1 [trial]
// Warps of their own copy: orders of products and loops at 4096 cubed [measured].
constexpr double kRowsAround = 1.07, kFoldedAround = 1.035, kColumnsAround = 1.04;
constexpr double kShortLoop = 0.01, kLoadsBeside = 2;
constexpr double kAsyncCopy = 3, kCopy = 3, kCopyElement = 1;  // instructions [counted]
constexpr double kOtherOrder = 1.01;  // banks of registers: 3 % better to as much worse [measured]
constexpr double kUnspread = 1.5;     // bank conflicts of columns that are not spread [trial]
constexpr double kAssembled = 1.06;   // what the assembler makes of the counts [measured]
constexpr double kExposed = 0.25, kExposedAhead = 0.12;  // of shared memory or the rest [trial]

// --- A pass beside its steps, in cycles [trial].
constexpr double kPassOfOneStage = 900, kPassFed = 15, kPass = 140, kPassAhead = 60;

// --- A call, in cycles or, where said, nanoseconds.
constexpr double kClock = 0.9, kGhz = 1.5;  // the clock under load [trial]; where it is not known
constexpr double kStreamRound = 0.05;       // of a tile, for the uneven end of stream-K [trial]
constexpr double kLoneWarp = 1.25;          // waits for its own multiply-adds [trial]
constexpr double kReduction = 2500, kPartRate = 24;  // and bytes a cycle of parts [trial]
constexpr double kL2Rate = 4500;                     // bytes a nanosecond [trial]
constexpr double kOfNominal = 0.8;                   // of the card's rate of memory [trial]
constexpr double kCall = 3500, kRound = 300;         // nanoseconds [trial]

/// Fused multiply-adds of doubles take this many cycles of a scheduler, those of floats one.
double cycles_of(const Gemm& g, const DeviceCaps& d) {
  if (g.accumulator != fp64) return 1;
  return d.gpu.sm == 80 || d.gpu.sm == 90 || d.gpu.sm == 100 ? kFastDoubles : kSlowDoubles;
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
  if (c.stages == 0) return multiply + factors * kUnstaged;
  const int quad = 16 / size_of(g.accumulator);
  const double loads = accesses(c.thread_m, quad) + accesses(c.thread_n, quad);
  // Warps of their own copy: of what others issue, a few addresses are left.
  if (c.copy == SimtCopy::warps) {
    const double around = c.order == SimtOrder::rows     ? kRowsAround
                          : c.order == SimtOrder::folded ? kFoldedAround
                                                         : kColumnsAround;
    return multiply * (around + (c.unroll == 2 ? kShortLoop : 0.0)) + kLoadsBeside * loads;
  }
  const auto copies = [&](int rows, int width, DType type) {
    const double reads = double(rows) / w.threads / width;
    if (c.copy == SimtCopy::async) return reads * kAsyncCopy;
    return reads * (kCopy + width * (kCopyElement + (type == g.accumulator ? 0.0 : kCopyElement)));
  };
  // By the assembler's choice of registers.
  const double banks_met = c.order == SimtOrder::pairs ? 1.0 : kOtherOrder;
  const double issue = accumulators * banks_met + loads + copies(c.block_m, c.width_a, g.a.dtype) +
                       copies(c.block_n, c.width_b, g.b.dtype);
  // Doubles read one by one have two-way bank conflicts; columns that are not spread have more.
  const double banks = c.spread ? 1.0 : kUnspread;
  const double shared = factors * w.words * 4 * banks;
  const double most = std::max({multiply, issue, shared});
  return kAssembled * (most + (c.ahead ? kExposedAhead : kExposed) *
                                  std::min(std::max(multiply, issue), shared));
}

/// Cycles that a pass costs beside its steps: barriers, and copies that nothing hides.
double turn_cycles(const CudaSimt& c) {
  if (c.stages == 0) return 0;
  if (c.stages == 1) return kPassOfOneStage;
  if (c.copy == SimtCopy::warps) return kPassFed;
  return c.ahead ? kPassAhead : kPass;
}

}  // namespace
}  // namespace kiln::cuda::simt_model

namespace kiln::cuda {

double simt_ns(const Problem& p, const DeviceCaps& d, const CudaSimt& c, const SimtSizes& w) {
  using namespace simt_model;
  const Gemm& g = p.gemm;
  const double ghz = kClock * (d.ghz > 0 ? d.ghz : kGhz), units = std::max(1, d.compute_units);
  const double warps = w.threads / 32.0;
  const double whole = double(w.tiles) * c.splits / units;  // blocks of a unit, if none were idle
  const double together = std::clamp(std::ceil(whole), 1.0, double(c.resident));
  const double rounds =
      c.sharing == Sharing::stream ? whole / together + kStreamRound : std::ceil(whole / together);
  const double passes =
      stages_of_tile(g, std::max(1, c.block_k)) / (c.sharing == Sharing::split ? c.splits : 1);
  const double busy = std::max(1.0, together * warps / 4);  // warps of a scheduler
  const double step = step_cycles(p, d, c, w) * (busy < 2 ? kLoneWarp : 1.0) * busy;
  double cycles = rounds * passes * (c.block_k * step + turn_cycles(c) / together);
  if (c.sharing != Sharing::tiles) {
    const double bytes = 2.0 * c.block_m * c.block_n * size_of(g.accumulator);
    cycles +=
        kReduction + bytes * together * (c.sharing == Sharing::split ? rounds : 2) / kPartRate;
  }
  const double tile_bytes =
      double(c.block_m) * size_of(g.a.dtype) + double(c.block_n) * size_of(g.b.dtype);
  const double from_l2 = double(w.tiles) * k_of_product(g) * tile_bytes / kL2Rate;
  const double bytes =
      double(g.batch) * (double(g.m) * k_of_product(g) * size_of(g.a.dtype) +
                         double(g.columns_of_b()) * k_of_product(g) * size_of(g.b.dtype) +
                         double(g.m) * double(g.n) * size_of(g.d.dtype));
  const double memory = bytes / (kOfNominal * std::max(1, d.gpu.memory_gbs));
  return kCall + std::max({cycles / ghz, from_l2, memory}) + rounds * kRound;
}

}  // namespace kiln::cuda
