// Few rows of A times weights of four or eight bits that are k-major, bound by memory: codes go
// from memory to the registers in which they are decoded. A block has 16·kTilesM columns, its warps
// share k in chunks, one after the other in turn, and each has kAhead chunks on their way. The
// weights are the left operand of the matrix instruction; any order of k will do as long as both
// operands agree, so that the bytes that a lane reads serve as they lie. A is read through L1,
// which all warps of an SM share. Expects source.h, mma_ptx.h, grid_ptx.h, cuda/gemv/store.h.

/// Sums of 16 columns and 8 rows each.
using Sums = Acc[kTilesM][kTilesN][4];
//% if zero == float
/// Sums of A's elements, as accumulators are laid out.
using LeftSums = Acc[kTilesN][4];
//% end

/// Adds the products of a chunk.
KILN_DEVICE void multiply(Sums& sums,
                          //% if zero == float
                          LeftSums& left_sums,
                          //% end
                          const Codes& codes, const Left& left, const Factors& factors) {
  //% if zero == float
  const u32 ones[4] = {kOnes, kOnes, kOnes, kOnes};
  //% end
  _Pragma("unroll") for (int r = 0; r < kReads; ++r)
    _Pragma("unroll") for (int w = 0; w < kWords; ++w)
      _Pragma("unroll") for (int s = 0; s < kWordSteps; ++s) {
        _Pragma("unroll") for (int i = 0; i < kTilesM; ++i) {
          u32 numbers[4];
          _Pragma("unroll") for (int e = 0; e < 4; ++e)
            numbers[e] = pair_of(codes[r][i * 2 + e % 2][w], s * 2 + e / 2,
                                 factors.offset[i * 2 + e % 2][0]);
          _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
            mma_sync(sums[i][j], numbers, left[r][j][w] + s * 2);
        }
        //% if zero == float
        _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
          mma_sync(left_sums[j], ones, left[r][j][w] + s * 2);
        //% end
      }
}

/// What the codes' scales, and zero points between codes, make of sums.
KILN_DEVICE void add_scaled(Sums& to, const Sums& sums,
                            //% if zero == float
                            const LeftSums& left_sums,
                            //% end
                            const Factors& factors) {
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
    _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
      _Pragma("unroll") for (int e = 0; e < 4; ++e) {
        Acc sum = sums[i][j][e];
        //% if zero == float
        sum -= factors.rest[i * 2 + e / 2][0] * left_sums[j][e % 2];
        //% end
        to[i][j][e] += factors.scale[i * 2 + e / 2][0] * sum;
      }
}

/// The sums of a warp's chunks of `chunks` in all.
KILN_DEVICE void run(Sums& sums, const Source& source, const Scaling& scaling, int warp,
                     int chunks) {
  Codes codes[kAhead];
  Left left;
  Fetched fetched[kAhead];
  _Pragma("unroll") for (int s = 0; s < kAhead; ++s) {
    source.fetch(codes[s], warp + s * kWarps);
    //% if !whole_column
    scaling.fetch(fetched[s], warp + s * kWarps);
    //% end
  }
  source.fetch(left, warp);
  //% if whole_column
  scaling.fetch(fetched[0], 0);
  const Factors factors = scaling.factors(fetched[0], 0);
  Sums parts = {};
  //% if zero == float
  LeftSums left_sums = {};
  //% end
  //% end
  _Pragma("unroll 1") for (int first = warp; first < chunks; first += kAhead * kWarps)
    _Pragma("unroll") for (int s = 0; s < kAhead; ++s) {
      const int chunk = first + s * kWarps;
      if (chunk >= chunks) break;
      Left here;
      _Pragma("unroll") for (int i = 0; i < int(sizeof(Left) / sizeof(u32)); ++i)
        (&here[0][0][0][0])[i] = (&left[0][0][0][0])[i];
      source.fetch(left, chunk + kWarps);
      //% if whole_column
      //% if zero == float
      multiply(parts, left_sums, codes[s], here, factors);
      //% else
      multiply(parts, codes[s], here, factors);
      //% end
      //% else
      const Factors factors = scaling.factors(fetched[s], chunk);
      Sums parts = {};
      //% if zero == float
      LeftSums left_sums = {};
      multiply(parts, left_sums, codes[s], here, factors);
      add_scaled(sums, parts, left_sums, factors);
      //% else
      multiply(parts, codes[s], here, factors);
      add_scaled(sums, parts, factors);
      //% end
      scaling.fetch(fetched[s], chunk + kAhead * kWarps);
      //% end
      source.fetch(codes[s], chunk + kAhead * kWarps);
    }
  //% if whole_column
  //% if zero == float
  add_scaled(sums, parts, left_sums, factors);
  //% else
  add_scaled(sums, parts, factors);
  //% end
  //% end
}

extern "C" __global__ void __launch_bounds__(kWarps * 32, kBlocks) kiln_gemm(
    //% if groups
    const __grid_constant__ KilnGpuArgs all
    //% else
    const __grid_constant__ KilnGpuArgs args
    //% end
) {
  __shared__ Acc parts[kWarps][kTileM][kTileN + 1];
  const int lane = int(threadIdx.x) % 32;
  // Through a shuffle, so that the compiler knows that it is the same for the whole warp.
  const int warp = __shfl_sync(0xffffffff, int(threadIdx.x) / 32, 0);
  //% if groups
  __shared__ u32 tables[2 * kMostGroups + 1];
  const Groups groups = Groups::at(u32(__cvta_generic_to_shared(tables)), all);
  //% if overlaps
  // The list may be the work of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  //% end
  //% if gate
  const u32 across = u32(all.n + kColumns - 1) / kColumns;
  //% else
  const u32 across = u32(all.n + kTileN - 1) / kTileN;
  //% end
  groups.read(all, int(threadIdx.x), kWarps * 32);
  __syncthreads();
  if (threadIdx.x < 32) groups.count_tiles(int(across), int(threadIdx.x));
  __syncthreads();
  if (int(blockIdx.x) >= groups.tiles_before(groups.count)) return;
  const int batch = groups.holding(int(blockIdx.x));
  const int first_row = groups.first_row(batch), rows = groups.rows(batch);
  const KilnGpuArgs args = args_of_group(all, batch, first_row, rows, all.lda);
  const u32 place = blockIdx.x - u32(groups.tiles_before(batch));
  // Rows first: their blocks read the same codes.
  const u32 down = u32(rows + kTileM - 1) / kTileM, tile = place / down;
  //% if gate
  const i64 row0 = i64(place % down) * kTileM, column0 = i64(tile) * kColumns;
  //% else
  const i64 row0 = i64(place % down) * kTileM, column0 = i64(tile) * kTileN;
  //% end
  //% else
  //% if gate
  const u32 down = u32(args.m + kTileM - 1) / kTileM,
            across = u32(args.n + kColumns - 1) / kColumns;
  //% else
  const u32 down = u32(args.m + kTileM - 1) / kTileM, across = u32(args.n + kTileN - 1) / kTileN;
  //% end
  // Rows first: their blocks read the same codes.
  const u32 tile = blockIdx.x / down, batch = tile / across;
  //% if gate
  const i64 row0 = i64(blockIdx.x % down) * kTileM, column0 = i64(tile % across) * kColumns;
  //% else
  const i64 row0 = i64(blockIdx.x % down) * kTileM, column0 = i64(tile % across) * kTileN;
  //% end
  //% end
  const Source source = Source::at(args, batch, row0, column0, lane);
  const Scaling scaling = Scaling::at(args, batch, int(column0), lane);
  //% if overlaps && !groups
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  //% end
  Sums sums = {};
  run(sums, source, scaling, warp, int((args.k + kDecodeK - 1) / kDecodeK));
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
    _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
      _Pragma("unroll") for (int e = 0; e < 4; ++e)
        parts[warp][j * 8 + lane % 4 * 2 + e % 2][i * 16 + e / 2 * 8 + lane / 4] = sums[i][j][e];
  __syncthreads();
  const Output out = output_of(args, batch);
  //% if gate
  for (int i = int(threadIdx.x); i < kTileM * kColumns; i += kWarps * 32) {
    const int row = i / kColumns, column = i % kColumns;
    if (row0 + row >= out.rows || column0 + column >= out.columns) continue;
    Acc first = parts[0][row][column], second = parts[0][row][column + kColumns];
    _Pragma("unroll") for (int w = 1; w < kWarps; ++w) {
      first += parts[w][row][column];
      second += parts[w][row][column + kColumns];
    }
    store_gated(out, first, second, row0 + row, column0 + column);
  }
  //% else
  for (int i = int(threadIdx.x); i < kTileM * kTileN; i += kWarps * 32) {
    const int row = i / kTileN, column = i % kTileN;
    if (row0 + row >= out.rows || column0 + column >= out.columns) continue;
    Acc sum = parts[0][row][column];
    _Pragma("unroll") for (int w = 1; w < kWarps; ++w) sum += parts[w][row][column];
    store_one(out, sum, row0 + row, column0 + column);
  }
  //% end
}
