// A loaded host Binary, ready to launch: memfd + dlopen, no compiler involved.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "kiln/error.hpp"
#include "runtime/cpu/image.h"
#include "templates/cpu/common/abi.h"

namespace kiln {

/// Move-only owner of one loaded shared object.
class HostKernel {
 public:
  /// Errors: device (the image is not a kernel of ours, or the system refused to map it).
  static Result<HostKernel> load(std::span<const std::byte> image);
  HostKernel(HostKernel&& other) noexcept;
  HostKernel& operator=(HostKernel&& other) noexcept;
  ~HostKernel();

  KilnGemmFn gemm = nullptr;
  KilnWorkspaceFn workspace_bytes = nullptr;
  KilnThreadsFn threads = nullptr;  // null: uses as many as it is given
  KilnDirectFn direct = nullptr;    // null: one thread is called with KilnArgs too
  /// What follows where an expression reduces, one after the other; null: nothing.
  std::array<KilnGemmFn, 3> reduce{};

 private:
  HostKernel() = default;
  LoadedImage image_;
};

}  // namespace kiln
