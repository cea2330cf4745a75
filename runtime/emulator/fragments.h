// Which element of a matrix each register of each lane holds, as the PTX ISA draws it, instruction
// by instruction. Tables of rules and nothing else, so that they can be checked by themselves.
#pragma once

namespace kiln::emu {

struct Element {
  int row, column;
  constexpr bool operator==(const Element&) const = default;
};

/// 8 × 8 matrices of 16-bit elements (ldmatrix, stmatrix): element 0 or 1 of a lane's register.
constexpr Element in_8x8(int lane, int e) { return {lane / 4, lane % 4 * 2 + e}; }

/// Sums of wgmma, m64nN: register i of lane 0…127 of the warpgroup.
constexpr Element in_wgmma_accumulators(int lane, int i) {
  const int warp = lane / 32, in_warp = lane % 32;
  return {warp * 16 + in_warp / 4 + i / 2 % 2 * 8, i / 4 * 8 + in_warp % 4 * 2 + i % 2};
}

/// wgmma: A from registers: element e of a lane as (row, k), `packed` elements in a register, of 4
/// or 2 bytes each. Registers go down 8 rows first, then along k by 4 · packed.
constexpr Element in_wgmma_a(int lane, int e, int packed) {
  const int in_warp = lane % 32, r = e / packed;
  return {lane / 32 * 16 + in_warp / 4 + r % 2 * 8,
          (r / 2 * 4 + in_warp % 4) * packed + e % packed};
}

/// mma.sync m16n8kK: sums, register i of 4.
constexpr Element in_mma_accumulators(int lane, int i) {
  return {lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2};
}
/// A of m16n8kK: element e of a lane, `packed` elements in a register (1, 2 or 4). Registers go
/// down 8 rows first, then along k by 4 · packed.
constexpr Element in_mma_a(int lane, int e, int packed) {
  const int r = e / packed;
  return {lane / 4 + r % 2 * 8, r / 2 * 4 * packed + lane % 4 * packed + e % packed};
}
/// B: element e as (k, column).
constexpr Element in_mma_b(int lane, int e, int packed) {
  return {e / packed * 4 * packed + lane % 4 * packed + e % packed, lane / 4};
}
/// Double precision, m8n8k4: A (row, k), B (k, column), sums.
constexpr Element in_dmma_a(int lane) { return {lane / 4, lane % 4}; }
constexpr Element in_dmma_b(int lane) { return {lane % 4, lane / 4}; }
constexpr Element in_dmma_accumulators(int lane, int i) { return {lane / 4, lane % 4 * 2 + i}; }

}  // namespace kiln::emu
