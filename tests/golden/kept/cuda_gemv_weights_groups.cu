// device:  sm_90a
// problem: bf16_fp4 N T 64 5760 2880 groups=32 grouped=masked expected_rows=2 align=16 group=mx32
// config:  cuda_gemv_weights tile_n=16 tile_m=8 warps=8 ahead=4

// ---- parameters ----
using TypeA = Bfloat;            // elements of A
using TypeB = u8;                // elements of B
using TypeD = Bfloat;            // elements of C and D
using Acc = float;               // accumulators
using Real = float;              // what the epilogue computes in
using TypeScale = E8m0;          // scales of B
constexpr int kCodeBits = 4;     // bits of an element of B
constexpr int kGroupK = 32;      // elements along k that share a scale
using Fragment = u32;            // a register of an operand
constexpr int kMmaSums = 4;      // registers of sums of the matrix instruction
constexpr int kMmaA = 4;         // registers of weights
constexpr int kMmaB = 2;         // registers of A
constexpr int kTilesM = 1;       // 16 columns of D each, of a block
constexpr int kTilesN = 1;       // 8 rows of D each
constexpr int kDecodeK = 32;     // k of a chunk, whose scales are fetched together
constexpr int kRead = 4;         // bytes of codes that a lane reads at once
constexpr int kWarps = 8;        // of a block, which share k
constexpr int kAhead = 4;        // chunks on their way to a warp
constexpr int kBlocks = 2;       // that are to fit one SM
constexpr int kGroupRows = 8;    // rows of A in a tile, of a cluster if any
constexpr int kMostGroups = 64;  // room in the tables of groups
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), \
  "r"((b)[0]), "r"((b)[1])

// ---- cuda/gemv_weights/gemv_weights.cu ----
// Few rows of A times weights of four or eight bits that are k-major, bound by memory: codes go
// from memory to the registers in which they are decoded. A block has 16·kTilesM columns, its warps
// share k in chunks, one after the other in turn, and each has kAhead chunks on their way. The
// weights are the left operand of the matrix instruction; any order of k will do as long as both
// operands agree, so that the bytes that a lane reads serve as they lie. A is read through L1,
// which all warps of an SM share. Expects source.h, mma_ptx.h, grid_ptx.h, cuda/gemv/store.h.

/// Sums of 16 columns and 8 rows each.
using Sums = Acc[kTilesM][kTilesN][4];

/// Adds the products of a chunk.
KILN_DEVICE void multiply(Sums& sums,
                          const Codes& codes, const Left& left, const Factors& factors) {
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
      }
}

/// What the codes' scales, and zero points between codes, make of sums.
KILN_DEVICE void add_scaled(Sums& to, const Sums& sums,
                            const Factors& factors) {
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
    _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
      _Pragma("unroll") for (int e = 0; e < 4; ++e) {
        Acc sum = sums[i][j][e];
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
    scaling.fetch(fetched[s], warp + s * kWarps);
  }
  source.fetch(left, warp);
  _Pragma("unroll 1") for (int first = warp; first < chunks; first += kAhead * kWarps)
    _Pragma("unroll") for (int s = 0; s < kAhead; ++s) {
      const int chunk = first + s * kWarps;
      if (chunk >= chunks) break;
      Left here;
      _Pragma("unroll") for (int i = 0; i < int(sizeof(Left) / sizeof(u32)); ++i)
        (&here[0][0][0][0])[i] = (&left[0][0][0][0])[i];
      source.fetch(left, chunk + kWarps);
      const Factors factors = scaling.factors(fetched[s], chunk);
      Sums parts = {};
      multiply(parts, codes[s], here, factors);
      add_scaled(sums, parts, factors);
      scaling.fetch(fetched[s], chunk + kAhead * kWarps);
      source.fetch(codes[s], chunk + kAhead * kWarps);
    }
}

extern "C" __global__ void __launch_bounds__(kWarps * 32, kBlocks) kiln_gemm(
    const __grid_constant__ KilnGpuArgs all
) {
  __shared__ Acc parts[kWarps][kTileM][kTileN + 1];
  const int lane = int(threadIdx.x) % 32;
  // Through a shuffle, so that the compiler knows that it is the same for the whole warp.
  const int warp = __shfl_sync(0xffffffff, int(threadIdx.x) / 32, 0);
  __shared__ u32 tables[2 * kMostGroups + 1];
  const Groups groups = Groups::at(u32(__cvta_generic_to_shared(tables)), all);
  // The list may be the work of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  const u32 across = u32(all.n + kTileN - 1) / kTileN;
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
  const i64 row0 = i64(place % down) * kTileM, column0 = i64(tile) * kTileN;
  const Source source = Source::at(args, batch, row0, column0, lane);
  const Scaling scaling = Scaling::at(args, batch, int(column0), lane);
  Sums sums = {};
  run(sums, source, scaling, warp, int((args.k + kDecodeK - 1) / kDecodeK));
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
    _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
      _Pragma("unroll") for (int e = 0; e < 4; ++e)
        parts[warp][j * 8 + lane % 4 * 2 + e % 2][i * 16 + e / 2 * 8 + lane / 4] = sums[i][j][e];
  __syncthreads();
  const Output out = output_of(args, batch);
  for (int i = int(threadIdx.x); i < kTileM * kTileN; i += kWarps * 32) {
    const int row = i / kTileN, column = i % kTileN;
    if (row0 + row >= out.rows || column0 + column >= out.columns) continue;
    Acc sum = parts[0][row][column];
    _Pragma("unroll") for (int w = 1; w < kWarps; ++w) sum += parts[w][row][column];
    store_one(out, sum, row0 + row, column0 + column);
  }
}
