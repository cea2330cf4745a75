// What a hip_mfma kernel costs, in nanoseconds, before anyone has run it: ranks candidates.
#include <algorithm>

#include "generator/families/hip/mfma/config.h"
#include "generator/families/hip/mfma/sizes.h"
#include "generator/problem/groups.h"

namespace kiln::hip {

namespace mfma_model {
namespace {

// The numbers of the model. No GPU of AMD was there (docs/lessons/hip.md): [read]: from that page's
// sources; [counted]: by the instruction tables; [assumed]: neither measured nor read.

// --- A stage, in cycles of a compute unit.
constexpr double kLargeInstructions = 1.1;  // of 32 rows: more power, lower clocks [assumed]
constexpr double kExposedPaced = 0.1;       // of the shorter part, laid between products [assumed]
constexpr double kExposedPair = 0.15;       // where two waves of a SIMD take turns [assumed]
constexpr double kExposedAlone = 0.5;       // of LDS, where a wave is alone on its SIMD [assumed]
constexpr int kHalfOfRegisters = 448;       // what products add up in, and some [counted]
constexpr double kMoves = 1.15;             // beyond: registers that move to and fro [assumed]
constexpr double kFirstReads = 0.5;         // of a step's reads, that nothing hides [assumed]
constexpr double kBarrier = 60, kHalfStep = 10;  // at the latter others multiply [assumed]
constexpr double kDirectBeside = 0.25;  // of a direct load's issue: others multiply [assumed]
constexpr double kShortDirect = 1.15;  // loads of less than 16 bytes: no order moves them [assumed]

// --- A call.
constexpr double kMemory = 800;     // cycles of an answer [read: 500 to 800]
constexpr double kStoreRate = 64;   // bytes a cycle and compute unit [assumed]
constexpr double kChunked = 0.9;    // of L2's reads: neighbours on a chiplet share lines [assumed]
constexpr double kL2Rate = 32;      // bytes a cycle: half of the nominal rate [assumed]
constexpr double kOfNominal = 0.8;  // of the card's rate of memory [assumed]
constexpr double kExposed = 0.2;    // of what bounds less [assumed]
constexpr double kCall = 2000;      // nanoseconds [assumed]

/// Blocks on one compute unit: they hide each other's waits; registers and shared memory decide.
int resident_blocks(const MfmaSizes& w, const DeviceCaps& d) {
  const int by_shared = static_cast<int>(d.gpu.shared_unit_bytes / w.shared_bytes);
  const int waves_of_simd = 512 / std::clamp(w.registers, 64, 512);
  return std::clamp(std::min(by_shared, waves_of_simd * 4 / w.waves), 1, 8);
}

}  // namespace
}  // namespace mfma_model

StageCost stage_cost(const MfmaSizes& w, const DeviceCaps& d, const HipMfma& c) {
  using namespace mfma_model;
  const auto turns = stage_turns(w, d, c);
  const int resident = resident_blocks(w, d);
  const double waves = double(w.waves) * resident;  // of a compute unit, on four SIMDs
  const double multiply =
      multiply_cycles(w) * (c.rows == 32 ? kLargeInstructions : 1.0) * 4 / std::min(4.0, waves);
  const double shared = turns.reads.taken + turns.writes.taken;
  // A wave alone on its SIMD waits for what it reads, unless the compiler laid the reads between
  // the products; two take turns, by and large, or on command.
  const double longer = std::max(multiply, shared), shorter = std::min(multiply, shared);
  double stage = c.pace != Pace::free ? longer + kExposedPaced * shorter
                 : waves >= 8         ? longer + kExposedPair * shorter
                                      : multiply + kExposedAlone * shared;
  // What does not fit the half of the registers that products add up in moves to and fro.
  if (w.registers > kHalfOfRegisters) stage *= kMoves;
  // Nothing hides the reads of a stage's first step.
  if (c.pace == Pace::interleaved && waves < 8) stage += kFirstReads * shared / w.steps;
  stage += c.pace == Pace::pingpong ? 2 * kHalfStep * w.steps * w.parts
                                    : kBarrier / resident * (c.staging == Staging::single ? 2 : 1);
  if (c.staging == Staging::direct) {
    // Each load sets the register that says where it goes, and none may be moved: of short loads,
    // there are four times as many.
    const double issue = double(c.tile_m + c.tile_n) * c.depth / (w.direct_bytes * 64.0);
    stage += c.pace == Pace::pingpong ? kDirectBeside * issue : issue;
    if (w.direct_bytes < 16) stage *= kShortDirect;
  }
  return {multiply_cycles(w), stage};
}

double predict_mfma_ns(const Problem& p, const DeviceCaps& d, const HipMfma& c,
                       const MfmaSizes& w) {
  using namespace mfma_model;
  const Gemm& g = p.gemm;
  const int resident = resident_blocks(w, d);
  const double stage = stage_cost(w, d, c).cycles;
  const double stages = g.grouping() == Grouping::k
                            ? stages_of_tile(g, w.tile_k)
                            : double(ceil_div(ceil_div(g.k, w.tile_k), c.splits));
  const double rounds =
      double(ceil_div(w.blocks, std::int64_t{d.compute_units} * resident)) * resident;
  const double store = double(c.tile_m) * c.tile_n * size_of(g.d.dtype) / kStoreRate + kMemory;
  double cycles = rounds * (stages * stage + store / resident) + 2 * kMemory;
  if (c.splits > 1) cycles += kMemory + double(c.tile_m) * c.tile_n * 4 * c.splits / kStoreRate;
  const double clock = d.ghz > 0 ? d.ghz : 1, compute_ns = cycles / clock;
  const double k = k_of_product(g);
  const double bytes = double(g.batch) * (double(g.m) * k * size_of(g.a.dtype) +
                                          double(g.n) * k * size_of(g.b.dtype) +
                                          double(g.m) * g.n * size_of(g.d.dtype));
  // What blocks read comes from the L2s.
  const double through_l2 =
      double(w.blocks) * stages * (c.tile_m + c.tile_n) * c.depth * (c.chunk > 0 ? kChunked : 1.0);
  const double l2_ns = through_l2 / (d.compute_units * kL2Rate * clock);
  const double memory_ns = bytes / std::max(1, d.gpu.memory_gbs) / kOfNominal;
  return std::max({compute_ns, l2_ns, memory_ns}) + kExposed * (l2_ns + memory_ns) + kCall;
}

}  // namespace kiln::hip
