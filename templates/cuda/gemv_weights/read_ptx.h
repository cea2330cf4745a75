// Codes from memory, each read once by one SM: they take no room in L1 from A. Expects types.h.
#pragma once

KILN_DEVICE void load_streamed(u32 (&to)[1], const void* from) {
  asm volatile("ld.global.nc.L1::no_allocate.b32 %0, [%1];" : "=r"(to[0]) : "l"(from));
}
KILN_DEVICE void load_streamed(u32 (&to)[2], const void* from) {
  asm volatile("ld.global.nc.L1::no_allocate.v2.b32 {%0, %1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "l"(from));
}
KILN_DEVICE void load_streamed(u32 (&to)[4], const void* from) {
  asm volatile("ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "l"(from));
}
