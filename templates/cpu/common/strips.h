// Strips of B: kNr columns over k, packed, with the sums of their columns where signs were shifted;
// and a whole B packed once by the caller. Expects pack.h, share.h, kNv, kKc, kColumnSums.
#pragma once

constexpr int kNr = kNv * kLanes;
/// Rows of units in a strip. Tiles read them 16 at a time, the last ones being zeros.
KILN_INLINE i64 strip_groups(i64 k) {
  //% if isa == amx
  return round_up(k, 16 * kGroup) / kGroup;
  //% else
  return (k + kGroup - 1) / kGroup;
  //% end
}
/// Units that a packed strip of B takes, a row of column sums included where signs were shifted.
KILN_INLINE i64 strip_units(i64 k) { return (strip_groups(k) + kColumnSums) * kNr; }
//% if isa == amx
KILN_INLINE void pad_strip(Unit* strip, i64 k) {
  for (i64 g = (k + kGroup - 1) / kGroup; g < strip_groups(k); ++g)
    for (int j = 0; j < kNr; j += kLanes) store(strip + g * kNr + j, UnitVec(0));
}
//% end

//% if packed_b
/// Packs columns [0, width) of B, k rows, as one strip.
static void pack_strip(Unit* to, const TypeB* from, i64 ldb, int width, i64 k) {
  //% if b_k_major
  pack_along<kNr, 0>(to, from, ldb, width, k);
  //% else
  pack_across<kNr, 0>(to, from, ldb, width, k);
  //% end
  //% if isa == amx
  pad_strip(to, k);
  //% end
  //% if column_sums
  const i64 groups = strip_groups(k);
  for (int j = 0; j < kNr; j += kLanes) {
    AccVec sums = AccVec(0);
    for (i64 g = 0; g < groups; ++g)
      sums = dot(sums, UnitVec(0x01010101u), load<UnitVec>(to + g * kNr + j));
    store(to + groups * kNr + j, sums);
  }
  //% end
}
//% end

//% if packed_b
KILN_INLINE const TypeB* b_at(const KilnArgs& args, i64 k, i64 column) {
  //% if b_k_major
  return static_cast<const TypeB*>(args.b) + column * args.ldb + k;
  //% else
  return static_cast<const TypeB*>(args.b) + k * args.ldb + column;
  //% end
}
//% end
//% if b_packed
/// Packed B: blocks of kKc along k; in each, strips of kNr columns.
KILN_INLINE i64 strips(const KilnArgs& args) { return (args.n + kNr - 1) / kNr; }
KILN_INLINE i64 packed_units(const KilnArgs& args) {
  return (args.k / kKc * strip_units(kKc) + strip_units(args.k % kKc)) * strips(args) + kLanes;
}
KILN_INLINE i64 strip_offset(const KilnArgs& args, i64 k0, i64 k, i64 column) {
  return k0 / kKc * strip_units(kKc) * strips(args) + strip_units(k) * (column / kNr);
}

extern "C" long long kiln_packed_b_bytes(const KilnArgs* args) {
  return args->batch * packed_units(*args) * i64(sizeof(Unit));
}

extern "C" void kiln_pack_b(const KilnArgs* all, void* packed) {
  KilnArgs args = *all;
  for (i64 batch = 0; batch < args.batch; ++batch) {
    args.b = static_cast<const TypeB*>(all->b) + batch * args.stride_b;
    Unit* to = static_cast<Unit*>(packed) + batch * packed_units(args);
    for (i64 k0 = 0; k0 < args.k || k0 == 0; k0 += kKc) {
      const i64 k = smaller(kKc, args.k - k0);
      for (i64 j = 0; j < args.n; j += kNr)
        pack_strip(to + strip_offset(args, k0, k, j), b_at(args, k0, j), args.ldb,
                   int(smaller(kNr, args.n - j)), k);
    }
  }
}
//% end
