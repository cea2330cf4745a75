// Sizes derived from a CudaWeights config: read by its rules, parameters, launch and model. Knows
// no template text.
#pragma once

#include <cstdint>

#include "generator/families/cuda/common/cuda.h"
#include "generator/families/cuda/weights/config.h"

namespace kiln::cuda {

/// The problem and a config as the kernel sees them.
struct WeightsSizes {
  int code_bits;
  int along;             // elements of k that share a scale; 0: a whole column
  int decode_k;          // of codes that a warp decodes together
  int tiles_m, tiles_n;  // of 16 columns and of 8 rows of D, of a warp
  int columns;           // of D in a block's tile
  int at_once;           // tiles of 8 rows whose sums wait for a scale together
  int pitch_a, pitch_b;  // bytes of a line in a stage
  Exchange exchange_a, exchange_b;
  int threads;
  bool overlaps;    // grids may begin while the one before them ends
  bool async;       // the alignment allows cp.async
  int unit;         // bytes of one copy to shared memory
  int store_width;  // elements
  int registers;    // an estimate, of one thread
  int blocks;       // that fit one SM
  std::int64_t stage_bytes, shared_bytes;
  std::int64_t table_bytes;  // of groups, beside the ring
  std::int64_t tiles;        // of D, in all batches
  std::int64_t stages_of_k;
  std::int64_t grid;  // blocks
  std::int64_t workspace_bytes;
};

WeightsSizes weights_sizes(const Problem& problem, const DeviceCaps& device,
                           const CudaWeights& config);

/// Exchanges of lines of `pitch` bytes of codes, of which 8 at a time are read, 16 bytes of each.
Exchange exchange_of_codes(int pitch);
/// The same of lines of A, read in words of 16 bytes (codes of four bits) or 8.
Exchange exchange_of_left(int code_bits);

/// The constants, macros and choices of the templates.
Parameters weights_parameters(const Problem& problem, const DeviceCaps& device,
                              const CudaWeights& config, const WeightsSizes& sizes);

/// The model of the family: nanoseconds of one call.
double weights_ns(const Problem& problem, const DeviceCaps& device, const CudaWeights& config,
                  const WeightsSizes& sizes);

}  // namespace kiln::cuda
