// Derived sizes of a cuda_simt config and a problem: threads, bytes, blocks. Used by the family's
// rules, launch and model.
#pragma once

#include <functional>

#include "generator/families/cuda/common/cuda.h"
#include "generator/families/cuda/simt/config.h"

namespace kiln::cuda {

struct SimtSizes {
  int threads;                // consumers of a block
  int block_threads;          // of a block
  int consumer_registers;     // of a consumer thread with copy=warps; 0: too few or too many
  int words;                  // of 32 bits in an accumulator
  std::int64_t shared_bytes;  // of a block
  std::int64_t table_bytes;   // static shared memory of groups
  std::int64_t tiles, passes, blocks;
  std::int64_t workspace_bytes, zeroed_bytes;
};

/// The grid of a stream-K launch is as many blocks as run at once. `c` may be any point; the result
/// has no meaning for one that breaks a rule.
SimtSizes simt_sizes(const Problem& problem, const DeviceCaps& device, const CudaSimt& c);

/// Registers of a producer thread.
inline constexpr int kSimtProducerRegisters = 32;

/// Whether reads of several elements of B across k are of one factor, at the alignment of all; true
/// without a gate.
bool reads_one_factor(const Problem& problem, const CudaSimt& config);

/// Whether a block's threads divide the copy of `rows` × `block_k` elements, `width` side by side,
/// so that accesses of one thread lie constant distances apart.
bool shares(int rows, int width, bool along_k, int threads, int block_k);

/// All points of the space; rules decide which are legal.
void enumerate_simt(const Problem& problem, const DeviceCaps& device,
                    const std::function<void(const Config&)>& visit);

double simt_ns(const Problem& problem, const DeviceCaps& device, const CudaSimt& config,
               const SimtSizes& sizes);

}  // namespace kiln::cuda
