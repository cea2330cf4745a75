//% if sharing != tiles
// Accumulators to and from the workspace.
#pragma once

/// Past L1, which may hold what another block has overwritten since.
KILN_DEVICE void load_pair(Acc (&to)[2], const Acc* from) {
  asm volatile(KILN_LOAD_PAIR : KILN_ACC_OUT(to[0]), KILN_ACC_OUT(to[1]) : "l"(from) : "memory");
}
KILN_DEVICE void store_pair(Acc* to, const Acc* from) {
  asm volatile(KILN_STORE_PAIR ::"l"(to), KILN_ACC_IN(from[0]), KILN_ACC_IN(from[1]) : "memory");
}
//% end
