// Sizes derived from a CudaMma config: read by its rules, parameters, launch and model. Knows
// no template text.
#pragma once

#include <cstdint>
#include <string_view>

#include "generator/families/cuda/common/banks.h"
#include "generator/families/cuda/common/cuda.h"
#include "generator/families/cuda/mma/config.h"

namespace kiln::cuda {

/// One matrix instruction, as the PTX ISA lists them under "Warp Level Matrix Instructions: mma".
struct MmaInstruction {
  DType type;  // of A and B; s8 stands for both 8-bit integers, fp8_e4m3 for both 8-bit floats
  int rows, k;
  int sm;  // the first that has it
  constexpr int a_registers() const { return rows * k / 32 / packed(); }
  constexpr int b_registers() const { return 8 * k / 32 / packed(); }
  constexpr int accumulators() const { return rows * 8 / 32; }
  /// Elements in one register; a double is one too.
  constexpr int packed() const { return size_of(type) >= 4 ? 1 : 4 / size_of(type); }
};

/// The instruction of this k for a problem's operands on a device, or null.
const MmaInstruction* mma_instruction(const Gemm& gemm, const DeviceCaps& device, int k);
/// The values of k that the space offers, best known first.
std::vector<int> mma_depths(const Gemm& gemm, const DeviceCaps& device);

/// The problem and a config as the kernel sees them.
struct MmaSizes {
  const MmaInstruction* instruction;  // may be null; then nothing below is known
  TileLines a, b;
  int near_a, near_b;    // neighbouring rows that a lane reads at once
  int chunks, step_k;    // parts of 4 registers of A that make a step; k of a step
  int steps;             // of a stage
  int warp_m, warp_n;    // a warp's part of the tile
  int tiles_m, tiles_n;  // of 16 rows and of 8 columns in it
  int threads;
  bool overlaps;    // grids may begin while the one before them ends
  bool async;       // cp.async exists and the alignment allows it
  int width, unit;  // bytes that loads, and copies to shared memory, move at once
  int store_width;  // elements
  int registers;    // an estimate, of one thread
  int blocks;       // that fit one SM
  std::int64_t stage_bytes, shared_bytes;
  std::int64_t table_bytes;  // static shared memory of groups
  std::int64_t tiles;        // of D, in all batches
  std::int64_t stages_of_k;
  std::int64_t grid;      // blocks
  std::int64_t counters;  // in use, of kCounterBytes / 4
  std::int64_t counter_bytes, workspace_bytes;
};

MmaSizes mma_sizes(const Problem& problem, const DeviceCaps& device, const CudaMma& config);

/// The macros of templates/cuda/common/mma.h: lists that only text can give.
void add_mma_lists(Parameters& out, const MmaInstruction& instruction, const Gemm& gemm);

/// The macros of templates/cuda/mma/combine_ptx.h: how pairs of accumulators are stored to the
/// workspace and read back.
void add_pairs(Parameters& out, const Gemm& gemm);

/// The constants, macros and choices of the templates.
Parameters mma_parameters(const Problem& problem, const DeviceCaps& device, const CudaMma& config,
                          const MmaSizes& sizes);

/// The model of the family: nanoseconds of one call.
double mma_ns(const Problem& problem, const DeviceCaps& device, const CudaMma& config,
              const MmaSizes& sizes);

}  // namespace kiln::cuda
