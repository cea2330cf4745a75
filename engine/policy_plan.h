// What the races of one policy found for a problem, for commands that compare policies. Calls of
// the problem take the kernel of a race under load where there is one.
#pragma once

#include <optional>

#include "kiln/engine.hpp"

namespace kiln {

/// Nothing: the policy has no record of the problem, or its code may not run. Errors: database.
Result<std::optional<Plan>> plan_of_policy(Engine& engine, const Gemm& gemm, int threads,
                                           TuningPolicy policy);

}  // namespace kiln
