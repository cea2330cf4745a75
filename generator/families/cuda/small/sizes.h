// Derived sizes of a cuda_small config and a problem: register tiles, the layout of shared memory,
// threads, blocks. Used by the family's rules, parameters, launch and model.
#pragma once

#include <cstdint>
#include <functional>

#include "generator/families/cuda/mma/sizes.h"
#include "generator/families/cuda/small/config.h"
#include "generator/space/config.h"

namespace kiln::cuda::small {

/// The largest m, n and k.
inline constexpr int kMostSmall = 64;

/// One operand of a block's products in shared memory.
struct SmallOperand {
  bool along_k;
  bool dense;          // lines and products are adjacent in memory
  bool flat;           // all products are copied as one run, not line by line
  bool aligned;        // copies of the config's width are
  int size;            // of an element, in bytes
  int rows;            // m or n
  int run, lines;      // elements of a line, and lines of a product
  int pitch, apart;    // elements between lines, and between products
  int group;           // neighbouring rows that a lane has
  int each;            // rows that a lane has
  int vector;          // elements read from shared memory at once
  int copies;          // of a block's products, each of the config's width
  int turns;           // cycles of shared memory that a warp's read of one vector takes
  std::int64_t bytes;  // of a stage
};

struct SmallSizes {
  SmallOperand a, b;
  const MmaInstruction* instruction;  // null without matrix=1, and where it has none
  int unroll;                         // turns of the loop over k that its body holds
  int lanes, threads;                 // of a product; of a block
  int registers;                      // an estimate, of one thread
  int store_width, width_d;  // elements that lanes store at once, and that blocks finish at once
  bool dense_d;
  bool overlaps;  // grids may begin while the one before them ends
  std::int64_t stage_bytes, shared_bytes;
  std::int64_t groups;  // of products
  std::int64_t grid;    // blocks
};

/// `config` keeps the family's first rules.
SmallSizes small_sizes(const Problem& problem, const DeviceCaps& device, const CudaSmall& config);

/// The occupancy that registers, shared memory and threads allow, in blocks; at least 1.
int small_resident(const DeviceCaps& device, const SmallSizes& sizes);

/// Whether copies of the config's width bring each operand whole.
bool small_copies(const CudaSmall& config, const SmallSizes& sizes);

/// All points of the space; rules decide which are legal.
void enumerate_small(const Problem& problem, const DeviceCaps& device,
                     const std::function<void(const Config&)>& visit);

Parameters small_parameters(const Problem& problem, const DeviceCaps& device,
                            const CudaSmall& config, const SmallSizes& sizes);

/// The model of the family: nanoseconds of one call.
double small_ns(const Problem& problem, const DeviceCaps& device, const CudaSmall& config,
                const SmallSizes& sizes);

}  // namespace kiln::cuda::small
