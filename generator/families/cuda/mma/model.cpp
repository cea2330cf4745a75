// The model that ranks configs of cuda_mma.
#include <algorithm>
#include <cmath>

#include "generator/families/cuda/mma/config.h"
#include "generator/families/cuda/mma/sizes.h"
#include "generator/problem/groups.h"

namespace kiln::cuda::mma_model {
namespace {

// The numbers of the model. [sheet]: by data sheets; [counted]: instructions of the generated code;
// [trial]: chosen by trial, no measurement is kept.

// --- A stage, in cycles of an SM.
constexpr double kSharedRate = 128;  // bytes a cycle of shared memory [sheet]
constexpr double kL2Rate = 36;       // bytes a cycle by copies of 16 bytes [trial]
constexpr double kAsyncCopy = 6, kCopy = 8, kCopyWords = 32;  // instructions, the last a byte of a
                                                              // copy's width [counted]
constexpr double kReads = 0.5,
                 kRoundedReads = 2.5;  // instructions a word, rounded to tf32 [counted]
constexpr double kTogether = 4;        // power that says how units in each other's way add [trial]
constexpr double kBarrier = 100, kBarrierAhead = 40;  // at the end of a stage [trial]
constexpr double kAlone = 45, kAloneAhead = 10;       // a step of few warps, that wait [trial]
constexpr double kLatency = 1000;                     // of a copy [trial]
constexpr double kUncovered = 0.02;                   // of it, where stages last longer [trial]

// --- A call, in cycles or, where said, nanoseconds.
constexpr double kClock = 0.87, kGhz = 1.5;  // the clock under load [trial]; where it is not known
constexpr double kStreamRound = 0.05;        // of a tile, for the uneven end of stream-K [trial]
constexpr double kEdges = 1500, kStoreRate = 24;     // first stage; bytes a cycle of D [trial]
constexpr double kReduction = 2500, kPartRate = 40;  // and bytes a cycle of parts [trial]
constexpr double kOfNominal = 0.8;                   // of the card's rate of memory [trial]
constexpr double kCall = 2500;                       // nanoseconds [trial]
constexpr double kExposed = 0.2;                     // of the shorter of work and memory [trial]
// One order stands for all in the first guesses [trial].
constexpr double kOtherGroup = 1.012, kTallWarps = 1.003, kDeepDoubles = 1.006;

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
  const double shared = (read + double(w.stage_bytes)) / kSharedRate;
  const double l2 = double(w.stage_bytes) / (w.width >= 16 ? kL2Rate : kL2Rate * w.width / 16.0);
  // Instructions: a few each copy, products, reads, and the rounding of fp32 to tf32.
  const double copies =
      double(w.stage_bytes) / w.unit / 32 * (w.async ? kAsyncCopy : kCopy + kCopyWords / w.width);
  const double tiles = double(w.tiles_m) * w.tiles_n;
  const double read_each =
      (w.tiles_m * 4 + w.tiles_n * 2) * (p.gemm.a.dtype == tf32 ? kRoundedReads : kReads);
  const double products = tiles * w.step_k / c.instruction_k * (16.0 / w.instruction->rows);
  const double in_all = copies + warps * w.steps * (products + read_each * w.chunks);
  const double issue = in_all / std::min(4, warps * resident);
  // Units that are all busy are in each other's way.
  double sum = 0;
  for (const double part : {multiply, shared, l2, issue}) sum += std::pow(part, kTogether);
  // At its end every stage has a barrier, which other blocks and what was read ahead cover.
  double busy = std::pow(sum, 1 / kTogether) + (c.ahead ? kBarrierAhead : kBarrier) / resident;
  // Few warps cannot hide what each waits for its reads.
  const double alone = std::clamp(1 - (warps * resident - 4) / 8.0, 0.0, 1.0);
  busy += alone * w.steps * (c.ahead ? kAloneAhead : kAlone) / resident;
  // The stages that are there must last as long as a copy takes.
  const double covered = busy * resident * (c.stages - 1);
  return busy * (1 + kUncovered * kLatency / covered) +
         std::max(0.0, kLatency - covered) / (c.stages - 1) / resident;
}

}  // namespace
}  // namespace kiln::cuda::mma_model

namespace kiln::cuda {

double mma_ns(const Problem& p, const DeviceCaps& d, const CudaMma& c, const MmaSizes& w) {
  using namespace mma_model;
  const Gemm& g = p.gemm;
  const double ghz = kClock * (d.ghz > 0 ? d.ghz : kGhz), units = std::max(1, d.compute_units);
  const double blocks = double(w.tiles) * c.splits;
  const double stages = g.grouping() == Grouping::k ? stages_of_tile(g, c.block_k)
                                                    : double(ceil_div(w.stages_of_k, c.splits));
  // Full waves on all SMs, then the last wave with fewer blocks an SM.
  const int resident =
      static_cast<int>(std::clamp(std::ceil(blocks / units), 1.0, double(w.blocks)));
  const double per_unit = c.stream ? blocks / units + kStreamRound : std::ceil(blocks / units);
  const double block = stages * stage_cycles(p, d, w, c, resident);
  // The first stage comes from memory, the last stores its accumulators in a burst.
  const double edges =
      kEdges + double(c.block_m) * c.block_n * size_of(g.d.dtype) / kStoreRate / resident;
  double cycles = per_unit * block + std::ceil(per_unit / resident) * edges;
  if (c.sharing() != Sharing::tiles) {
    const int parts = c.stream ? 2 : c.splits;
    cycles += kReduction +
              double(c.block_m) * c.block_n * size_of(g.accumulator) * (parts + 1) / kPartRate;
  }
  const double bytes =
      double(g.batch) * (double(g.m) * k_of_product(g) * size_of(g.a.dtype) +
                         double(g.columns_of_b()) * k_of_product(g) * size_of(g.b.dtype) +
                         double(g.m) * double(g.n) * size_of(g.d.dtype));
  const double memory = bytes / (kOfNominal * std::max(1, d.gpu.memory_gbs));
  const double work = cycles / ghz;
  // Of configs that the model cannot tell apart one stands for all in the first guesses.
  const double order = (c.group == 8 ? 1.0 : kOtherGroup) *
                       (c.warps_m > c.warps_n ? kTallWarps : 1.0) *
                       (c.instruction_k == 16 && size_of(g.a.dtype) == 8 ? kDeepDoubles : 1.0);
  return (kCall + std::max(work, memory) + kExposed * std::min(work, memory)) * order;
}

}  // namespace kiln::cuda
