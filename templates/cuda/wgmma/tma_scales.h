//% if tma_scales
// Scales of blocks of k that the copy engine brings: four of each row of A's tile, of which one box
// holds all, and four of each square of B. They count at the barrier of the first of their four
//% if scale_order
// stages. A row of A's box is a stage. Expects hopper_ptx.h, tile.h.
//% else
// stages. Expects hopper_ptx.h, tile.h.
//% end
#pragma once

/// Into a place of their ring. `row` and `column` are the tile's first ones of A and of D, `first`
/// the stage. What does not exist comes as zeros.
KILN_DEVICE void copy_scales(u32 to, u32 barrier, const KilnTensorMap* of_a,
                             const KilnTensorMap* of_b, int row, int batch_of_a, int column,
                             int batch, int first) {
  //% if scale_order
  tma_load_3d(to, of_a, barrier, row, first, batch_of_a, kLeftHint);
  //% else
  tma_load_3d(to, of_a, barrier, first, row, batch_of_a, kLeftHint);
  //% end
  _Pragma("unroll") for (int i = 0; i < kRightScales; ++i)
    tma_load_3d(to + kRightScalesAt + i * 128, of_b, barrier, first,
                (column + i * kRightShare) / kRightLines, batch, kRightHint);
}
//% end
