// Tile kernel: kMt × kNt tile registers of accumulators. The left operand's rows are read where
// they lie, or copied, k padded, where they cannot be; the right operand is packed in panels, 16
// rows of which are one tile.
// Expects abi.h, share.h, tile.h, copies.h, memory.h and, with `mc`, blocks.h.

//% if overlap
/// Rows of the left operand that the caches are asked for while others are multiplied.
struct Ahead {
  const char* at;
  i64 pitch, bytes, rows, each;  // `each` rows at a time
};
KILN_INLINE void fetch(Ahead& ahead) {
  for (i64 i = smaller(ahead.each, ahead.rows); i > 0; --i, --ahead.rows, ahead.at += ahead.pitch) {
    for (i64 byte = 0; byte < ahead.bytes; byte += 64) __builtin_prefetch(ahead.at + byte, 0, 2);
  }
}
/// Those of the strip at row i, over `k` from k0 on, in `times` parts.
KILN_INLINE Ahead ahead_of(const KilnArgs& args, i64 i, i64 k0, i64 height, i64 k, i64 ld,
                           i64 times) {
  if (height <= 0) return {};
  //% if left_k_major
  const i64 rows = height, along = k;
  //% else
  const i64 rows = k, along = height;
  //% end
  return {reinterpret_cast<const char*>(left_at(args, i, k0)), ld * i64(sizeof(Left)),
          along * i64(sizeof(Left)), rows, (rows + times - 1) / times};
}

//% end
//% if !blocked
static void multiply(const KilnArgs& args, const Memory& memory, const Output& out, Range rows,
                     Range columns, Range ks) {
  if (rows.begin == rows.end || columns.begin == columns.end) return;
  //% if swap
  const Range lefts = columns, rights = rows;
  const i64 left_ld = args.ldb;
  //% else
  const Range lefts = rows, rights = columns;
  const i64 left_ld = args.lda;
  //% end
  const i64 nc = args.division.nc, kc = args.division.kc;
  //% if overlap
  Overlap overlap;
  //% end
  for (i64 j0 = rights.begin; j0 < rights.end; j0 += nc) {
    const i64 j1 = smaller(j0 + nc, rights.end);
    for (i64 k0 = ks.begin; k0 < ks.end || k0 == ks.begin; k0 += kc) {
      const i64 k = smaller(kc, ks.end - k0);
      //% if split_k
      const Pass pass{k0 == ks.begin, false};  // reduce() finishes
      //% else
      const Pass pass{k0 == ks.begin, k0 + kc >= ks.end};
      //% end
      //% if !b_packed
      pack_right(memory.right, args, k0, j0, j1 - j0, k);
      //% end
      for (i64 i = lefts.begin; i < lefts.end; i += kHeight) {
        const int height = int(smaller(kHeight, lefts.end - i));
        LeftStrip left;
        //% if left_k_major && !copy_left && !thirds
        left = {left_at(args, i, k0), left_ld * i64(sizeof(Left))};
        if (height < kHeight || k % kStep != 0) {
          copy_left(memory.left, left_at(args, i, k0), left_ld, height, k);
          left = {memory.left, round_up(k, kStep) * i64(sizeof(Left))};
        }
        //% else
        copy_left(memory.left, left_at(args, i, k0), left_ld, height, k);
        //% if thirds
        left = {memory.left, kTileBytes};
        //% else
        left = {memory.left, round_up(k, kStep) * i64(sizeof(Left))};
        //% end
        //% end
        //% if overlap
        Ahead ahead = ahead_of(args, i + kHeight, k0, smaller(kHeight, lefts.end - i - kHeight), k,
                               left_ld, (j1 - j0 + kNr - 1) / kNr);
        //% end
        for (i64 j = j0; j < j1; j += kNr) {
          //% if overlap
          fetch(ahead);
          //% end
          //% if b_packed
          const RightPanels right{
              static_cast<const Unit*>(args.b) + panels_units(j, args.k) + k0 / kGroup * kLanes,
              panel_units(args.k)};
          //% else
          //% if thirds
          const RightPanels right{memory.right + kParts * panels_units(j - j0, k),
                                  kParts * panel_units(k)};
          //% else
          const RightPanels right{memory.right + panels_units(j - j0, k), panel_units(k)};
          //% end
          //% end
          //% if swap && overlap
          tile(left, right, k, overlap, out, j, i, height, int(smaller(kNr, j1 - j)), pass);
          //% end
          //% if swap && !overlap
          tile(left, right, k, out, j, i, height, int(smaller(kNr, j1 - j)), pass);
          //% end
          //% if !swap && overlap
          tile(left, right, k, overlap, out, i, j, height, int(smaller(kNr, j1 - j)), pass);
          //% end
          //% if !swap && !overlap
          tile(left, right, k, out, i, j, height, int(smaller(kNr, j1 - j)), pass);
          //% end
        }
      }
    }
  }
  //% if overlap
  finish_last(out, overlap);
  //% end
}
//% end

extern "C" long long kiln_workspace_bytes(const KilnArgs* args, int threads) {
  return bytes_of_thread(*args) * threads;
}

extern "C" void kiln_gemm(const KilnArgs* all, int thread, int threads) {
  KilnArgs args = *all;
  const Memory memory = thread_memory(args, thread);
  const Work work = work_of(args, thread, threads);
  TileSession tiles;
  for (i64 batch = work.batches.begin; batch < work.batches.end; ++batch) {
    args.a = static_cast<const TypeA*>(all->a) + batch * args.stride_a;
    //% if b_packed
    args.b = static_cast<const Unit*>(all->b) + batch * panels_units(args.n, args.k);
    //% else
    args.b = static_cast<const TypeB*>(all->b) + batch * args.stride_b;
    //% end
    Output out = output_of(args, batch);
    out.partial = {memory.partial, args.n, 0, 0};
    //% if stream_d
    out.lines = {memory.lines, pitch_of_lines(args), 0, 0, 0, 0};
    //% end
    multiply(args, memory, out, work.rows, work.columns, work.ks);
    //% if split_k
    wait_for_all(args.barrier, threads);
    reduce(args, out, thread_memory(args, 0).partial, bytes_of_thread(args) / i64(sizeof(Acc)),
           thread, threads);
    wait_for_all(args.barrier, threads);
    //% end
  }
  //% if stream_d || stream_rows
  __builtin_ia32_sfence();  // streamed stores come before whatever the caller does next
  //% end
}
