//% if scale_d && !summed
//% if scale_d == tensor
// D as codes with one scale for all.
//% else
// D as codes, with the scales that follow from it: columns that share one are of one block's tile.
//% end
// Expects epilogue.h, store.h and, where the scales follow from D, quantise_ptx.h.
#pragma once

//% if gate
namespace of_d {
//% include cuda/wgmma/quantise_tile.h
}  // namespace of_d
//% else
//% include cuda/wgmma/quantise_tile.h
//% end

/// One warpgroup's part of a tile, whose rows of the left operand start at `row_offset`; `tile`
/// says how many it has stored.
KILN_DEVICE void store_quantised(Acc (&sums)[kSubtiles][kSums], const Work& work,
                                 const KilnGpuArgs& args, const KilnTensorMap* map_d, u32 buffers,
                                 u32 row_offset, int group, int thread, u32 tile) {
  //% if row_groups
  const Output out = output_of_group(args, work.batch, work.first_row, work.rows);
  //% end
  //% if k_groups
  const Output out = output_of_group(args, work.batch);
  //% end
  //% if lists
  const Output out = output_of(args_of_product(args, work.batch), 0);
  //% end
  //% if !groups
  const Output out = output_of(args, work.batch);
  //% end
  //% if gate
  const u32 first = kSwap ? row_offset / 2 : row_offset;
  Acc d[of_d::kSubtiles][of_d::kSums];
  pass_gate(d, sums, out,
            i64(work.left) * of_d::kLeftTile + first + thread / 32 * 16 + (thread & 31) / 4,
            i64(work.right) * of_d::kRightTile + (thread & 3) * 2);
  of_d::store_codes(d, work, args, out, map_d, buffers, first, group, thread, tile);
  //% else
  store_codes(sums, work, args, out, map_d, buffers, row_offset, group, thread, tile);
  //% end
}
//% end
