//% if bring
// Loads of what bring.h brought.
#pragma once

KILN_DEVICE void load_shared(u16& x, u32 from) {
  asm volatile("ld.shared.b16 %0, [%1];" : "=h"(x) : "r"(from) : "memory");
}
KILN_DEVICE void load_shared(u32& x, u32 from) {
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
}
KILN_DEVICE void load_shared(u64& x, u32 from) {
  asm volatile("ld.shared.b64 %0, [%1];" : "=l"(x) : "r"(from) : "memory");
}
//% end
