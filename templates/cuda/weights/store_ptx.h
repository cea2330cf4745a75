// Sums on their way through shared memory. Expects types.h.
#pragma once

KILN_DEVICE void store_shared_one(u32 to, u32 x) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
}
