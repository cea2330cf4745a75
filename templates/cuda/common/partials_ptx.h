//% if sharing != tiles && !summed
// Who is the last to store its part of a tile.
#pragma once

/// Adds one; how many came before. Releases what this thread has seen stored, acquires what the
/// others released.
KILN_DEVICE u32 count_arrival(u32* counter) {
  u32 before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before;
}
//% end
