// Sums to D: through shared memory, so that whole lines of D are written. Expects place.h,
// finish.h.
#pragma once

/// (row0, column0): the warp's first element of D; `room`: its part of shared memory.
KILN_DEVICE void store_sums(const Sums& sums, const Output& out, i64 row0, i64 column0, u32 room,
                            int lane) {
  //% if integer_d
  const bool exact = out.whole;
  //% else
  const bool exact = false;
  //% end
  //% if gate
  constexpr int kUnits = kWarpN / 2 / kTogether;  // of a row of D
  //% else
  constexpr int kUnits = kWarpN / kTogether;  // of a row
  //% end
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i) {
    put_down(sums[i], room, lane);
    __syncwarp();
    _Pragma("unroll 1") for (int u = lane; u < 16 * kUnits; u += 32) {
      const int line = u / kUnits, first = u % kUnits * kTogether;
      const i64 row = row0 + row_in_tile(i * 2 + line / 8, line % 8, TileA::kNear);
      const i64 column = column0 + first;
      if (row < out.rows && column < out.columns)
        finish_some(room + u32(line * kRowPitch + first * int(sizeof(Acc))), out, row, column,
                    exact);
    }
    __syncwarp();
  }
  //% if amax
  raise_amax(out.amax, out.largest);
  //% end
}
