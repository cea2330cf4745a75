// Copies from memory straight into shared memory, without registers (sm_80 and up). A copy brings
// `valid` bytes and fills the rest with zeros; with none it reads nothing. Expects types.h.
#pragma once

KILN_DEVICE void cp_async_4(u32 to, const void* from, int valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}
KILN_DEVICE void cp_async_8(u32 to, const void* from, int valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}
/// Past L1.
KILN_DEVICE void cp_async_16(u32 to, const void* from, int valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}
/// Ends a group of copies: everything since the one before.
KILN_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `Pending` groups of this thread are on their way.
template <int Pending>
KILN_DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}
//% if copy == warps
/// Arrives at a barrier in shared memory once all copies of this thread have come.
KILN_DEVICE void cp_async_arrive(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
//% end
