// A problem and a hip_mfma config as the kernel sees them: instruction, loads, shared memory, grid,
// and what each stage costs. Pure; rules, parameters and model read it.
#pragma once

#include <cstdint>

#include "generator/hip.h"
#include "generator/hip_lds.h"

namespace kiln::hip {

struct MfmaPlan {
  const MfmaInstruction* instruction;  // null: the target has none of this shape for these types
  int element;                         // bytes
  int tile_k;
  int row_bytes;      // of shared memory
  int swizzle_shift;  // -1: none
  int waves, threads;
  int width_a, width_b;  // bytes that one load takes; 0 when threads cannot share the tile
  bool along_a, along_b;
  bool ragged_k;
  bool turned_a, turned_b;  // by the reads from shared memory
  int direct_bytes;  // of a lane's load straight into shared memory, 0: the target has none that
                     // fits
  int step_units, steps, pieces;
  int parts;               // of a step, each with its share of A's rows; of paced kernels
  int blocks_m, blocks_n;  // instructions of one wave's tile
  int stages;
  std::int64_t shared_bytes;
  int registers;  // of a lane, roughly: sums, fragments, the next stage, addresses
  std::int64_t tiles_m, tiles_n, tiles, blocks;
  std::int64_t counter_bytes, workspace_bytes;
};

/// Meaningful only as far as the rules before the one that asks hold.
MfmaPlan mfma_plan(const Canonical& problem, const DeviceCaps& device, const HipMfma& config);

/// Registers that a lane may have when `waves` of a block share a compute unit.
constexpr int register_limit(int waves) { return 512 / ((waves + 3) / 4); }

/// Turns of shared memory's banks that all waves take in one stage. Stores of a direct stage are
/// not known to meet any conflict: lanes write side by side.
struct StageTurns {
  LdsTurns reads, writes;
};
StageTurns stage_turns(const MfmaPlan& plan, const DeviceCaps& device, const HipMfma& config);

/// Cycles that one stage keeps the four matrix units of a compute unit busy.
double multiply_cycles(const MfmaPlan& plan);

/// One stage of one block: the cycles that its products take at the matrix units' peak, and those
/// that it is thought to take.
struct StageCost {
  double multiply, cycles;
  double share_of_peak() const { return multiply / cycles; }
};
StageCost stage_cost(const MfmaPlan& plan, const DeviceCaps& device, const HipMfma& config);

/// The model that ranks configs.
double predict_mfma_ns(const Canonical& problem, const DeviceCaps& device, const Config& config);

}  // namespace kiln::hip
