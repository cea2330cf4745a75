// Tries a kernel of one matrix instruction: compiled for its target (the object is not run), and
// for the emulator, where its result is compared with sums that are exact. Knows no GPU.
#pragma once

#include <cstdint>
#include <string>

#include "generator/families/hip/common/examples.h"
#include "runtime/compiler.h"

namespace kiln {

struct ExampleProof {
  Source source;
  Binary object;            // of the target
  int elements = 0;         // of D, all compared
  int wrong = 0;            // of them
  std::string first_wrong;  // or what the emulator refused; empty when all is well
  bool right() const { return first_wrong.empty(); }
};

/// Draws A, B and the scales so that every sum is a number of fp32: equality is demanded of every
/// element, in a few orders of the lanes. Errors: compiler, internal.
Result<ExampleProof> prove(const MfmaExample& example, std::uint64_t seed);

}  // namespace kiln
