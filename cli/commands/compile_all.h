// Renders and compiles configs on several threads. Runs nothing and prints nothing.
#pragma once

#include <vector>

#include "cli/options.h"

namespace kiln::cli {

/// What came of one config; `source` is empty when it could not be rendered.
struct Compiled {
  Source source;
  Result<Binary> binary = fail(ErrorCode::compiler, "interrupted before it was compiled");
  double ms = 0;  // of compiling alone
};

/// One result a config, in order. `jobs` at a time; 0 = as many as the machine has cores.
std::vector<Compiled> compile_all(Compiler& compiler, const Gemm& gemm, const Target& target,
                                  const std::vector<Config>& configs, int jobs);

}  // namespace kiln::cli
