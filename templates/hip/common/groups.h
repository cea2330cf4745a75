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
// looks for its tile among the counts in the workspace. Expects abi.h, list_abi.h, group_args.h.
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
  i64 before = 0;  // rows of all groups so far: where the list falls, a group has none
  for (i64 group = 0; group < args.batch; ++group) {
    const i64 listed = list[group];
    const i64 end = listed < 0 ? 0 : listed > args.m ? args.m : listed;
    //% if masked
    const i64 first = 0;
    if (end <= first) continue;
    //% else
    const i64 first = before;
    if (end <= first) continue;
    before = end;
    //% end
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

/// What the list may not say becomes the nearest that it may. A group begins behind all groups
/// before it: where the list falls, it is empty.
KILN_DEVICE GroupK part_of_group(const KilnGpuArgs& args, i64 group) {
  const i32* list = static_cast<const i32*>(args.groups);
  i64 first = 0, end = 0;
  for (i64 which = 0; which <= group; ++which) {
    first = end;
    const i64 listed = list[which] > args.k ? args.k : list[which];
    if (listed > end) end = listed;
  }
  return {first, end - first};
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

/// A pointer to global memory that was itself read from memory. Only of kernel arguments does the
/// compiler know which memory they point to; others it takes for generic pointers, whose loads and
/// stores (FLAT) are counted, and waited for, as those of shared memory are too. By way of an
/// integer, since casts there and back are folded.
template <typename T>
KILN_DEVICE T* in_global_memory(T* pointer) {
  return (T*)(__attribute__((address_space(1))) T*)(u64)pointer;
}

/// The call of one product, whose pointers the list holds.
KILN_DEVICE KilnGpuArgs args_of_listed(const KilnGpuArgs& args, i32 product) {
  KilnGpuArgs own = args_of_product(args, product);
  own.a = in_global_memory(own.a);
  own.b = in_global_memory(own.b);
  own.c = in_global_memory(own.c);
  own.d = in_global_memory(own.d);
  own.bias = in_global_memory(own.bias);
  own.residual = in_global_memory(own.residual);
  //% if scales
  own.scale_a = in_global_memory(own.scale_a);
  own.scale_b = in_global_memory(own.scale_b);
  //% end
  return own;
}
//% end
