// NVRTC as a Compiler: a generated source in, a cubin for the exact target out. Needs no GPU and no
// driver. Knows no problems.
#pragma once

#include <string_view>

#include "runtime/compiler.h"

namespace kiln {

/// Opened on the first call and kept. Compiles run in parallel; a source that ptxas compiles with a
/// warning C75xx (wgmma serialised, setmaxnreg ignored) is refused, with the warning as the reason.
/// Errors: compiler (no NVRTC found), naming what was tried.
Result<Compiler*> nvrtc_compiler();

/// Registers, spills, stack and shared bytes out of ptxas's -v text: the largest of all entries,
/// spills (stores and loads, in bytes) added up.
ResourceReport ptxas_resources(std::string_view log);

/// The first line that carries a warning C75xx, or nothing.
std::string_view performance_warning(std::string_view log);

}  // namespace kiln
