//% if scale_d && !summed
// Codes of D, and the largest magnitudes of rows, in shared memory, by address.
#pragma once

//% if store == tma && swap
/// The low byte.
KILN_DEVICE void store_shared_code(u32 to, u32 code) {
  asm volatile("st.shared.u8 [%0], %1;" ::"r"(to), "r"(code) : "memory");
}
//% end
//% if store == tma && !swap
/// The two low bytes.
KILN_DEVICE void store_shared_codes(u32 to, u32 codes) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(u16(codes)) : "memory");
}
//% end
//% if scale_d != tensor && swap
KILN_DEVICE void store_largest(u32 to, float largest) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(largest) : "memory");
}
KILN_DEVICE float load_largest(u32 from) {
  float largest;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(largest) : "r"(from) : "memory");
  return largest;
}
//% end
//% if scale_pairs
KILN_DEVICE float load_largest(u32 from) {
  float largest;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(largest) : "r"(from) : "memory");
  return largest;
}
/// To the same place in block `rank` of the cluster; its bytes count at that block's barrier.
KILN_DEVICE void send_largest(u32 to, float largest, u32 barrier, u32 rank) {
  asm volatile(
      "{\n"
      ".reg .b32 place, counter;\n"
      "mapa.shared::cluster.u32 place, %0, %3;\n"
      "mapa.shared::cluster.u32 counter, %2, %3;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [place], %1, [counter];\n"
      "}" ::"r"(to),
      "f"(largest), "r"(barrier), "r"(rank)
      : "memory");
}
//% end
//% end
