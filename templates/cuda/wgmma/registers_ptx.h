//% if left_registers
// Words of the left operand on their way to the instruction.
#pragma once

KILN_DEVICE void load_shared_one(u32& r, u32 from) {
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(r) : "r"(from) : "memory");
}
/// Keeps the compiler from working on a word behind the instruction that takes it.
KILN_DEVICE void pin_word(u32& x) { asm volatile("" : "+r"(x)::"memory"); }
//% end
