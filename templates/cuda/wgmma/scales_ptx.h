//% if block_scales
//% if tma_scales
// Scales in shared memory, by address.
//% else
// Scales: four of memory at once, and those in shared memory, by address.
//% end
#pragma once

//% if !tma_scales
/// `from` is a multiple of 16 bytes.
KILN_DEVICE void read_four_scales(float (&r)[4], const float* from) {
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3])
               : "l"(from)
               : "memory");
}

KILN_DEVICE void store_scale(u32 to, float scale) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(scale) : "memory");
}
//% end
KILN_DEVICE float load_scale(u32 from) {
  float scale;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(scale) : "r"(from) : "memory");
  return scale;
}
//% if !tma_scales
KILN_DEVICE void load_scales(float (&r)[2], u32 from) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(r[0]), "=f"(r[1]) : "r"(from) : "memory");
}
KILN_DEVICE void load_scales(float (&r)[4], u32 from) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3])
               : "r"(from)
               : "memory");
}
//% end
//% end
