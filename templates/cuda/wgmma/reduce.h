//% if summed
// The reduction of split-K as a launch of its own: it works on all units of the device, where the
// last block of a tile would reduce alone, and always in the same order, so that the same call
// gives the same bits. The workspace holds the accumulators of all parts as the threads had them.
// Expects tile.h, partials.h, combine_ptx.h, epilogue.h.
#pragma once

constexpr int kRegion = kSubtiles * kSums * 128;  // accumulators of one warpgroup
constexpr int kAdders = 8;                        // warps of a block, which share the parts
constexpr int kPiecesOfAdder = (kSplits + kAdders - 1) / kAdders;
/// Parts whose accumulators one thread fetches together: a wait for memory takes some 700 cycles.
constexpr int kFetched = kPiecesOfAdder < 16 ? kPiecesOfAdder : 16;

/// Accumulators of warpgroup `region` of block `rank` of the cluster that had this part.
KILN_DEVICE Acc* sums_of(const KilnGpuArgs& args, u32 slot, u32 rank, int region) {
  Acc* all = reinterpret_cast<Acc*>(static_cast<unsigned char*>(args.workspace) + sums_at(args));
  return all + ((i64(slot) * kCluster + rank) * kRegions + region) * kRegion;
}

KILN_DEVICE void keep_part(const Acc (&sums)[kSubtiles][kSums], const Work& work, u32 rank,
                           const KilnGpuArgs& args, int region, int thread) {
  Acc* mine = sums_of(args, slot_of(work, work.part), rank, region) + thread * 4;
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int r = 0; r < kSums; r += 4)
      store_four(mine + (s * kSums + r) * 128, &sums[s][r]);
}

//% if reads_pairs
/// Four sums of a thread, of rows and columns as lanes that multiply have them.
KILN_DEVICE void finish_four(const Output& out, const Acc (&sum)[4],
                             //% if gate
                             const Acc (&other)[4],
                             //% end
                             i64 left, i64 right) {
  Real v[4];
  Extras x[4];
  const auto row = [&](int i) { return kSwap ? right + (i & 1) : left + (i & 2) * 4; };
  const auto column = [&](int i) { return kSwap ? left + (i & 2) * 4 : right + (i & 1); };
  const auto there = [&](int i) { return row(i) < out.rows && column(i) < out.columns; };
  _Pragma("unroll") for (int i = 0; i < 4; ++i) {
    Acc own = sum[i];
    //% if gate
    Acc its = other[i];
    //% if zero_a
    subtract_zeros(out, own, its, row(i), column(i));
    //% end
    v[i] = Real(own);
    Real passed = Real(its);
    make_factors(out, v[i], passed, row(i), column(i));
    //% else
    //% if zero_a
    subtract_zeros(out, own, row(i), column(i));
    //% end
    //% if line_scale_a || line_scale_b || halves
    v[i] = product(scaled(out, Real(own), row(i), column(i)), out.alpha);
    //% else
    v[i] = product(Real(own), out.alpha);
    //% end
    if (out.c && there(i)) v[i] += out.beta * to_real(out.c[row(i) * out.ldc + column(i)]);
    //% end
    x[i] = extras_at(out, row(i), column(i));
    //% if gate
    x[i].other = passed;
    //% end
    show_to_neighbour(out, v[i], row(i), column(i), x[i]);
  }
  //% if swap
  const bool odd = (threadIdx.x & 4) != 0;
  _Pragma("unroll") for (int i = 0; i < 4; ++i)
    take_from_lane(x[i], 4, odd, left + (i & 2) * 4 + 1 < out.columns);
  //% else
  _Pragma("unroll") for (int i = 0; i < 4; i += 2)
    take_from_neighbour(x[i], x[i + 1], right + 1 < out.columns);
  //% end
  _Pragma("unroll") for (int i = 0; i < 4; ++i) {
    if (!there(i)) continue;
    v[i] = finish(out, v[i], row(i), column(i), x[i]);
    //% if outputs
    store_beside(out, row(i), column(i), x[i]);
    //% end
    //% if stores_d
    out.d[row(i) * out.ldd + column(i)] = from_real(v[i], TypeD{});
    //% end
  }
}
//% else
KILN_DEVICE void finish_one(const Output& out, Acc sum,
                            //% if gate
                            Acc other,
                            //% end
                            i64 row, i64 column) {
  if (row >= out.rows || column >= out.columns) return;
  //% if stores_d
  TypeD* d = out.d + row * out.ldd + column;
  //% end
  //% if zero_a && gate
  subtract_zeros(out, sum, other, row, column);
  //% end
  //% if zero_a && !gate
  subtract_zeros(out, sum, row, column);
  //% end
  //% if integer_d
  if (out.whole) {
    *d = finished_whole(out, sum, row, column);
    return;
  }
  //% end
  //% if gate
  Real x = gated(out, Real(sum), Real(other), row, column);
  //% else
  //% if line_scale_a || line_scale_b || halves
  Real x = product(scaled(out, Real(sum), row, column), out.alpha);
  //% else
  Real x = product(Real(sum), out.alpha);
  //% end
  if (out.c) x += out.beta * to_real(out.c[row * out.ldc + column]);
  x = finish(out, x, row, column);
  //% end
  //% if amax
  out.largest = larger_magnitude(out.largest, x);
  //% end
  //% if scale_d
  x = product(x, out.inverse_d);
  //% end
  //% if stores_d
  *d = from_real(x, TypeD{});
  //% end
}
//% end

//% if gate
/// Quads of four sums of D in 64 left rows: a warp's lie behind another's. Where the sums that a
/// gate lets through stand, seen from those that go through it.
constexpr int kDQuads = kSwap ? kSums : kSums / 2;
constexpr int kOtherFactor = kSwap ? kSubtiles / 2 * kSums : kSums / 2;

/// Four sums of each lane of one warp that multiplied, over all parts: `sum` is whole in the first
/// of the warps that share the parts.
KILN_DEVICE void add_parts(Acc (&sum)[4], Acc (&added)[kAdders][32][4], const KilnGpuArgs& args,
                           u32 first_slot, u32 rank, int region, int quads, int lane, int adder) {
  _Pragma("unroll") for (int i = 0; i < 4; ++i) sum[i] = 0;
  for (int first = adder; first < kSplits; first += kAdders * kFetched) {
    Acc some[kFetched][4];
    // Past the end the last part is read again, and not added.
    _Pragma("unroll") for (int p = 0; p < kFetched; ++p)
      load_four(some[p],
                sums_of(args, first_slot + min(first + p * kAdders, kSplits - 1), rank, region) +
                    quads * 128 + lane * 4);
    _Pragma("unroll") for (int p = 0; p < kFetched; ++p)
      _Pragma("unroll") for (int i = 0; i < 4; ++i)
        sum[i] += first + p * kAdders < kSplits ? some[p][i] : Acc(0);
  }
  __syncthreads();  // what was added before was read
  _Pragma("unroll") for (int i = 0; i < 4; ++i) added[adder][lane][i] = sum[i];
  __syncthreads();
  if (adder != 0) return;
  _Pragma("unroll") for (int other = 1; other < kAdders; ++other)
    _Pragma("unroll") for (int i = 0; i < 4; ++i) sum[i] += added[other][lane][i];
}

//% end
/// A block adds four sums of each lane of one warp that multiplied.
extern "C" __global__ void __launch_bounds__(kAdders * 32)
    kiln_sum(const __grid_constant__ KilnGpuArgs args) {
  __shared__ Acc added[kAdders][32][4];
  //% if gate
  constexpr int kBlocks = kRegion / 256;  // of one region: half of its sums go through the gate
  //% else
  constexpr int kBlocks = kRegion / 128;  // of one region
  //% end
  const int lane = int(threadIdx.x) & 31, adder = int(threadIdx.x) / 32;
  const int any = int(blockIdx.x) / kBlocks, quads = int(blockIdx.x) - any * kBlocks;
  const int region = any % kRegions;
  const u32 rank = u32(any / kRegions % kCluster);
  const int tile = any / (kRegions * kCluster);
  const u32 first_slot = u32(tile) * kSplits;
  //% if gate
  const int first_quads = quads / kDQuads * kSums + quads % kDQuads;
  //% end
  wait_for_previous_grid();
  let_next_grid_start();
  //% if gate
  // Those of the other factor are added the same way.
  Acc sum[4], other[4];
  add_parts(sum, added, args, first_slot, rank, region, first_quads, lane, adder);
  add_parts(other, added, args, first_slot, rank, region, first_quads + kOtherFactor, lane, adder);
  if (adder != 0) return;
  //% else
  Acc sum[4] = {};
  for (int first = adder; first < kSplits; first += kAdders * kFetched) {
    Acc some[kFetched][4];
    // Past the end the last part is read again, and not added.
    _Pragma("unroll") for (int p = 0; p < kFetched; ++p)
      load_four(some[p],
                sums_of(args, first_slot + min(first + p * kAdders, kSplits - 1), rank, region) +
                    quads * 128 + lane * 4);
    _Pragma("unroll") for (int p = 0; p < kFetched; ++p)
      _Pragma("unroll") for (int i = 0; i < 4; ++i)
        sum[i] += first + p * kAdders < kSplits ? some[p][i] : Acc(0);
  }
  _Pragma("unroll") for (int i = 0; i < 4; ++i) added[adder][lane][i] = sum[i];
  __syncthreads();
  if (adder != 0) return;
  _Pragma("unroll") for (int other = 1; other < kAdders; ++other)
    _Pragma("unroll") for (int i = 0; i < 4; ++i) sum[i] += added[other][lane][i];
  //% end
  const TileScheduler scheduler = scheduler_of(args, rank);
  Work work;
  scheduler.place(work, tile);
  //% if halves
  Output out = output_of(args, work.batch);
  find_exponents(out, args, work.batch);
  //% else
  const Output out = output_of(args, work.batch);
  //% end
  // Four sums of a thread are two rows of the left operand by two of the right one.
  //% if gate
  const int thread = quads % 4 * 32 + lane, quad = quads / 4 % (kDQuads / 4), s = quads / kDQuads;
  const i64 left = i64(work.left) * (kSwap ? kLeftTile / 2 : kLeftTile) +
                   region * (kSwap ? kWarpgroupRows / 2 : kWarpgroupRows) + s * 64 +
                   thread / 32 * 16 + lane / 4;
  const i64 right =
      i64(work.right) * (kSwap ? kRightTile : kRightTile / 2) + quad * 8 + lane % 4 * 2;
  //% if reads_pairs
  finish_four(out, sum, other, left, right);
  //% else
  _Pragma("unroll") for (int i = 0; i < 4; ++i) {
    const i64 l = left + (i & 2) * 4, r = right + (i & 1);
    finish_one(out, sum[i], other[i], kSwap ? r : l, kSwap ? l : r);
  }
  //% end
  //% else
  const int thread = quads % 4 * 32 + lane, quad = quads / 4 % (kSums / 4), s = quads / kSums;
  const i64 left =
      i64(work.left) * kLeftTile + region * kWarpgroupRows + s * 64 + thread / 32 * 16 + lane / 4;
  const i64 right = i64(work.right) * kRightTile + quad * 8 + lane % 4 * 2;
  //% if reads_pairs
  finish_four(out, sum, left, right);
  //% else
  _Pragma("unroll") for (int i = 0; i < 4; ++i) {
    const i64 l = left + (i & 2) * 4, r = right + (i & 1);
    finish_one(out, sum[i], kSwap ? r : l, kSwap ? l : r);
  }
  //% end
  //% end
  //% if amax
  raise_amax(out.amax, out.largest);
  //% end
}
//% end
