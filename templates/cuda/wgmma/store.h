//% if !summed
// A warp's sums to D: finished in registers a chunk at a time, then through swizzled buffers of its
// own in shared memory and the copy engine, or coalesced stores, or straight from registers. Warps
// never wait for each other here. Expects epilogue.h, hopper_ptx.h, store_ptx.h.
#pragma once

/// Element (row of left, row of right) of a tile as (row, column) of D.
KILN_DEVICE i64 row_of(i64 left, i64 right) { return kSwap ? right : left; }
KILN_DEVICE i64 column_of(i64 left, i64 right) { return kSwap ? left : right; }

//% if integer
// Sums are integers; what is made of them is kept in the same registers, as the bits of a float.
KILN_DEVICE Real real_of(i32 bits) { return __int_as_float(bits); }
KILN_DEVICE i32 kept(Real x) { return __float_as_int(x); }
KILN_DEVICE Real first_real(i32 sum) { return Real(sum); }
//% else
KILN_DEVICE Real real_of(float x) { return x; }
KILN_DEVICE float kept(Real x) { return x; }
KILN_DEVICE Real first_real(float sum) { return sum; }
//% end

//% if gate
/// D's tile, of half as many columns as B's has lines: what follows sees it alone.
namespace of_d {
constexpr int kSums = kSwap ? ::kSums : ::kSums / 2,
              kSubtiles = kSwap ? ::kSubtiles / 2 : ::kSubtiles;
constexpr int kLeftTile = kSwap ? ::kLeftTile / 2 : ::kLeftTile;
constexpr int kRightTile = kSwap ? ::kRightTile : ::kRightTile / 2;
//% if rolled
//% include cuda/wgmma/roll_tile.h
//% else
//% include cuda/wgmma/store_tile.h
//% end
}  // namespace of_d
//% if rolled
using of_d::store_tile;
//% if ahead
using of_d::Ahead;
using of_d::load_ahead;
//% end
//% end
//% end
//% if rolled && !gate
//% include cuda/wgmma/roll_tile.h
//% end
//% if !gate && !rolled
//% include cuda/wgmma/store_tile.h
//% end

//% if gate && !rolled
/// The sums of both products of a warpgroup's tile become D's elements. (left, right) is D's under
/// sum 0.
KILN_DEVICE void pass_gate(Acc (&d)[of_d::kSubtiles][of_d::kSums],
                           const Acc (&sums)[kSubtiles][kSums], const Output& out, i64 left,
                           i64 right) {
  _Pragma("unroll") for (int s = 0; s < of_d::kSubtiles; ++s)
    _Pragma("unroll") for (int i = 0; i < of_d::kSums; i += 4) {
      _Pragma("unroll") for (int e = 0; e < 4; ++e) {
        //% if zero_a
        Acc sum = sums[s][i + e];
        Acc other = kSwap ? sums[s + of_d::kSubtiles][i + e] : sums[s][i + of_d::kSums + e];
        //% else
        const Acc other = kSwap ? sums[s + of_d::kSubtiles][i + e] : sums[s][i + of_d::kSums + e];
        //% end
        const i64 l = left + s * 64 + (e & 2) * 4, r = right + i / 4 * 8 + (e & 1);
        //% if zero_a
        subtract_zeros(out, sum, other, row_of(l, r), column_of(l, r));
        d[s][i + e] =
            kept(gated(out, first_real(sum), first_real(other), row_of(l, r), column_of(l, r)));
        //% else
        d[s][i + e] = kept(gated(out, first_real(sums[s][i + e]), first_real(other), row_of(l, r),
                                 column_of(l, r)));
        //% end
      }
      compiler_barrier();
    }
}

/// One warpgroup's part of a tile, whose rows of the left operand start at `row_offset`.
KILN_DEVICE void store_gated(const Acc (&sums)[kSubtiles][kSums], const Work& work,
                             const KilnGpuArgs& args, const KilnTensorMap* map_d, u32 buffers,
                             u32 row_offset, int group, int thread) {
  //% if row_groups
  const Output out = output_of_group(args, work.batch, work.first_row, work.rows);
  //% end
  //% if lists
  const Output out = output_of(args_of_product(args, work.batch), 0);
  //% end
  //% if !groups
  const Output out = output_of(args, work.batch);
  //% end
  const u32 first = kSwap ? row_offset / 2 : row_offset;
  const int lane = thread & 31;
  Acc d[of_d::kSubtiles][of_d::kSums];
  pass_gate(d, sums, out, i64(work.left) * of_d::kLeftTile + first + thread / 32 * 16 + lane / 4,
            i64(work.right) * of_d::kRightTile + lane % 4 * 2);
  of_d::store_tile(d, work, args, map_d, buffers, first, group, thread);
}
//% end
//% end
