// The accumulators of a block's tile to D, through the epilogue. Expects epilogue.h, schedule.h
// and, from mfma.hip or mx.hip, Tile, kBlocksM and kBlocksN.
#pragma once

/// Accumulators to D. Four neighbours of a row are one store where D's pitch and address allow it.
KILN_DEVICE void store_tile(const Tile& sums, const Work& work, const KilnGpuArgs& args, i64 row,
                            i64 column, int lane) {
  const Output out = output_of(args, work.batch);
  KILN_UNROLL for (int i = 0; i < kBlocksM; ++i) {
    const i64 r = row + i * kRows + lane % kRows;
    if (r >= out.rows) continue;
    KILN_UNROLL for (int j = 0; j < kBlocksN; ++j) {
      const i64 c0 = column + j * kRows;
      //% if wide_store
      KILN_UNROLL for (int s = 0; s < kSums; s += 4) {
        const i64 c = c0 + sum_row(lane, s);
        if (c >= out.columns) continue;
        //% if lists
        if (c + 4 > out.columns) {
          KILN_UNROLL for (int e = 0; e < 3; ++e) if (c + e < out.columns)
              finish_and_store(out, sums[i][j][s + e], r, c + e);
          continue;
        }
        //% end
        TypeD four[4];
        KILN_UNROLL for (int e = 0; e < 4; ++e) four[e] = finish(out, sums[i][j][s + e], r, c + e);
        //% if stores_d
        *reinterpret_cast<Four*>(out.d + r * out.ldd + c) = bits_as<Four>(four);
        //% end
      }
      //% else
      KILN_UNROLL for (int s = 0; s < kSums; ++s) {
        const i64 c = c0 + sum_row(lane, s);
        if (c < out.columns) finish_and_store(out, sums[i][j][s], r, c);
      }
      //% end
    }
  }
}
