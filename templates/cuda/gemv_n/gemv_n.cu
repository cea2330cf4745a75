// A thin operand (at most kThin rows) times a wide one whose lines run across k, at any address,
// read by the aligned 16-byte words that hold its elements. The warps of a block take lines of k in
// turn, so that all lines of a warp begin at the same place within a word; where the warps' sums
// meet, their columns are brought in line. k may be divided among blocks. "Thin" is A, or B when
// kSwap. Expects wide.h, grid_ptx.h, store.h, sums.h or matrix_sums.h and, where k is divided,
// partials_ptx.h, combine_ptx.h.

extern "C" __global__ void __launch_bounds__(kWarps * 32)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  __shared__ Panel panel;
  __shared__ Acc parts[kWarps][kPartSize];
  __shared__ Ends ends;
  const int warp = int(threadIdx.x) / 32;
  const i64 columns = kSwap ? args.m : args.n;
  const int rows = thin_rows(args);
  const u32 tiles = u32(ceil_div(columns, kTileColumns));
  const u32 tile = blockIdx.x % tiles, split = blockIdx.x / tiles % kSplits;
  const u32 batch = blockIdx.x / tiles / kSplits;
  const Thin thin{static_cast<const TypeThin*>(kSwap ? args.b : args.a) +
                      batch * (kSwap ? args.stride_b : args.stride_a),
                  kSwap ? args.ldb : args.lda};
  const auto wide = Wide::of(static_cast<const TypeWide*>(kSwap ? args.a : args.b) +
                                 batch * (kSwap ? args.stride_a : args.stride_b),
                             kSwap ? args.lda : args.ldb, args.k, columns);
  const i64 column0 = i64(tile) * kTileColumns;
  const i64 lines = ceil_div(args.k, kSplits), first = split * lines;
  const i64 last = min(args.k, first + lines);
  //% if overlaps
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  //% end
  Sums sums;
  sums.begin(wide, first, column0);
  sums.fetch(wide, first, last);
  const bool at_ends = Ends::are_of(wide, first, last, columns);
  if (at_ends) ends.fetch(wide, args.k, columns);
  for (i64 k0 = first; k0 < last; k0 += kPanel) {
    const int here = int(min(last - k0, i64(kPanel)));
    lay_out(panel, thin, rows, k0, here);
    __syncthreads();
    for (int line = 0; line < here; line += kTurn) {
      if (at_ends) sums.mend(wide, ends, k0 + line, last);
      sums.multiply(panel, line);
      // Fetched when all before are used: the hardware waits for the youngest load with the oldest.
      sums.fetch(wide, k0 + line + kTurn, last);
    }
    __syncthreads();
  }

  //% if splits
  Acc* partial =
      reinterpret_cast<Acc*>(static_cast<unsigned char*>(args.workspace) + kCounterBytes) +
      i64(batch * tiles + tile) * (kSplits * kThin * kTileColumns);
  //% else
  __shared__ Acc whole[kThin][kTileColumns];
  //% end
  _Pragma("unroll") for (int t = 0; t < kThin; ++t) {
    if (t >= rows) break;
    sums.store_row(parts[warp], t);
    __syncthreads();
    for (int i = int(threadIdx.x); i < kTileColumns; i += kWarps * 32) {
      Acc sum = Acc(0);
      _Pragma("unroll") for (int w = 0; w < kWarps; ++w)
        sum += parts[w][place_of_column(i + wide.offset_of(first + w))];
      //% if splits
      store_past_l1(partial + (i64(split) * kThin + t) * kTileColumns + i, sum);
      //% else
      whole[t][i] = sum;
      //% end
    }
    __syncthreads();
  }
  //% if splits
  // The block that stores its part last adds up all of them, in the order of k.
  __shared__ int is_last;
  if (threadIdx.x == 0) {
    u32* counter = static_cast<u32*>(args.workspace) + batch * tiles + tile;
    const bool all = count_arrival(counter) == u32(kSplits - 1);
    if (all) *counter = 0;
    is_last = all;
  }
  __syncthreads();
  if (!is_last) return;
  //% end
  const Output out = output_of(args, batch);
  _Pragma("unroll 1") for (int i = int(threadIdx.x); i < rows * kTileColumns; i += kWarps * 32) {
    const int t = i / kTileColumns;
    const i64 column = column0 + i % kTileColumns;
    if (column >= columns) continue;
    //% if splits
    Acc part[kSplits];
    _Pragma("unroll") for (int s = 0; s < kSplits; ++s)
      load_past_l1(part[s], partial + i64(s) * (kThin * kTileColumns) + i);
    Acc sum = part[0];
    _Pragma("unroll") for (int s = 1; s < kSplits; ++s) sum += part[s];
    //% else
    const Acc sum = whole[t][i % kTileColumns];
    //% end
    store_one(out, sum, kSwap ? column : t, kSwap ? t : column);
  }
}
