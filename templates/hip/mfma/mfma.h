// The matrix instruction that the parameters chose, under its own name. An emulator supplies the
// same name. The macros hold what only text can give: names.
#pragma once

using Sums = Vector<Acc, kSums>;

/// The accumulators plus a · b, a holding rows and b columns of the result.
KILN_DEVICE Sums KILN_MFMA(FragmentA a, FragmentB b, Sums sums) {
  //% if scaled
  // The last arguments are the blocks' scales: none.
  return KILN_MFMA_BUILTIN(a, b, sums, kFormatA, kFormatB, 0, 0, 0, 0);
  //% else
  return KILN_MFMA_BUILTIN(a, b, sums, 0, 0, 0);
  //% end
}

/// The row of the result that accumulator `r` of a lane belongs to; its column is the lane modulo
/// kRows.
KILN_DEVICE int sum_row(int lane, int r) {
  //% if double
  return r * (64 / kRows) + lane / kRows;
  //% else
  return r / 4 * (4 * (64 / kRows)) + lane / kRows * 4 + r % 4;
  //% end
}
