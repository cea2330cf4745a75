// CUDA's words by Clang's own means, for steps that both vendors' kernels share. Expects device.h.
#pragma once

#define __global__ __attribute__((global))
#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(threads, threads)))
#define __shared__ static __attribute__((shared))
#define __grid_constant__
// Blocks have one row of threads.
#define threadIdx (GridPlace{thread_index(), 0, 0})
#define blockIdx \
  (GridPlace{block_index(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z()})
#define blockDim (GridPlace{__builtin_amdgcn_workgroup_size_x(), 1, 1})
#define gridDim                                                                    \
  (GridPlace{__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(), \
             __builtin_amdgcn_grid_size_y(), __builtin_amdgcn_grid_size_z()})
#define __syncthreads block_barrier

struct GridPlace {
  u32 x, y, z;
};
KILN_DEVICE float bits_to_float(u32 bits) { return bits_as<float>(bits); }
