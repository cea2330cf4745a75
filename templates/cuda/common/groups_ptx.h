//% if groups
// Words of shared memory, by address.
#pragma once

KILN_DEVICE void store_shared_word(u32 to, u32 value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}
KILN_DEVICE u32 load_shared_word(u32 from) {
  u32 value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
  return value;
}
//% if list_maps
/// Brings the line of memory that has `address` to the cache of the SM; waits for nothing.
KILN_DEVICE void prefetch_line(const void* address) {
  asm volatile("prefetch.L1 [%0];" ::"l"(address) : "memory");
}
//% end
//% end
