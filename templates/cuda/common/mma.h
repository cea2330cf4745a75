//% if matrix
// The matrix instruction of a warp: one wrapper for the shape that the parameters chose, and what
// instructions make a step. The macros KILN_MMA… hold what only text can give: the instruction's
// name and its lists of operands.
#pragma once

/// sums += a · b: 16 rows (8 where a lane holds two sums), 8 columns.
KILN_DEVICE void mma_sync(Acc* sums, const Fragment* a, const Fragment* b) {
  asm(KILN_MMA_NAME " " KILN_MMA_TEXT ";" : KILN_MMA_SUMS(sums) : KILN_MMA_OPERANDS(a, b));
}

/// 16 rows by 8 columns over one step of k. Registers of A go down 8 rows first, then along k.
KILN_DEVICE void multiply_step(Acc (&sums)[4], const Fragment (&a)[kChunks * 4],
                               const Fragment (&b)[kChunks * 2]) {
  if constexpr (kMmaSums == 2) {
    _Pragma("unroll") for (int k = 0; k < kChunks * 2; ++k)
      _Pragma("unroll") for (int half = 0; half < 2; ++half)
        mma_sync(sums + half * 2, a + k * 2 + half, b + k);
  } else {
    _Pragma("unroll") for (int k = 0; k < kChunks * 4 / kMmaA; ++k)
      mma_sync(sums, a + k * kMmaA, b + k * kMmaB);
  }
}
//% end
