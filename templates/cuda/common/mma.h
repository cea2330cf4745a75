//% if matrix
// The matrix instructions of a warp that make a step. Expects mma_ptx.h.
#pragma once

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
