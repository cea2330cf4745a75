// Random expressions for the epilogue, as text: every function, operand and index turns up. Knows
// no problem.
#pragma once

#include <string>

#include "cli/commands/sample.h"

namespace kiln::cli {

/// An expression of up to about twenty values, which no draw makes invalid. The same draws give the
/// same text.
std::string random_expression(Draw& draw);

}  // namespace kiln::cli
