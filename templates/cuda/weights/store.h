// Sums to D, which is computed transposed: through a part of shared memory that each warp has for
// itself, 8 rows of D at a time. Expects epilogue.h, store_ptx.h.
#pragma once

using Sums = Acc[kTilesM][kTilesN][4];
constexpr int kWarpN = kTilesM * 16;          // columns of D of a warp
constexpr int kWord = 16 / int(sizeof(Acc));  // sums that one shared-memory access brings
/// Neighbouring columns that a lane finishes together.
constexpr int kTogether = kStoreWidth > kWord ? kStoreWidth : kWord;
/// Lanes that write two rows apart meet different banks.
constexpr int kRowPitch = kWarpN * int(sizeof(Acc)) + 16;

struct alignas(16) Word {
  Acc sum[kWord];
};
struct alignas(kStoreWidth * sizeof(TypeD)) SomeD {
  TypeD x[kStoreWidth];
};

/// The sums of tile `j` of 8 rows to shared memory.
KILN_DEVICE void put_down(const Sums& sums, int j, u32 to, int lane) {
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
    _Pragma("unroll") for (int e = 0; e < 4; ++e)
      store_shared_one(to + u32((lane % 4 * 2 + e % 2) * kRowPitch +
                                (i * 16 + e / 2 * 8 + lane / 4) * int(sizeof(Acc))),
                       float_to_bits(sums[i][j][e]));
}
