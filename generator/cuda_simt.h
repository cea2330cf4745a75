// What follows from a config of cuda_simt and a problem: threads, bytes, blocks. Plain arithmetic,
// shared by the family's rules, launch and model.
#pragma once

#include <functional>

#include "generator/cuda.h"

namespace kiln::cuda {

struct SimtPlan {
  int threads;                // of a block, that multiply
  int block_threads;          // of a block
  int sum_registers;          // of a thread that multiplies, where others copy; 0: too few or many
  int words;                  // of 32 bits in a sum
  std::int64_t shared_bytes;  // of a block
  std::int64_t tiles, passes, blocks;
  std::int64_t workspace_bytes, zeroed_bytes;
};

/// Blocks that a stream-K launch shares k among: as many as run at once. `c` may be any point;
/// figures of one that breaks rules mean nothing.
SimtPlan plan(const Canonical& problem, const DeviceCaps& device, const CudaSimt& c);

/// What a thread of a warp that copies keeps.
inline constexpr int kSimtCopyRegisters = 32;

/// Whether a block's threads share the copy of `rows` × `block_k` elements, `width` side by side,
/// so that accesses of one thread lie constant distances apart.
bool shares(int rows, int width, bool along_k, int threads, int block_k);

/// All points that are worth a try; rules decide which are legal.
void enumerate_simt(const Canonical& problem, const DeviceCaps& device,
                    const std::function<void(const Config&)>& visit);

double simt_ns(const Canonical& problem, const DeviceCaps& device, const Config& config);

}  // namespace kiln::cuda
