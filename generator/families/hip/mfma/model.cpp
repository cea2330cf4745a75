// What a hip_mfma kernel costs, in nanoseconds, before anyone has run it: ranks candidates.
#include <algorithm>

#include "generator/families/hip/mfma/config.h"
#include "generator/families/hip/mfma/sizes.h"
#include "generator/problem/groups.h"

namespace kiln::hip {

namespace {

/// Blocks on one compute unit: they hide each other's waits; registers and shared memory decide.
int resident_blocks(const MfmaSizes& w, const DeviceCaps& d) {
  const int by_shared = static_cast<int>(d.gpu.shared_unit_bytes / w.shared_bytes);
  const int waves_of_simd = 512 / std::clamp(w.registers, 64, 512);
  return std::clamp(std::min(by_shared, waves_of_simd * 4 / w.waves), 1, 8);
}

}  // namespace

StageCost stage_cost(const MfmaSizes& w, const DeviceCaps& d, const HipMfma& c) {
  const auto turns = stage_turns(w, d, c);
  const int resident = resident_blocks(w, d);
  const double waves = double(w.waves) * resident;  // of a compute unit, on four SIMDs
  // Larger instructions draw more power for the same work, and clocks fall.
  const double multiply =
      multiply_cycles(w) * (c.rows == 32 ? 1.1 : 1.0) * 4 / std::min(4.0, waves);
  const double shared = turns.reads.taken + turns.writes.taken;
  // A wave alone on its SIMD waits for what it reads, unless the compiler laid the reads between
  // the products; two take turns, by and large, or on command.
  const double longer = std::max(multiply, shared), shorter = std::min(multiply, shared);
  double stage = c.pace != Pace::free ? longer + 0.1 * shorter
                 : waves >= 8         ? longer + 0.15 * shorter
                                      : multiply + 0.5 * shared;
  // What does not fit the half of the registers that products add up in moves to and fro.
  if (w.registers > 448) stage *= 1.15;
  // Nothing hides the reads of a stage's first step.
  if (c.pace == Pace::interleaved && waves < 8) stage += 0.5 * shared / w.steps;
  constexpr double kBarrier = 60, kHalfStep = 10;  // cycles; at the latter others multiply
  stage += c.pace == Pace::pingpong ? 2 * kHalfStep * w.steps * w.parts
                                    : kBarrier / resident * (c.staging == Staging::single ? 2 : 1);
  if (c.staging == Staging::direct) {
    // Each load sets the register that says where it goes, and none may be moved: of short loads,
    // there are four times as many.
    const double issue = double(c.tile_m + c.tile_n) * c.depth / (w.direct_bytes * 64.0);
    stage += c.pace == Pace::pingpong ? 0.25 * issue : issue;  // others multiply meanwhile
    if (w.direct_bytes < 16) stage *= 1.15;
  }
  return {multiply_cycles(w), stage};
}

double predict_mfma_ns(const Problem& p, const DeviceCaps& d, const HipMfma& c,
                       const MfmaSizes& w) {
  const Gemm& g = p.gemm;
  const int resident = resident_blocks(w, d);
  const double stage = stage_cost(w, d, c).cycles;
  constexpr double kMemory = 800;  // cycles
  const double stages = g.grouping() == Grouping::k
                            ? stages_of_tile(g, w.tile_k)
                            : double(ceil_div(ceil_div(g.k, w.tile_k), c.splits));
  const double rounds =
      double(ceil_div(w.blocks, std::int64_t{d.compute_units} * resident)) * resident;
  const double store = double(c.tile_m) * c.tile_n * size_of(g.d.dtype) / 64 + kMemory;
  double cycles = rounds * (stages * stage + store / resident) + 2 * kMemory;
  if (c.splits > 1) cycles += kMemory + double(c.tile_m) * c.tile_n * 4 * c.splits / 64;
  const double clock = d.ghz > 0 ? d.ghz : 1, compute_ns = cycles / clock;
  const double k = k_of_product(g);
  const double bytes = double(g.batch) * (double(g.m) * k * size_of(g.a.dtype) +
                                          double(g.n) * k * size_of(g.b.dtype) +
                                          double(g.m) * g.n * size_of(g.d.dtype));
  // What blocks read comes from the L2s, half of whose nominal rate is what kernels see; neighbours
  // on one chiplet share lines.
  const double through_l2 =
      double(w.blocks) * stages * (c.tile_m + c.tile_n) * c.depth * (c.chunk > 0 ? 0.9 : 1.0);
  const double l2_ns = through_l2 / (d.compute_units * 32.0 * clock);
  const double memory_ns = bytes / std::max(1, d.gpu.memory_gbs) / 0.8;
  return std::max({compute_ns, l2_ns, memory_ns}) + 0.2 * (l2_ns + memory_ns) + 2000;
}

}  // namespace kiln::hip
