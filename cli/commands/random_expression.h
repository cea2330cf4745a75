// Random expressions for the epilogue, as text: every function, operand and index turns up. Knows
// no problem.
#pragma once

#include <string>

#include "cli/commands/sample.h"
#include "kiln/gemm.hpp"

namespace kiln::cli {

/// An expression of up to about twenty values, which no draw makes invalid beside a D of that
/// order, along whose lines its blocks lie. The same draws give the same text.
std::string random_expression(Draw& draw, Order order = Order::row_major);
/// Of a gate, whose D is row-major.
std::string random_gate(Draw& draw);

}  // namespace kiln::cli
