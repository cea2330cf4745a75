//% if gather_copies
// Copies of 16 bytes that three warps bring. Expects types.h.
#pragma once

/// The first `valid` bytes from memory, zeros behind them; with none it reads nothing.
KILN_DEVICE void cp_async_16(u32 to, const void* from, int valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}
/// Arrives at a barrier in shared memory once all copies of this thread have come.
KILN_DEVICE void cp_async_arrive(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
//% end
