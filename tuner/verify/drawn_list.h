// Lists of products (Grouping::list) as they are drawn for verification and timing: sizes, pitches
// and the places that each product has in the operands. Knows no kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "tuner/verify/data.h"

namespace kiln {

/// Sizes and leading dimensions of a list's products, all within the places of operands. Uniform
/// data have sizes from kLeastShare of the largest on; exact data have empty ones and most beside
/// usual tile boundaries, and C is laid out as D is.
void fill_list(const Gemm& gemm, Data kind, Random& random, void* data);

/// One piece of an operand, to be filled as that of a problem of its own.
struct Filling {
  Gemm gemm;
  std::uint64_t seed = 0;
  void* data = nullptr;
};
/// The pieces of an operand at `data`: all of it or, of a list, each product's, with a seed of its
/// own. `numbers` is what fill() makes of the operand `groups` of the whole list.
std::vector<Filling> fillings(const Gemm& gemm, Operand which, std::uint64_t seed,
                              const void* numbers, void* data);

}  // namespace kiln
