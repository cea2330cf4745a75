//% if lists
// The steps before a list's products. Expects abi.h, list_chunk.h, types.h, device.h, groups.h.

/// Writes entries to their places in the workspace, where the kernel of the products reads them, and
/// counts their tiles on from those of the step before.
KILN_KERNEL(128, 1) kiln_take_list(KilnGpuArgs args, KilnListChunk chunk) {
  const u64* const from = reinterpret_cast<const u64*>(chunk.entries);
  u64* const to = reinterpret_cast<u64*>(static_cast<KilnListEntry*>(args.workspace) + chunk.first);
  const u32 words = u32(chunk.count) * u32(sizeof(KilnListEntry) / sizeof(u64));
  for (u32 i = thread_index(); i < words; i += 128) to[i] = from[i];
  if (thread_index() != 0) return;
  u32* const counts = tile_counts_of(args) + chunk.first;
  u32 count = chunk.first == 0 ? 0 : counts[-1];
  for (i32 i = 0; i < i32(chunk.count); ++i) {
    const KilnListEntry& entry = chunk.entries[i];
    count += (u32(entry.m) + kTileM - 1) / kTileM * ((u32(entry.n) + kTileN - 1) / kTileN);
    counts[i] = count;
  }
}
//% end
