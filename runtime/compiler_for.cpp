#include <fmt/format.h>

#include "runtime/compiler.h"
#include "runtime/cuda/nvrtc_compiler.h"
#include "runtime/hip/compilers.h"

namespace kiln {

Result<Compiler*> compiler_for(const DeviceCaps& device) {
  switch (device.vendor) {
    case Vendor::cpu:
      return host_compiler();
    case Vendor::nvidia:
      return nvrtc_compiler();
    case Vendor::amd:
      return hip::clang_compiler();
  }
  return fail(ErrorCode::compiler, fmt::format("no compiler for {} in this build", device.arch));
}

}  // namespace kiln
