// The space of a problem that was drawn and need not be valid.
#pragma once

#include "generator/space/space.h"

namespace kiln::test {

/// Errors: those of Problem::of() and space_for().
inline Result<SearchSpace> space_of(const Gemm& gemm, const DeviceCaps& device) {
  return Problem::of(gemm).and_then(
      [&](const Problem& problem) { return space_for(problem, device); });
}

}  // namespace kiln::test
