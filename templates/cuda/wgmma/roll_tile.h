// A tile of D, some sums of each thread after the others in a loop: what an expression makes of
// them is long, and there once. Included by store.h. Expects roll_ptx.h.
#pragma once

constexpr int kTurns = kSubtiles * kSums / kHeld;

//% if bring
template <typename Lines>
KILN_DEVICE u32 place_in(u32 part, int left, int right) {
  const int line = Lines::kAlongRight ? left : right;
  const int byte = (Lines::kAlongRight ? right : left) * Lines::kSize;
  return part + u32(byte / Lines::kBox * (Lines::kLines * Lines::kBox)) +
         swizzled_byte(line, byte % Lines::kBox / 16, Lines::kBox) + u32(byte % 16);
}
/// What came through the ring for two sums, of neighbouring right rows.
KILN_DEVICE void words_of_part(Words& w, u32 part, int left, int right) {
  //% include expression/words_of_part
}
/// What came through the ring for a turn; `left`, `right`: of sum 0 in the part.
KILN_DEVICE void take_words(Words (&words)[kHeld / 2], u32 part, int left, int right) {
  _Pragma("unroll") for (int e = 0; e < kHeld; e += 2)
    words_of_part(words[e / 2], part, left + (e & 2) * 4, right + e / 4 * 8);
}
//% end
/// What one turn sees.
namespace of_turn {
constexpr int kSums = kHeld;
//% include cuda/wgmma/store_tile.h
}  // namespace of_turn

//% if store != direct

/// A warp's sums of a turn, 16 left rows by 2 * kHeld right rows of D, into its buffer: `word(i)`
/// is what of sums i and i + 1.
template <typename F>
KILN_DEVICE void fill_with_pairs(u32 buffer, int lane, F&& word) {
  constexpr int kPitch = (kSwap ? 16 : kHeld * 2) * 2;
  _Pragma("unroll") for (int g = 0; g < kHeld / 4; g += kHeld == 4 ? 1 : 2) {
    const int i = g * 4;
    //% if swap
    const int row = g * 8 + (lane & 7) + (kHeld == 4 ? 0 : (lane >> 4) << 3);
    const u32 to = buffer + swizzled_byte(row, (lane >> 3) & 1, kPitch);
    if constexpr (kHeld == 4)
      stmatrix_x2_trans(to, word(i), word(i + 2));
    else
      stmatrix_x4_trans(to, word(i), word(i + 2), word(i + 4), word(i + 6));
    //% else
    const int row = lane & 15;
    if constexpr (kHeld == 4)
      stmatrix_x2(buffer + swizzled_byte(row, g, kPitch), word(i), word(i + 2));
    else
      stmatrix_x4(buffer + swizzled_byte(row, g + (lane >> 4), kPitch), word(i), word(i + 2),
                  word(i + 4), word(i + 6));
    //% end
  }
}
//% if wide_d
/// The same of elements of 4 bytes: `word(i)` is that of sum i.
template <typename F>
KILN_DEVICE void fill_with_words(u32 buffer, int lane, F&& word) {
  constexpr int kPitch = (kSwap ? 16 : kHeld * 2) * 4;
  _Pragma("unroll") for (int i = 0; i < kHeld; i += 2) {
    const int left = lane / 4 + (i & 2) * 4, right = i / 4 * 8 + lane % 4 * 2;
    //% if swap
    store_shared_one(buffer + swizzled_byte(right, left / 4, kPitch) + left % 4 * 4, word(i));
    store_shared_one(buffer + swizzled_byte(right + 1, left / 4, kPitch) + left % 4 * 4,
                     word(i + 1));
    //% else
    store_shared_pair(buffer + swizzled_byte(left, right / 4, kPitch) + right % 4 * 4, word(i),
                      word(i + 1));
    //% end
  }
}
//% end
//% end

/// A warp's part of a tile: its first element, and whether all of it is in D, in words of memory.
struct WarpTile {
  i64 left0, right0;
  bool inside, in_pairs;
};
KILN_DEVICE WarpTile warp_tile(const Output& out, const Work& work, u32 row_offset, int thread) {
  //% if gate && swap
  row_offset /= 2;  // of B's columns D has half
  //% end
  WarpTile at;
  at.left0 = i64(work.left) * kLeftTile + row_offset + thread / 32 * 16;
  at.right0 = i64(work.right) * kRightTile;
  at.inside = at.left0 + (kSubtiles * 64 - 48) <= (kSwap ? out.columns : out.rows) &&
              at.right0 + kRightTile <= (kSwap ? out.rows : out.columns);
  at.in_pairs = at.inside && pairs_fit(out);
  return at;
}
KILN_DEVICE void load_turn(Words (&words)[kHeld / 2], const Output& out, const WarpTile& at,
                           int turn, int lane) {
  of_turn::load_words(words, out, at.left0 + turn / (kSums / kHeld) * 64 + lane / 4,
                      at.right0 + turn % (kSums / kHeld) * (kHeld * 2) + lane % 4 * 2, 0,
                      at.in_pairs);
}
//% if ahead
/// What the expression reads of matrices for all of a tile, loaded before its sums are there.
struct Ahead {
  Words words[kTurns][kHeld / 2];
};
KILN_DEVICE void load_ahead(Ahead& all, const KilnGpuArgs& args, const Work& work, u32 row_offset,
                            int thread) {
  //% if row_groups
  const Output out = output_of_group(args, work.batch, work.first_row, work.rows);
  //% end
  //% if k_groups
  const Output out = output_of_group(args, work.batch);
  //% end
  //% if lists
  const Output out = output_of(args_of_product(args, work.batch), 0);
  //% end
  //% if !groups
  const Output out = output_of(args, work.batch);
  //% end
  const WarpTile at = warp_tile(out, work, row_offset, thread);
  _Pragma("unroll") for (int turn = 0; turn < kTurns; ++turn)
    load_turn(all.words[turn], out, at, turn, thread & 31);
}
//% end

/// One warpgroup's part of a tile.
KILN_DEVICE void store_tile(
    //% if gate
    const Acc (&sums)[::kSubtiles][::kSums],
    //% else
    const Acc (&sums)[kSubtiles][kSums],
    //% end
    const Work& work, const KilnGpuArgs& args, const KilnTensorMap* map_d, u32 buffers,
    //% if ahead
    const Ahead& loaded,
    //% end
    //% if bring
    const Shared& shared, PartTurn& part_turn,
    //% end
    u32 row_offset, int group, int thread) {
  //% if row_groups
  Output out = output_of_group(args, work.batch, work.first_row, work.rows);
  //% end
  //% if k_groups
  Output out = output_of_group(args, work.batch);
  //% end
  //% if lists
  Output out = output_of(args_of_product(args, work.batch), 0);
  //% end
  //% if !groups
  Output out = output_of(args, work.batch);
  //% end
  //% if row_groups && store == tma
  //% if masked
  const int first_row = work.batch * int(args.stride_d / args.ldd);
  //% else
  const int first_row = work.first_row;
  //% end
  //% end
  //% if halves
  find_exponents(out, args, work.batch);
  //% end
  keep_in_register(out.alpha);
  const int warp = thread / 32, lane = thread & 31;
  const WarpTile at = warp_tile(out, work, row_offset, thread);
  //% if integer_d
  const bool exact = out.whole;
  //% else
  const bool exact = false;
  //% end
  //% if store != direct
  const u32 mine = buffers + u32(group * 4 + warp) * kStoreBuffers * kBufferBytes;
  //% end
  //% if ahead
  constexpr int kUnrolled = kTurns;
  //% else
  constexpr int kUnrolled = 1;
  //% if bring
  Parts parts{shared, part_turn, group, brings(out), 0};
  //% end
  // What the next turn needs of matrices is on its way while this one computes.
  Words next[kHeld / 2];
  load_turn(next, out, at, 0, lane);
  //% end
  _Pragma("unroll kUnrolled") for (int turn = 0; turn < kTurns; ++turn) {
    const i64 left = at.left0 + turn / (kSums / kHeld) * 64;
    const i64 right = at.right0 + turn % (kSums / kHeld) * (kHeld * 2);
    Acc some[kHeld];
    //% if gate
    Acc others[kHeld];
    //% end
    //% if ahead
    _Pragma("unroll") for (int e = 0; e < kHeld; ++e)
      some[e] = sums[turn / (kSums / kHeld)][turn % (kSums / kHeld) * kHeld + e];
    //% if gate && swap
    _Pragma("unroll") for (int e = 0; e < kHeld; ++e)
      others[e] = sums[turn / (kSums / kHeld) + kSubtiles][turn % (kSums / kHeld) * kHeld + e];
    //% end
    //% if gate && !swap
    _Pragma("unroll") for (int e = 0; e < kHeld; ++e)
      others[e] = sums[turn / (kSums / kHeld)][kSums + turn % (kSums / kHeld) * kHeld + e];
    //% end
    const Words(&words)[kHeld / 2] = loaded.words[turn];
    //% else
    //% if gate
    const int first = turn / (kSums / kHeld) * (::kSums / kHeld) + turn % (kSums / kHeld);
    take_sums(some, sums, first);
    take_sums(others, sums, first + (kSwap ? kTurns : kSums / kHeld));
    //% else
    take_sums(some, sums, turn);
    //% end
    Words words[kHeld / 2];
    _Pragma("unroll") for (int e = 0; e < kHeld / 2; ++e) words[e] = next[e];
    if (turn + 1 < kTurns) load_turn(next, out, at, turn + 1, lane);
    //% if bring
    parts.before(turn);
    if (parts.there)
      take_words(words, parts.part, warp * 16 + lane / 4,
                 turn % kTurnsOfPart * (kHeld * 2) + lane % 4 * 2);
    else
      of_turn::load_under_turn(words, out, left + lane / 4, right + lane % 4 * 2);
    parts.behind(turn, lane);
    //% end
    //% end
    //% if gate
    of_turn::finish_sums(some, out, left + lane / 4, right + lane % 4 * 2, words, at.inside,
                         at.in_pairs, others, 0);
    //% else
    of_turn::finish_sums(some, out, left + lane / 4, right + lane % 4 * 2, words, at.inside,
                         at.in_pairs, 0);
    //% end
    //% if store == direct && stores_d
    of_turn::store_direct(some, out, left + lane / 4, right + lane % 4 * 2, exact);
    //% end
    //% if store != direct
    const u32 here = mine + u32(turn % kStoreBuffers) * kBufferBytes;
    //% if store == tma
    // An odd number of turns leaves the first buffer to the last store of the tile before.
    if (lane == 0) {
      if (turn == 0)
        tma_store_wait_read<0>();
      else
        tma_store_wait_read<kStoreBuffers - 1>();
    }
    __syncwarp();
    //% end
    //% if wide_d
    fill_with_words(here, lane,
                    [&](int i) { return of_turn::bits_of(of_turn::stored(some[i], exact)); });
    //% else
    fill_with_pairs(here, lane, [&](int i) {
      return pack_two(real_of(some[i]), real_of(some[i + 1]), TypeD{});
    });
    //% end
    //% if store == tma
    fence_async_shared();
    __syncwarp();
    //% if row_groups
    if (lane == 0) {
      of_turn::store_rows(map_d, here, out, row_of(left, right), column_of(left, right), first_row);
      tma_store_commit();
    }
    //% else
    if (lane == 0) {
      tma_store_3d(map_d, here, int(column_of(left, right)), int(row_of(left, right)), work.batch);
      tma_store_commit();
    }
    //% end
    //% end
    //% if store == staged
    __syncwarp();
    of_turn::drain_buffer(here, out, row_of(left, right), column_of(left, right), lane);
    __syncwarp();
    //% end
    //% end
  }
  //% if amax
  raise_amax(out.amax, out.largest);
  //% end
}
