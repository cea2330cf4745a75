//% if lists
//% if list_maps
// The steps before a list's products. Expects abi.h, list_chunk.h, types.h, groups_ptx.h,
// group_args.h, grid_ptx.h, tensor_map_ptx.h.

/// By a warp: one operand's tensor map of one product. `like` is right but for address, sizes and
/// pitch; `shared` has room for a map. Where there is no k the map is one element of `operand`.
//% if gate
/// B's factors have `rows` lines each and lie `apart` elements apart, which is 0 for A.
//% end
template <typename T, bool AlongK>
KILN_DEVICE void make_map(KilnTensorMap* to, u32 shared, const KilnTensorMap& like,
                          const void* operand, i64 rows, i64 k, i64 ld,
                          //% if gate
                          i64 apart,
                          //% end
                          int lane) {
  store_shared_word(shared + lane * 4, reinterpret_cast<const u32*>(&like)[lane]);
  __syncwarp();
  if (lane == 0) {
    const i64 length = max(i64(1), AlongK ? k : rows), lines = max(i64(1), AlongK ? rows : k);
    // The pitch of a single line or without k may be no multiple of 16 bytes.
    const i64 pitch = (lines > 1 && k > 0 ? ld : ceil_div(length, 16) * 16) * i64(sizeof(T));
    tensor_map_set_address(shared, operand);
    tensor_map_set_elements<0>(shared, u32(length));
    tensor_map_set_elements<1>(shared, u32(lines));
    tensor_map_set_pitch(shared, u64(pitch));
    //% if gate
    if (apart != 0) tensor_map_set_apart(shared, u64(k > 0 ? apart * i64(sizeof(T)) : pitch));
    //% end
  }
  __syncwarp();
  tensor_map_release(to, shared);
}

/// Writes entries to their places in the workspace, where the kernel of the products reads them,
/// and behind all entries the maps of their operands. `map_left` and `map_right` are those of
/// operands without address and sizes. A warp makes one map.
extern "C" __global__ void __launch_bounds__(128)
    kiln_take_list(const __grid_constant__ KilnGpuArgs args,
                   const __grid_constant__ KilnTensorMap map_left,
                   const __grid_constant__ KilnTensorMap map_right,
                   const __grid_constant__ KilnListChunk chunk) {
  __shared__ __align__(128) u32 maps[4][32];
  // The products of the call before may still be read.
  wait_for_previous_grid();
  let_next_grid_start();
  const u64* const from = reinterpret_cast<const u64*>(chunk.entries);
  u64* const to = reinterpret_cast<u64*>(static_cast<KilnListEntry*>(args.workspace) + chunk.first);
  const int words = int(chunk.count) * int(sizeof(KilnListEntry) / sizeof(u64));
  for (int i = int(blockIdx.x) * 128 + int(threadIdx.x); i < words; i += int(gridDim.x) * 128)
    to[i] = from[i];
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) & 31;
  const int number = int(blockIdx.x) * 4 + warp, product = number / 2;
  if (product >= int(chunk.count)) return;
  const KilnListEntry& entry = chunk.entries[product];
  if (entry.m == 0 || entry.n == 0) return;  // it has no tiles, and any address
  KilnTensorMap* const map = maps_of(args, int(chunk.first) + product) + number % 2;
  const u32 shared = shared_address(maps[warp]);
  const KilnTensorMap& like = number % 2 == 0 ? map_left : map_right;
  //% if gate
  if ((number % 2 == 0) != kSwap)
    make_map<TypeA, kAlongKA>(map, shared, like, entry.a, entry.m, entry.k, entry.lda, 0, lane);
  else
    //% if gate_order == stacked
    make_map<TypeB, kAlongKB>(map, shared, like, entry.b, entry.n, entry.k, entry.ldb,
                              entry.n * entry.ldb, lane);
  //% else
  make_map<TypeB, kAlongKB>(map, shared, like, entry.b, entry.n, entry.k, 2 * entry.ldb, entry.ldb,
                            lane);
  //% end
  //% else
  if ((number % 2 == 0) != kSwap)
    make_map<TypeA, kAlongKA>(map, shared, like, entry.a, entry.m, entry.k, entry.lda, lane);
  else
    make_map<TypeB, kAlongKB>(map, shared, like, entry.b, entry.n, entry.k, entry.ldb, lane);
  //% end
}
//% else
// The steps before a list's products. Expects abi.h, list_chunk.h, types.h.

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
//% end
