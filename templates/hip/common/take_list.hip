//% if lists
// The steps before a list's products. Expects abi.h, list_chunk.h, types.h, device.h.

/// Writes entries to their places in the workspace, where the kernel of the products reads them.
KILN_KERNEL(128, 1) kiln_take_list(KilnGpuArgs args, KilnListChunk chunk) {
  const u64* const from = reinterpret_cast<const u64*>(chunk.entries);
  u64* const to = reinterpret_cast<u64*>(static_cast<KilnListEntry*>(args.workspace) + chunk.first);
  const u32 words = u32(chunk.count) * u32(sizeof(KilnListEntry) / sizeof(u64));
  for (u32 i = thread_index(); i < words; i += 128) to[i] = from[i];
}
//% end
