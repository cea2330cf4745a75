// Hopper's warpgroup matrix instruction, of the shape that the parameters chose, and what it waits
// for. The macros KILN_WGMMA… hold what only text can give: the instruction's name and its lists of
// operands.
#pragma once

KILN_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
KILN_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Pending>
KILN_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
/// Keeps the compiler from moving uses of a sum across a wait.
KILN_DEVICE void pin(Acc& sum) { asm volatile("" : "+" KILN_WGMMA_REGISTER(sum)::"memory"); }

//% if left_registers
/// sums (+)= left · right over one k step of 32 bytes, the left words being this lane's;
/// `accumulate` 0 starts anew. The words must stay until the instruction was waited for.
KILN_DEVICE void wgmma_m64(Acc (&sums)[kSums], const u32 (&left)[4], u64 right, int accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %" KILN_WGMMA_ACCUMULATE ", 0;\n"  //
      KILN_WGMMA_NAME " " KILN_WGMMA_SUMS ", " KILN_WGMMA_OPERANDS
      ";\n"  //
      "}"
      : KILN_WGMMA_TIED(sums)
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(accumulate));
}
//% else
/// sums (+)= left · right over one k step of 32 bytes; `accumulate` 0 starts anew.
KILN_DEVICE void wgmma_m64(Acc (&sums)[kSums], u64 left, u64 right, int accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %" KILN_WGMMA_ACCUMULATE ", 0;\n"  //
      KILN_WGMMA_NAME " " KILN_WGMMA_SUMS ", " KILN_WGMMA_OPERANDS
      ";\n"  //
      "}"
      : KILN_WGMMA_TIED(sums)
      : "l"(left), "l"(right), "r"(accumulate));
}
//% end
