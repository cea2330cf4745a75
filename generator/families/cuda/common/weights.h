// What templates/cuda/weights/decode.h, pairs.h and scaling.h expect of a problem's weights.
#pragma once

#include "generator/space/parameters.h"

namespace kiln::cuda {

/// The types of scales and zero points, the codes' bits and groups. Scales of whole columns, too,
/// are the kernel's own business, not the epilogue's.
void add_weights(Parameters& to, const Gemm& gemm);

/// Instructions that make numbers of a register of codes, as templates/cuda/weights/pairs.h has
/// them, and of two codes that lie side by side (wgmma_weights/fragment.h).
double word_instructions(const Gemm& gemm);
double pair_instructions(const Gemm& gemm);

}  // namespace kiln::cuda
