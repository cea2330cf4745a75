// What a right kernel may compute of an expression, on the host: templates/cuda/check/intervals.h,
// which GPUs run too, with an expression's values as its steps.
#pragma once

#include <math.h>

#include <vector>

#include "generator/expression/functions.h"
#include "generator/expression/program.h"

namespace kiln::intervals {

#define KILN_DEVICE inline
using expression::function_value;
using expression::larger;
using expression::smaller;
#include "templates/cuda/check/intervals.h"
#undef KILN_DEVICE

static_assert(kMostSteps == expression::kMostValues);

/// Of fp32 or fp64.
Precision precision_of(DType type, double flushed);

/// The values of the program, D's last.
std::vector<ExpressionStep> steps_of(const expression::Program& program);

}  // namespace kiln::intervals
