//% if groups
// A grouped problem's groups: which of their tiles a block has. The list lies in the device's
// memory; blocks are not persistent, and each walks it by itself, a few cycles a group. Expects
// abi.h.
#pragma once

/// A block's place: `block` of its group's own tiles.
struct GroupBlock {
  i64 group, first_row, rows;  // rows 0: there is no tile left for it
  u32 block;
};

/// `across` tiles lie beside one another, and a group's rows are tiles of kTileM.
KILN_DEVICE GroupBlock group_of(const KilnGpuArgs& args, u32 block, u32 across) {
  const i32* list = static_cast<const i32*>(args.groups);
  i64 before = 0;
  for (i64 group = 0; group < args.batch; ++group) {
    const i64 listed = list[group];
    const i64 end = listed < 0 ? 0 : listed > args.m ? args.m : listed;
    //% if masked
    const i64 first = 0;
    //% else
    const i64 first = before;
    before = end;
    //% end
    if (end <= first) continue;
    const u32 tiles = u32(ceil_div(end - first, kTileM)) * across;
    if (block < tiles) return {group, first, end - first, block};
    block -= tiles;
  }
  return {0, 0, 0, 0};
}
//% end
