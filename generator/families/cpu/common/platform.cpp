// What all CPU kernels share.
#include "generator/space/platform.h"

namespace kiln::host {

Platform platform() {
  return {.vendor = Vendor::cpu,
          .extension = "cpp",
          .command = "clang++ {flags} -shared -fPIC {file} -o kernel.so"};
}

}  // namespace kiln::host
