//% if list_maps
// Tensor maps that a kernel makes: fields of one in shared memory are replaced, it is copied to
// memory, and a later kernel has it read anew there. One small named wrapper for each instruction.
#pragma once

/// The address of the map's first element, a multiple of 16.
KILN_DEVICE void tensor_map_set_address(u32 map, const void* address) {
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(map),
               "l"(address)
               : "memory");
}
/// The elements along dimension `Dimension`, at least 1.
template <int Dimension>
KILN_DEVICE void tensor_map_set_elements(u32 map, u32 elements) {
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], %1, %2;" ::"r"(map),
               "n"(Dimension), "r"(elements)
               : "memory");
}
/// The bytes between lines, a multiple of 16.
KILN_DEVICE void tensor_map_set_pitch(u32 map, u64 bytes) {
  asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %1;" ::"r"(map),
               "l"(bytes)
               : "memory");
}
//% if gate
/// The bytes between both factors of B, a multiple of 16.
KILN_DEVICE void tensor_map_set_apart(u32 map, u64 bytes) {
  asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 1, %1;" ::"r"(map),
               "l"(bytes)
               : "memory");
}
//% end
/// By all lanes of a warp: copies a map from shared memory to a multiple of 128 bytes, for threads
/// that acquire it.
KILN_DEVICE void tensor_map_release(KilnTensorMap* to, u32 map) {
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
      "[%0], [%1], 128;" ::"l"(to),
      "r"(map)
      : "memory");
}
/// The copies that this thread starts from here on read the map that was released.
KILN_DEVICE void tensor_map_acquire(const KilnTensorMap* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}
//% end
