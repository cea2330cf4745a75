//% if indexed == added || indexed == weighted
// Adds rows of the product, which is in the workspace, to rows of D. Lists of which rows those are
// lie before the product. Expects abi.h, types.h, epilogue.h, and from the parameters TypeSum, the
// type of D, which rows of the product do not have.
#pragma once

/// Of each row of D the first row of the product that is added to it, of each row of the product
/// the next one; negative: none.
struct RowLists {
  int *first, *next;
};
KILN_DEVICE RowLists row_lists(const KilnGpuArgs& args) {
  const i64 bytes = ceil_div((args.rows_of_d + args.m) * 4, 256) * 256;
  int* const first = reinterpret_cast<int*>(static_cast<u8*>(args.d) - bytes);
  return {first, first + args.rows_of_d};
}

/// How many rows of the product are of a group; asked by whole warps.
KILN_DEVICE i64 rows_in_groups(const KilnGpuArgs& args, int lane) {
  const int* const ends = static_cast<const int*>(args.groups);
  int most = 0;
  for (i64 group = lane; group < args.batch; group += 32) most = max(most, ends[group]);
  for (int apart = 16; apart > 0; apart /= 2)
    most = max(most, __shfl_xor_sync(0xffffffff, most, apart));
  return i64(most) < args.m ? i64(most) : args.m;
}

/// A warp has a range of D's rows. It walks the list of rows from its end, and puts each row of the
/// product before those that it found: the order of a row's sum is that of the product's rows.
extern "C" __global__ void __launch_bounds__(128)
    kiln_list_rows(const __grid_constant__ KilnGpuArgs args) {
  const int lane = int(threadIdx.x) % 32;
  const i64 warp = (i64(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const i64 warps = i64(gridDim.x) * blockDim.x / 32;
  const i64 begin = args.rows_of_d * warp / warps, end = args.rows_of_d * (warp + 1) / warps;
  const RowLists lists = row_lists(args);
  for (i64 row = begin + lane; row < end; row += 32) lists.first[row] = -1;
  __syncwarp();
  const int last = int(args.rows_of_d - 1);
  const int* const index = static_cast<const int*>(args.index_d);
  const i64 rows = rows_in_groups(args, lane);
  constexpr int kLoads = 8;  // on their way at once
  for (i64 at = (ceil_div(rows, 32 * kLoads) - 1) * 32 * kLoads; at >= 0; at -= 32 * kLoads) {
    // What the list may not say becomes D's last row; a negative number names none.
    int to[kLoads];
    _Pragma("unroll") for (int i = 0; i < kLoads; ++i) {
      const i64 from = at + i * 32 + lane;
      to[i] = from < rows ? min(last, index[from]) : -1;
    }
    _Pragma("unroll") for (int i = kLoads - 1; i >= 0; --i) {
      u32 mine = __ballot_sync(0xffffffff, to[i] >= begin && to[i] < end);
      while (mine != 0) {
        const int of_lane = 31 - __clz(int(mine));
        mine ^= 1u << of_lane;
        const int row = __shfl_sync(0xffffffff, to[i], of_lane), from = int(at) + i * 32 + of_lane;
        if (lane != 0) continue;
        lists.next[from] = lists.first[row];
        lists.first[row] = from;
      }
    }
  }
}

/// A block has pieces of rows of D; neighbouring threads have neighbouring columns.
extern "C" __global__ void __launch_bounds__(256)
    kiln_add_rows(const __grid_constant__ KilnGpuArgs args) {
  constexpr int kThreads = 256, kColumns = 4;  // of a thread
  const RowLists lists = row_lists(args);
  const auto* const rows = static_cast<const TypeD*>(args.d);
  const i64 across = ceil_div(args.n, kThreads * kColumns);
  for (i64 piece = blockIdx.x; piece < args.rows_of_d * across; piece += gridDim.x) {
    const i64 row = piece / across, column = piece % across * kThreads * kColumns + threadIdx.x;
    Real sum[kColumns] = {};
    for (int i = lists.first[row]; i >= 0; i = lists.next[i]) {
      const TypeD* const from = rows + i * args.ldd;
      //% if indexed == weighted
      const Real weight = static_cast<const float*>(args.row_weights)[i];
      //% end
      _Pragma("unroll") for (int j = 0; j < kColumns; ++j) {
        if (column + j * kThreads >= args.n) continue;
        //% if indexed == weighted
        sum[j] += product(weight, from[column + j * kThreads]);
        //% else
        sum[j] += from[column + j * kThreads];
        //% end
      }
    }
    _Pragma("unroll") for (int j = 0; j < kColumns; ++j) {
      const i64 at = column + j * kThreads;
      if (at >= args.n) continue;
      if (args.sums_beta != 0) {
        const auto* const c = static_cast<const TypeSum*>(args.sums_c) + row * args.ld_sums_c;
        sum[j] += product(Real(args.sums_beta), to_real(c[at]));
      }
      static_cast<TypeSum*>(args.sums)[row * args.ld_sums + at] = from_real(sum[j], TypeSum{});
    }
  }
}
//% end
