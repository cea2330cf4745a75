//% if sharing != tiles
// Accumulators to and from the workspace, and a block's own words of shared memory.
#pragma once

KILN_DEVICE void store_four(Acc* to, const Acc* from) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), KILN_ACC_IN(from[0]),
               KILN_ACC_IN(from[1]), KILN_ACC_IN(from[2]), KILN_ACC_IN(from[3])
               : "memory");
}
/// Past L1, which may hold what another block has overwritten since.
KILN_DEVICE void load_four(Acc (&to)[4], const Acc* from) {
  asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];"
               : KILN_ACC_OUT(to[0]), KILN_ACC_OUT(to[1]), KILN_ACC_OUT(to[2]), KILN_ACC_OUT(to[3])
               : "l"(from)
               : "memory");
}
//% if !summed
KILN_DEVICE void store_shared_word(u32 to, u32 value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}
KILN_DEVICE u32 load_shared_word(u32 from) {
  u32 value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
  return value;
}
//% end
//% end
