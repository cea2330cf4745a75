//% if !summed
// A warp's accumulators on their way to D: through its buffers in shared memory, in their order.
#pragma once

/// The compiler moves no access of memory across.
KILN_DEVICE void compiler_barrier() { asm volatile("" ::: "memory"); }
//% if store != direct && wide_d
KILN_DEVICE void store_shared_pair(u32 to, u32 low, u32 high) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(low), "r"(high) : "memory");
}
KILN_DEVICE void store_shared_one(u32 to, u32 x) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
}
//% end
//% if store == staged
KILN_DEVICE u16 load_shared_half(u32 from) {
  u16 x;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(x) : "r"(from) : "memory");
  return x;
}
//% end
//% end
