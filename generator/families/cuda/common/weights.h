// What templates/cuda/weights/decode.h, pairs.h and scaling.h expect of a problem's weights.
#pragma once

#include "generator/space/parameters.h"

namespace kiln::cuda {

/// The types of scales and zero points, the codes' bits and groups. Scales of whole columns, too,
/// are the kernel's own business, not the epilogue's.
void add_weights(Parameters& to, const Gemm& gemm);

}  // namespace kiln::cuda
