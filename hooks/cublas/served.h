// Runs a call of cuBLAS on kiln where kiln is faster.
#pragma once

#include "hooks/cublas/call.h"

namespace kiln::hooks {

/// True: the product is in the stream. False: it is the library's; the call is recorded where calls
/// are. Nothing is compiled. The first call of a product looks it up and loads its code, also while
/// the stream is being captured.
bool serve(const Call& call, cudaStream_t stream);

}  // namespace kiln::hooks
