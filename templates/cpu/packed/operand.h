// Where a tile reads: rows of A and columns of B, packed or as the caller left them, by units of
// kGroup elements of k. Expects abi.h, vector.h, panels.h, ahead.h and the parameters.
#pragma once

//% if fetch_a || fetch_b
/// What is read after the current tiles, of A and of B.
struct Next {
  //% if fetch_a
  Ahead a;
  //% end
  //% if fetch_b
  Ahead b;
  //% end
};
//% end

/// The operands of one tile: A's rows and B's columns, packed or where the caller left them.
struct Operand {
  //% if pack_a
  const Unit* a;  // [k / kGroup][kMr]
  //% else
  const TypeA* a;
  i64 lda;
  //% end
  //% if packed_b
  const Unit* b;  // kNv panels
  i64 b_pitch;    // bytes from one to the next
  //% if column_sums
  const Unit* sums;  // of the first panel's columns; null: an earlier block of k had them
  //% end
  //% else
  const TypeB* b;
  i64 ldb;
  //% end
  //% if stacked
  i64 apart;  // from the columns of B of a factor, where they lie, to those of the other
  //% end
  //% if fetch_a || fetch_b
  Next* next;
  //% end
};

//% if !pack_a
/// The unit of A's row i that begins at k; `count` of its elements exist.
KILN_INLINE Unit unit_of_a(const Operand& in, int i, i64 k, i64 count) {
  //% if a_k_major
  const TypeA* from = in.a + i * in.lda + k;
  //% if direct_a
  if (count >= kGroup) return load<Unit>(from);
  //% if dotted
  // One load that ends with the row, where it has as many elements.
  constexpr int kBits = 8 * sizeof(TypeA);
  if (k >= kGroup) return load<Unit>(from - (kGroup - count)) >> ((kGroup - count) * kBits);
  //% end
  //% end
  return gather_unit(from, 1, count);
  //% else
  return gather_unit(in.a + k * in.lda + i, in.lda, count);
  //% end
}
//% end

//% if packed_b && !stacked
/// Rows of units of panels that lie beside one another, one k step of each. Two bases and a pitch
/// reach six panels: a register for each would leave too few for the rows of an unpacked A, and the
/// compiler would compute the addresses anew in each step (measured: half the speed at kNv = 6).
template <int N, bool Ragged>
struct PanelRows {
  const char *first, *fourth;
  const char* last;  // of a ragged tile, which may have a panel less than N
  i64 pitch;

  __attribute__((always_inline)) PanelRows(const Unit* at, i64 bytes_apart, int columns)
      : first(reinterpret_cast<const char*>(at)), pitch(bytes_apart) {
    fourth = first + 3 * pitch;
    last = first + (columns - 1) / kLanes * pitch;
    __asm__("" : "+r"(fourth), "+r"(pitch));
  }
  __attribute__((always_inline)) const char* of(int j) const {
    if (Ragged && j == N - 1) return last;
    return j < 3 ? first + j * pitch : fourth + (j - 3) * pitch;
  }
  __attribute__((always_inline)) void advance() {
    first += sizeof(UnitVec);
    fourth += sizeof(UnitVec);
    last += sizeof(UnitVec);
  }
};
//% end

//% if packed_b && stacked
/// Rows of units of panels, one k step of each: N / 2 of the first factor's that lie beside one
/// another, and as many of the second's. A base for each and a pitch reach six panels.
template <int N>
struct FactorRows {
  const char *first, *second;
  i64 pitch;

  __attribute__((always_inline)) FactorRows(const Unit* at, i64 apart, i64 bytes_apart)
      : first(reinterpret_cast<const char*>(at)),
        second(reinterpret_cast<const char*>(at + apart)),
        pitch(bytes_apart) {
    __asm__("" : "+r"(second), "+r"(pitch));
  }
  __attribute__((always_inline)) const char* of(int j) const {
    return j < N / 2 ? first + j * pitch : second + (j - N / 2) * pitch;
  }
  __attribute__((always_inline)) void advance() {
    first += sizeof(UnitVec);
    second += sizeof(UnitVec);
  }
};

//% end
