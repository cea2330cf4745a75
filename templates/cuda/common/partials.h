//% if sharing != tiles
// Partial accumulators of tiles whose k is divided: where in the workspace each part's are.
//% if !summed
// The block that stores its part last reduces them all in the order of k, so that the same call
// gives the same bits. The workspace holds a counter a tile (zero between calls: that block resets
// it), then the slots.
//% end
// Expects tile_scheduler.h.
#pragma once

/// The slot of part `part` of a tile.
//% if sharing == stream
/// A cluster has at most two unfinished parts: one that ends a tile (slot 2c), one that begins a
/// tile (slot 2c + 1).
//% end
KILN_DEVICE u32 slot_of(const Work& work, int part) {
  //% if sharing == stream
  return part == 0 ? work.first_slot : work.first_slot + 2 * u32(part) - 1;
  //% else
  return work.first_slot + u32(part);
  //% end
}
//% end
