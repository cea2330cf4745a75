// Whether what a contestant computed is right: peers run with alpha 1 and beta 0 only, on the
// operands that are timed, so the tuner's verification does not fit them. Knows no contestant.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kiln/engine.hpp"

namespace kiln {

/// Fills D with the pattern of memory never written. `gemm` is valid here and below.
void poison_d(const Gemm& gemm, const Operands& operands);

/// Compares D = activation(op(A)*op(B) + bias) + residual with kiln's reference: every element must
/// have been written, and a sample of rows and of columns, first and last among them, must lie
/// within the dot product's error bound. `operands.b` is plain. Returns the first fault as a
/// sentence.
std::optional<std::string> wrong_d(const Gemm& gemm, const Operands& operands, std::uint64_t seed);

}  // namespace kiln
