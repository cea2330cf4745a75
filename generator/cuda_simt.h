// What follows from a config of cuda_simt and a problem: threads, bytes, blocks. Plain arithmetic,
// shared by the family's rules, launch and model.
#pragma once

#include "generator/cuda.h"

namespace kiln::cuda {

struct SimtPlan {
  int threads;                // of a block
  int words;                  // of 32 bits in a sum
  std::int64_t shared_bytes;  // of a block
  std::int64_t tiles, passes, blocks;
  std::int64_t workspace_bytes, zeroed_bytes;
};

/// Blocks that a stream-K launch shares k among: as many as run at once. `c` may be any point;
/// figures of one that breaks rules mean nothing.
SimtPlan plan(const Canonical& problem, const DeviceCaps& device, const CudaSimt& c);

double simt_ns(const Canonical& problem, const DeviceCaps& device, const Config& config);

}  // namespace kiln::cuda
