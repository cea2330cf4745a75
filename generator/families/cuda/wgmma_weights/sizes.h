// Sizes derived from a CudaWgmmaWeights config: read by its rules, parameters, launch and model.
// Knows no template text.
#pragma once

#include <cstdint>

#include "generator/families/cuda/wgmma/config.h"
#include "generator/families/cuda/wgmma/sizes.h"
#include "generator/families/cuda/wgmma_weights/config.h"

namespace kiln::cuda {

/// The problem and a config as the kernel sees them. Once codes are numbers, the rest is
/// cuda_wgmma's: its rings, tiles, stores and reductions.
struct WgmmaWeightsSizes {
  Problem numbers;  // the problem with weights of A's type
  CudaWgmma wgmma_config;
  WgmmaSizes wgmma;
  int factors;  // of which a warpgroup has 64 columns of B each: 2 with a gate
  int code_bits;
  int along;       // elements of k that share a scale; 0: a whole column
  int code_pitch;  // bytes of a column's codes in a stage
  int registers;   // an estimate, of a thread that multiplies
};

WgmmaWeightsSizes wgmma_weights_sizes(const Problem& problem, const DeviceCaps& device,
                                      const CudaWgmmaWeights& config);

/// The constants, macros and choices of the templates.
Parameters wgmma_weights_parameters(const Problem& problem, const DeviceCaps& device,
                                    const CudaWgmmaWeights& config, const WgmmaWeightsSizes& sizes);

/// The tensor maps and steps of one call.
GpuLaunch wgmma_weights_launch(const Problem& problem, const DeviceCaps& device,
                               const CudaWgmmaWeights& config, const WgmmaWeightsSizes& sizes);

/// The model of the family: nanoseconds of one call.
double wgmma_weights_ns(const Problem& problem, const DeviceCaps& device,
                        const CudaWgmmaWeights& config, const WgmmaWeightsSizes& sizes);

}  // namespace kiln::cuda
