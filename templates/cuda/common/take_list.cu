//% if lists
// The steps before a list's products. Expects abi.h, list_abi.h, types.h.

/// Writes entries to their places in the workspace, where the kernel of the products reads them.
extern "C" __global__ void __launch_bounds__(128)
    kiln_take_list(const __grid_constant__ KilnGpuArgs args,
                   const __grid_constant__ KilnListChunk chunk) {
  const u64* const from = reinterpret_cast<const u64*>(chunk.entries);
  u64* const to = reinterpret_cast<u64*>(static_cast<KilnListEntry*>(args.workspace) + chunk.first);
  const int words = int(chunk.count) * int(sizeof(KilnListEntry) / sizeof(u64));
  for (int i = int(threadIdx.x); i < words; i += 128) to[i] = from[i];
}
//% end
