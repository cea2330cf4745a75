// What follows a product as one expression, which is all that kernels know: a problem's own, or
// what its fields spell. A bias, an activation, a residual and a gate's function are such fields.
#pragma once

#include <span>

#include "generator/expression/program.h"
#include "kiln/gemm.hpp"

namespace kiln {

/// The expression behind the product; empty where nothing follows. Fields that spell one have no
/// other beside them. A gate's bias is no part of it: it belongs to either product (`acc0`).
Expression epilogue_of(const Gemm& gemm);

/// Which arguments of a call its operands are; none where they are the expression's own.
std::span<const expression::Argument> arguments_of_epilogue(const Gemm& gemm);

/// The elements of what it reads and stores.
expression::ExtraTypes types_of_epilogue(const Gemm& gemm);

}  // namespace kiln
