// Expressions as the plain loop computes them, element by element. Knows no product.
#pragma once

#include <cstdint>

#include "generator/problem/problem.h"
#include "templates/cpu/common/abi.h"

namespace kiln {

/// The value of the expression where `acc` is the element's, with a gate that of the first product,
/// and `second` the other's; stores what is stored beside D.
double expressed(const Gemm& gemm, const KilnArgs& args, double acc, double second,
                 std::int64_t batch, std::int64_t row, std::int64_t column);

/// What follows where the problem's expression reduces: the arguments are redirect_reduced()'s.
void reduce_reference(const Problem& problem, const KilnArgs& args, int threads);

}  // namespace kiln
