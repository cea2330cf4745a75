// This program, started again: other processes of a benchmark, and what a process has mapped. Knows
// Linux; knows no benchmark.
#pragma once

#include <string>
#include <vector>

#include "kiln/error.hpp"

namespace kiln {

struct ChildResult {
  int exit_code = 0;   // 128 + signal when one ended it
  std::string output;  // its stdout, when captured
};

/// Runs this program with `arguments` (the program's name not among them) and waits for it.
/// `environment`: NAME=value lines, as apply() of bench/environment.h gives. stdout is captured, or
/// shared with this process. Errors: device (the system refused).
Result<ChildResult> run_self(const std::vector<std::string>& arguments,
                             const std::vector<std::string>& environment, bool capture);

/// Files of LLVM, Clang, NVRTC or kiln's compiler that are mapped into this process right now, and
/// whether it started a compile server.
std::vector<std::string> loaded_compilers();

}  // namespace kiln
