// Scratch memory of the calling thread: grows, is reused, and goes when the thread ends. Knows
// nothing of what it holds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kiln/error.hpp"

namespace kiln {

/// At least `bytes` bytes, 64-byte aligned, content arbitrary; valid until this thread asks for
/// more than it ever did. Huge pages are asked for from 2 MiB on, and pages are touched here, not
/// in the kernel. Errors: device (no memory).
Result<void*> workspace(std::int64_t bytes);

/// The same of another piece of memory, for operands of a kernel that needs a workspace beside
/// them.
Result<void*> operand_space(std::int64_t bytes);
/// The same of a third one, for a product that calls use as an operand.
Result<void*> product_space(std::int64_t bytes);
/// The same of a fourth one, for values that steps behind a kernel reduce.
Result<void*> value_space(std::int64_t bytes);

/// Four words for kernels' barriers, zero unless a kernel of this thread's call is in between.
unsigned* barrier_words();

}  // namespace kiln
