//% if matrix
// The matrix instruction of a warp, of the shape that the parameters chose. The macros KILN_MMA…
// hold what only text can give: the instruction's name and its lists of operands.
#pragma once

/// sums += a · b: 16 rows (8 where a lane holds two sums), 8 columns.
KILN_DEVICE void mma_sync(Acc* sums, const Fragment* a, const Fragment* b) {
  asm(KILN_MMA_NAME " " KILN_MMA_TEXT ";" : KILN_MMA_SUMS(sums) : KILN_MMA_OPERANDS(a, b));
}
//% end
