// The tiles of a block of rows and kNr columns over a block of k. Included by dot.cpp in its loops.
#pragma once

for (i64 i = i0; i < i1; i += kMr) {
  AccVec* own = waiting + (i - i0) / kMr * (kMr * kNr);
  const int height = int(smaller(kMr, i1 - i));
  auto any_tile = height == kMr ? tile<kMr, false> : tile<kMr, (kMr > 1)>;
  //% if tail_rows
  // Branches cost 3 to 7 % where the tail is a large part of m.
  if (height == kTailRows) any_tile = tile<kTailRows, false>;
  //% end
  //% if pack_a
  any_tile(a_rows + (i - rows.begin) * own_ld + k0, own_ld, b + j * args.ldb + k0, args.ldb, k, out,
           i, j, height, width, own, pass);
  //% end
  //% if pack_b
  any_tile(a + i * args.lda + k0, args.lda, b_rows + k0, own_ld, k, out, i, j, height, width, own,
           pass);
  //% end
  //% if !pack_a && !pack_b
  any_tile(a + i * args.lda + k0, args.lda, b + j * args.ldb + k0, args.ldb, k, out, i, j, height,
           width, own, pass);
  //% end
}
