// Where AMD's matrix instructions want every element: tables recorded from AMD's calculator and
// from hardware tests (data/mfma_layouts), read out of an archive that is compiled in. Knows no
// arithmetic.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kiln/error.hpp"

namespace kiln::emu {

/// Some bits of a lane's registers of one operand.
struct Cell {
  std::uint8_t lane = 0;
  std::uint16_t bit = 0;
};

/// One instruction. Cells by (block, row, k) of A, (block, column, k) of B, (block, row, column) of
/// the sums; scales by (row or column, k / 32).
struct Layout {
  int mn = 0, k = 0, blocks = 1;
  int a_bits = 0, b_bits = 0, sum_bits = 0;
  std::vector<Cell> a, b, sums, scale_a, scale_b;
};

/// `file` as the archive names it, without ".csv": "gfx942.v_mfma_f32_32x32x8_f16". Errors:
/// internal (no such table, or one with holes).
Result<Layout> read_layout(std::string_view file, int mn, int k, int blocks);
bool has_layout(std::string_view file);

}  // namespace kiln::emu
