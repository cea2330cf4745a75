#include "runtime/gpu/driver.h"

#include <fmt/format.h>

namespace kiln::gpu {

std::string describe(const Driver& d, Code code) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (d.cuGetErrorName(code, &name) != kSuccess || name == nullptr)
    return fmt::format("CUDA error {}", code);
  if (d.cuGetErrorString(code, &text) != kSuccess || text == nullptr) return name;
  return fmt::format("{}: {}", name, text);
}

Status check(const Driver& d, Code code, const char* call) {
  if (code == kSuccess) [[likely]]
    return {};
  return fail(ErrorCode::device, fmt::format("{}: {}", call, describe(d, code)));
}

}  // namespace kiln::gpu
