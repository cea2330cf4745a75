// Where things lie in shared memory so that a warp's accesses meet different banks. Plain functions
// of numbers: a test on the host counts the conflicts of these very lines.
#pragma once

/// The byte of 16-byte unit `unit` of row `row`, rows being `pitch` bytes (16, 32, 64 or 128): the
/// copy engine's swizzle of that width.
KILN_DEVICE constexpr unsigned swizzled_byte(int row, int unit, int pitch) {
  const int shift = pitch == 128 ? 0 : pitch == 64 ? 1 : 2;
  return unsigned(row * pitch + ((unit ^ ((row >> shift) & (pitch / 16 - 1))) << 4));
}

/// The element of row `row` in line `k` of a tile of `rows` rows and `block_k` lines: quads (of
/// `quad` elements, 16 bytes) are exchanged by k. A warp that writes quads of k covers
/// 128 / block_k rows at once, hence the step.
KILN_DEVICE constexpr int quad_place(int k, int row, int rows, int quad, int block_k) {
  const int mask = rows / quad >= 8 ? 7 : rows / quad - 1;
  const int apart = block_k >= 32 ? 1 : 32 / block_k;
  return k * rows + (row / quad ^ (k / 4 * apart & mask)) * quad + row % quad;
}
