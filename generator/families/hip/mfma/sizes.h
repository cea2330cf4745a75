// Derived sizes of a problem and a hip_mfma config: instruction, loads, shared memory, grid, cost
// of a stage. Used by rules, parameters and model.
#pragma once

#include <cstdint>

#include "generator/families/hip/common/hip.h"
#include "generator/families/hip/common/lds.h"
#include "generator/families/hip/mfma/config.h"

namespace kiln::hip {

struct MfmaSizes {
  const MfmaInstruction* instruction;  // null: the target has none of this shape for these types
  int element;                         // bytes
  int tile_k;
  int row_bytes;      // of shared memory
  int swizzle_shift;  // -1: none
  int waves, threads;
  int width_a, width_b;  // bytes of one load; 0: threads do not divide the tile evenly
  bool along_a, along_b;
  bool ragged_k;
  /// Loads of such an operand are as wide as its alignment allows, whatever ends where: a stage
  /// that they do not fit is copied element by element.
  bool edges_a, edges_b;
  bool turned_a, turned_b;  // transposed by reads from shared memory
  int direct_bytes;  // of a lane's direct load to shared memory; 0: the target has none that fits
  int step_units, steps, pieces;
  int parts;               // of a step, each with a part of A's rows, in kernels with a pace
  int blocks_m, blocks_n;  // instructions of one wave's tile
  int stages;
  std::int64_t shared_bytes;
  int registers;  // of a lane, estimated: accumulators, fragments, the next stage, addresses
  std::int64_t tiles_m, tiles_n, tiles, blocks;
  std::int64_t counter_bytes, workspace_bytes;
};

/// A field has a meaning only if the rules that come before the asking one hold.
MfmaSizes mfma_sizes(const Problem& problem, const DeviceCaps& device, const HipMfma& config);

/// Registers that a lane may have when `waves` of a block share a compute unit.
constexpr int register_limit(int waves) { return 512 / ((waves + 3) / 4); }

/// Cycles of the shared-memory banks that all waves take in one stage. Stores of a direct stage
/// count as free of conflicts, since lanes write adjacent addresses.
struct StageTurns {
  LdsTurns reads, writes;
};
StageTurns stage_turns(const MfmaSizes& plan, const DeviceCaps& device, const HipMfma& config);

/// Cycles that one stage keeps the four matrix units of a compute unit busy.
double multiply_cycles(const MfmaSizes& plan);

/// One stage of one block: the cycles that its products take at the matrix units' peak, and those
/// that it is thought to take.
struct StageCost {
  double multiply, cycles;
  double share_of_peak() const { return multiply / cycles; }
};
StageCost stage_cost(const MfmaSizes& plan, const DeviceCaps& device, const HipMfma& config);

/// The model that ranks configs.
double predict_mfma_ns(const Problem& problem, const DeviceCaps& device, const HipMfma& config,
                       const MfmaSizes& sizes);

}  // namespace kiln::hip
