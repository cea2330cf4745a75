// Arithmetic on two small floats in one register, and on their bits. Expects types.h.
#pragma once

/// (x & mask) ^ bits. Left to the compiler it becomes two instructions, of one constant each.
KILN_DEVICE u32 masked_bits(u32 x, u32 mask, u32 bits) {
  u32 r;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(r) : "r"(x), "r"(mask), "r"(bits));
  return r;
}

//% if codes == e4m3
/// The sign bits of bytes 1 and 3, each as all bits of its half. __byte_perm() has no such mode.
KILN_DEVICE u32 signs_of_halves(u32 x) {
  u32 r;
  asm("prmt.b32 %0, %1, %1, 0xbb99;" : "=r"(r) : "r"(x));
  return r;
}

//% end
/// x · y + z, rounded once.
//% if type_a == bf16
KILN_DEVICE u32 fma_pairs(u32 x, u32 y, u32 z) {
  u32 r;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(z));
  return r;
}
//% else
KILN_DEVICE u32 fma_pairs(u32 x, u32 y, u32 z) {
  u32 r;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(z));
  return r;
}
//% end
