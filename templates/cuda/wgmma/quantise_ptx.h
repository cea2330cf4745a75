//% if scale_d && !summed
// Codes of D, and the largest magnitude that a warp has of a row, in shared memory, by address.
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
//% end
