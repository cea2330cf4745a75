// What is checked of a call's list of products (Grouping::list) before it runs. Knows no kernels.
#pragma once

#include <cstdint>

#include "kiln/engine.hpp"

namespace kiln {

/// What is wrong with the entries. `unit_aligned`: elements must lie at multiples of their size, as
/// GPUs want them. One entry's D is compared with its own operands, not with other entries'.
/// Allocates nothing where nothing is wrong. Errors: bad_input, naming entry, field and value.
Status check_entries(const Gemm& gemm, const ListEntry* list, double beta, bool unit_aligned);

/// The addresses of all operands of a list's products and their pitches in bytes, or-ed: a power of
/// two that divides this divides each of them. `gemm` is valid.
std::uintptr_t bits_of_list(const Gemm& gemm, const Operands& operands);

}  // namespace kiln
