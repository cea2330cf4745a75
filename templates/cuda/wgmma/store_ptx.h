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
//% if store == staged && lists
KILN_DEVICE void load_shared_words(u32 (&r)[4], u32 from) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
//% end
//% if store == staged && !lists
KILN_DEVICE u16 load_shared_half(u32 from) {
  u16 x;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(x) : "r"(from) : "memory");
  return x;
}
//% end
//% end
