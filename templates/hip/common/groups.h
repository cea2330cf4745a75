//% if row_groups
// A grouped problem's groups: which of their tiles a block has. The list lies in the device's
// memory; blocks are not persistent, and each walks it by itself, a few cycles a group. Expects
// abi.h.
//% end
//% if k_groups
// A grouped problem's groups: which part of k each has. The list of them lies in the device's
// memory. Groups have equal numbers of tiles, as batches do. Expects abi.h.
//% end
//% if lists
// The products of a list: which of their tiles a block has. Blocks are not persistent, and each
// looks for its tile among the counts in the workspace. Expects abi.h, list_abi.h.
//% end
#pragma once

//% if row_groups
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
//% if k_groups
struct GroupK {
  i64 first, count;
};

/// What the list may not say becomes the nearest that it may.
KILN_DEVICE GroupK part_of_group(const KilnGpuArgs& args, i64 group) {
  const i32* list = static_cast<const i32*>(args.groups);
  const auto end_of = [&](i64 which) {
    const i64 listed = list[which];
    return listed < 0 ? 0 : listed > args.k ? args.k : listed;
  };
  const i64 first = group == 0 ? 0 : end_of(group - 1), end = end_of(group);
  return {first, end > first ? end - first : 0};
}
//% end
//% if lists
/// Behind the entries: for each product the tiles of all products up to it, its own too. The steps
/// that bring the entries count them.
KILN_DEVICE u32* tile_counts_of(const KilnGpuArgs& args) {
  return reinterpret_cast<u32*>(static_cast<KilnListEntry*>(args.workspace) + args.batch);
}

/// A block's place: `block` of its product's own tiles.
struct ProductBlock {
  i32 product;  // -1: there is no tile left for it
  u32 block;
};

/// Tiles of one product lie behind those of the one before it; an empty product has none.
KILN_DEVICE ProductBlock product_of(const KilnGpuArgs& args, u32 block) {
  const u32* counts = tile_counts_of(args);
  i32 first = 0, last = i32(args.batch) - 1;  // one of these has the block
  if (block >= counts[last]) return {-1, 0};
  while (first < last) {
    const i32 middle = (first + last) / 2;
    if (block < counts[middle])
      last = middle;
    else
      first = middle + 1;
  }
  return {first, first == 0 ? block : block - counts[first - 1]};
}
//% end
