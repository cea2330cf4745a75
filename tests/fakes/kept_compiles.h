// What fakes of the in-process compiler have in common: the real one does the work, once. Hundreds
// of processes of the tests compile the same kernels.
#pragma once

#include <string>

#include "runtime/clang_abi.h"

namespace kiln::test {

/// What a job made, or why it made nothing.
struct Compiled {
  std::string bytes, log, error;
  bool failed = false;
  long long code_bytes = 0, stack_bytes = 0, spills = 0;

  /// Valid as long as this.
  KilnClangResult as_result();
};

/// The version of the compiler that $KILN_REAL_CLANG names.
const char* real_version();

/// What that compiler makes of the job. What it made before is found in the folder that
/// $KILN_KEPT_CODE names, by the compiler's own bytes and all that it is told; without the variable
/// nothing is kept. Failures are not kept.
Compiled compiled(const KilnClangJob& job);

}  // namespace kiln::test
