// Which part of a warp's tile a lane takes, and which elements of a tile a thread copies. Plain
// functions of numbers: a test on the host counts what these very lines cost.
#pragma once

/// Lanes of a warp stand in a rectangle of `lanes_m` by 32 / lanes_m. Rows and columns take the
/// bits of a lane's number by turns, columns first: then pairs of lanes read the same of either
/// operand, which halves the accesses that 16 bytes a lane cost.
KILN_DEVICE constexpr int lane_part(int lane, int lanes_m, bool rows) {
  int m = 0, n = 0, bits_m = 1, bits_n = 1;
  for (int bit = 0; bit < 5; ++bit) {
    const bool to_m = bits_n * lanes_m == 32 || (bit % 2 == 1 && bits_m < lanes_m);
    const int set = lane >> bit & 1;
    if (to_m) {
      m += set * bits_m;
      bits_m *= 2;
    } else {
      n += set * bits_n;
      bits_n *= 2;
    }
  }
  return rows ? m : n;
}

/// The element of row `row` in line `k` of a tile whose lines are `pitch` elements apart.
KILN_DEVICE constexpr int line_place(int k, int row, int pitch) { return k * pitch + row; }

/// Where access number `q` to a tile of `rows` rows begins, `width` elements each. Along k, one row
/// is read 8 elements (a sector of 32 bytes) at a time, so that lanes spread over many rows.
KILN_DEVICE constexpr int copied_row(int q, bool along_k, int rows, int width, int block_k) {
  const int piece = block_k < 8 ? block_k : 8;
  return along_k ? q / (piece / width) % rows : q % (rows / width) * width;
}
KILN_DEVICE constexpr int copied_k(int q, bool along_k, int rows, int width, int block_k) {
  const int piece = block_k < 8 ? block_k : 8;
  return along_k ? q % (piece / width) * width + q / (piece / width * rows) * piece
                 : q / (rows / width);
}
