// The scaled matrix instruction that the parameters chose, under its own name. An emulator supplies
// the same name. The macros hold what only text can give: names.
#pragma once

using Sums = Vector<Acc, kSums>;
/// Eight registers, whatever the format: 32 codes, of which narrower ones fill the first six or
/// four.
using Codes = Vector<i32, 8>;

/// The accumulators plus a · b, a holding rows and b columns of the result. Of each lane's scales
/// byte `Select` holds for the 32 of k that the lane's place in the instruction stands for.
template <int Select>
KILN_DEVICE Sums KILN_MFMA(Codes a, Codes b, Sums sums, u32 scale_a, u32 scale_b) {
  return KILN_MFMA_BUILTIN(a, b, sums, kFormatA, kFormatB, Select, scale_a, Select, scale_b);
}

/// The row of the result that accumulator `r` of a lane belongs to; its column is the lane modulo
/// kRows.
KILN_DEVICE int sum_row(int lane, int r) {
  return r / 4 * (4 * (64 / kRows)) + lane / kRows * 4 + r % 4;
}
