// Reads what a code object for AMD GPUs says of its kernels: registers, spills, shared memory.
// Knows ELF and the notes in it, and nothing of who compiled it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "generator/problem/device_caps.h"
#include "kiln/error.hpp"
#include "runtime/compiler.h"

namespace kiln::hip {

struct KernelResources {
  std::string name;
  int vector_registers = 0;        // of a lane; where the file is one, with those for accumulation
  int accumulation_registers = 0;  // of these
  int scalar_registers = 0;
  int vector_spills = 0, scalar_spills = 0;  // registers
  std::int64_t shared_bytes = 0;             // static
  std::int64_t private_bytes = 0;            // of a lane: stack and spills
  int max_threads = 0;                       // of a block
  int wave = 0;
};

struct CodeObject {
  std::string target;  // "amdgcn-amd-amdhsa--gfx942"
  std::int64_t code_bytes = 0;
  std::vector<KernelResources> kernels;
};

/// Errors: compiler, when the bytes are not a code object or its notes cannot be read.
Result<CodeObject> read_code_object(std::span<const std::byte> image);

/// The report of a binary: of each resource, what the most demanding kernel takes; of spills, all.
ResourceReport report_of(const CodeObject& object);

/// Blocks of `threads` threads that can be resident on one compute unit: what registers and shared
/// memory leave room for. 0 when not even one fits.
int resident_blocks(const KernelResources& kernel, const DeviceCaps& device, int threads);
/// The same in waves of one SIMD, rounded down but not to nothing.
int occupancy(const KernelResources& kernel, const DeviceCaps& device, int threads);

}  // namespace kiln::hip
