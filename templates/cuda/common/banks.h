// Where elements of a tile lie in shared memory and which of them a lane reads, so that a warp's
// accesses meet different banks. Lines run in the direction that the operand has in memory; within
// a line some bits of a byte's place are exchanged by the number of the line. Plain functions of
// numbers: the generator counts the conflicts of these very lines and offers what has none.
#pragma once

/// The byte of a line where byte `byte` lies: `bits` bits from bit `base` on are exchanged by those
/// of the line's number from bit `shift` on.
KILN_DEVICE constexpr int exchanged_byte(int line, int byte, int bits, int base, int shift) {
  return byte ^ (((line >> shift) & ((1 << bits) - 1)) << base);
}

/// The place of a line among the tile's. Matrix loads bring pairs of 8-bit elements that lie across
/// k, and of two loads every second pair makes a register: lines are dealt so that its k are in
/// order.
KILN_DEVICE constexpr int place_of_line(int line, int size, bool along_k) {
  return size == 1 && !along_k
             ? (line & ~15) | (line >> 1 & 1) << 3 | (line >> 2 & 3) << 1 | (line & 1)
             : line;
}

/// Neighbouring rows that one lane reads at once, and so spread over as many groups of 8 rows. Of
/// wide elements only A's: those of two rows go to neighbouring registers of A, not of B.
KILN_DEVICE constexpr int near_rows(int size, bool along_k, bool is_a) {
  if (along_k || size == 2) return 1;
  return size == 1 || is_a ? 2 : 1;
}

/// Bytes of one lane's read; matrix loads take a row of 16 from each.
KILN_DEVICE constexpr int read_bytes(int size, bool along_k, bool is_a) {
  if (size == 8 && along_k) return 8;
  return along_k || size <= 2 ? 16 : size * near_rows(size, along_k, is_a);
}

/// The row of slot `slot` (0 to 7) in group `group` of a warp's tile.
KILN_DEVICE constexpr int row_in_tile(int group, int slot, int near) {
  return group / near * 8 * near + slot * near + group % near;
}

struct LanePlace {
  int line, byte;
};

/// What a lane's first access to a warp's tile reads, from the tile's first row and k on; others
/// add whole lines and bytes to it. Matrix loads: one row of matrix lane / 8. Matrices come in the
/// order of the instruction's registers: of A, down 8 rows first, then along k; of B the other
/// way.
KILN_DEVICE constexpr LanePlace lane_place(int size, bool along_k, bool is_a, int lane) {
  const int matrix = lane / 8, slot = lane / 4, at_k = lane % 4;
  const int down = is_a ? matrix % 2 : matrix / 2, half = is_a ? matrix / 2 : matrix % 2;
  if (size == 8 && along_k) return {slot, at_k * 8};
  if (along_k) return {lane % 8 + down * 8, half * 16};
  if (size >= 4) return {at_k, slot * size * near_rows(size, along_k, is_a)};
  if (size == 2) return {lane % 8 + half * 8, down * 16};
  return {lane, 0};
}

/// Bytes between rows of sums on their way to D: lanes of different rows meet different banks.
KILN_DEVICE constexpr int sums_pitch(int columns, int near, int size) {
  return columns * size + (2 * near * size == 8 ? 32 : 64);
}
