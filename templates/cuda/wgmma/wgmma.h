// The descriptors that Hopper's warpgroup matrix instruction takes of operands in shared memory.
#pragma once

/// How an operand lies in shared memory, rows of 128 bytes in atoms of 8 rows, 16-byte units
/// swizzled by the row: (byte offset >> 4) fields of the descriptor's low word, then bits 32 and
/// up.
constexpr u64 kAtomBytes = 1024;
constexpr u64 kSwizzle128 = 1ull << 62;
/// k-major: 8 rows of one atom, atoms 1024 bytes apart; the other distance is not used.
constexpr u64 kAlongK = kSwizzle128 | (kAtomBytes >> 4) << 32 | 1ull << 16;
/// The other way: 8 k of one atom, then the next 8; `kBlock` bytes to the next 64 rows.
static __device__ constexpr u64 across_k(u64 block) {
  return kSwizzle128 | (kAtomBytes >> 4) << 32 | (block >> 4) << 16;
}
/// In a cluster, addresses of shared memory carry the block in their high bits: they are cut off.
KILN_DEVICE u64 descriptor(u64 layout, u32 address) { return layout | ((address & 0x3ffff) >> 4); }
