// The HIP runtime behind the table that the CUDA driver defines (runtime/gpu/driver.h): HIP has
// those calls under names of its own, most with the very same binary interface, so that nothing
// above needs to know whose memory, modules, streams, events and graphs it holds. Opened at run
// time; declared by hand from the documented interface. Knows no kernels.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/gpu/driver.h"

namespace kiln::hip {

/// hipDeviceAttribute_t.
enum class Attribute : int {
  clock_khz = 5,
  max_threads_block = 56,
  max_threads_unit = 57,
  units = 63,
  shared_block_bytes = 74,
  wave_size = 87,
  chiplets = 10018,  // since ROCm 6.5
};

/// What has no place in that table.
struct Runtime {
  int (*attribute)(int* value, Attribute, int device) = nullptr;
  /// Fills hipDeviceProp_t, whose layout changed with version 6.
  int (*properties)(void* to, int device) = nullptr;
  std::size_t arch_offset = 0;  // of the target's name in it
  std::string library;
};

/// Larger than any hipDeviceProp_t.
inline constexpr std::size_t kPropertiesBytes = 4096;

/// The runtime, opened and initialised once; the same answer ever after. Of the table three members
/// are null: cuDeviceGetAttribute (see Runtime), cuFuncSetAttribute and cuTensorMapEncodeTiled, for
/// which AMD's GPUs have no use. Errors: device (no runtime on this machine, or one that finds no
/// device), as a sentence.
Result<const gpu::Driver*> driver();
/// Valid once driver() has succeeded.
const Runtime& runtime();

/// "6.3" of the runtime's 60342134.
std::string version_text(int version);

}  // namespace kiln::hip
