// What a right kernel may compute of an expression, on the host: templates/cuda/check/intervals.h,
// which GPUs run too, with an expression's values as its steps.
#pragma once

#include <math.h>

#include <vector>

#include "generator/expression/functions.h"
#include "generator/expression/program.h"

namespace kiln::intervals {

#define KILN_DEVICE inline
using expression::function_log;
using expression::function_value;
using expression::is_counter;
using expression::larger;
using expression::smaller;
#include "templates/cuda/check/intervals.h"
#include "templates/cuda/check/reduced.h"
#undef KILN_DEVICE

static_assert(kMostSteps == expression::kMostValues && kMostReduced == expression::kMostReduced);

/// Of fp32 or fp64.
Precision precision_of(DType type, double flushed);

static_assert(reduce_sum == int(Reduction::sum) && reduce_max == int(Reduction::max) &&
              reduce_min == int(Reduction::min) && reduce_logsumexp == int(Reduction::logsumexp) &&
              reduce_even == int(Reduction::even) && reduce_odd == int(Reduction::odd));

/// The values of the program.
std::vector<ExpressionStep> steps_of(const expression::Program& program);

}  // namespace kiln::intervals
