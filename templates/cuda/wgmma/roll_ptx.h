//% if rolled
// The sums of one turn. The macros KILN_TURN… hold what only text can give: a branch for each turn.
#pragma once

/// Registers have no numbers at run time, and a compiler that sees all cases chooses between them
/// sum by sum.
KILN_DEVICE void take_sums(Acc (&some)[kHeld], const Acc (&sums)[kSubtiles][kSums], int turn) {
  asm volatile("{\n" KILN_TURN_BRANCHES "done:\n}"
               : KILN_TURN_TAKEN(some)
               : KILN_TURN_SUMS(sums), "r"(turn)
               : "memory");
}
/// Keeps the compiler from making a value anew in each turn.
KILN_DEVICE void keep_in_register(float& x) { asm volatile("" : "+f"(x)); }
//% end
