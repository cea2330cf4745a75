#include <fmt/format.h>

#include "runtime/compiler.h"
#include "runtime/cuda/nvrtc_compiler.h"
#include "runtime/hip/compilers.h"

namespace kiln {

Result<Compiler*> compiler_for(const DeviceCaps& device) {
  if (device.vendor == Vendor::cpu) return host_compiler();
  if (device.vendor == Vendor::nvidia) return nvrtc_compiler();
  if (device.vendor == Vendor::amd) return hip::clang_compiler();
  return fail(ErrorCode::compiler, fmt::format("no compiler for {} in this build", device.arch));
}

}  // namespace kiln
