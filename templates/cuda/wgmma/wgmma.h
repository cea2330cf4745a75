// Hopper's warpgroup matrix instruction: one wrapper for the shape that the parameters chose, and
// the descriptors of its operands in shared memory. The macros KILN_WGMMA… hold what only text can
// give: the instruction's name and its lists of operands.
#pragma once

/// How an operand lies in shared memory, rows of 128 bytes in atoms of 8 rows, 16-byte units
/// swizzled by the row: (byte offset >> 4) fields of the descriptor's low word, then bits 32 and up.
constexpr u64 kAtomBytes = 1024;
constexpr u64 kSwizzle128 = 1ull << 62;
/// k-major: 8 rows of one atom, atoms 1024 bytes apart; the other distance is not used.
constexpr u64 kAlongK = kSwizzle128 | (kAtomBytes >> 4) << 32 | 1ull << 16;
/// The other way: 8 k of one atom, then the next 8; `kBlock` bytes to the next 64 rows.
static __device__ constexpr u64 across_k(u64 block) {
  return kSwizzle128 | (kAtomBytes >> 4) << 32 | (block >> 4) << 16;
}
/// In a cluster, addresses of shared memory carry the block in their high bits: they are cut off.
KILN_DEVICE u64 descriptor(u64 layout, u32 address) {
  return layout | ((address & 0x3ffff) >> 4);
}

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
      "setp.ne.b32 p, %" KILN_WGMMA_ACCUMULATE ", 0;\n"
      KILN_WGMMA_NAME " " KILN_WGMMA_SUMS ", " KILN_WGMMA_OPERANDS ";\n"
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
      "setp.ne.b32 p, %" KILN_WGMMA_ACCUMULATE ", 0;\n"
      KILN_WGMMA_NAME " " KILN_WGMMA_SUMS ", " KILN_WGMMA_OPERANDS ";\n"
      "}"
      : KILN_WGMMA_TIED(sums)
      : "l"(left), "l"(right), "r"(accumulate));
}
//% end
