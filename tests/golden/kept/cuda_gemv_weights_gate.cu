// device:  sm_90a
// problem: bf16_int4 N T 1 14336 4096 align=16 group=128 scale_type=bf16 gate=silu
// config:  cuda_gemv_weights tile_n=32 tile_m=8 warps=8 ahead=2

// ---- parameters ----
using TypeA = Bfloat;                // elements of A
using TypeB = u8;                    // elements of B
using TypeD = Bfloat;                // elements of C and D
using Acc = float;                   // accumulators
using Real = float;                  // what the epilogue computes in
using TypeScale = Bfloat;            // scales of B
constexpr int kCodeBits = 4;         // bits of an element of B
constexpr int kGroupK = 128;         // elements along k that share a scale
constexpr bool kSignedCodes = true;  // codes are two's complement
using Fragment = u32;                // a register of an operand
constexpr int kMmaSums = 4;          // registers of sums of the matrix instruction
constexpr int kMmaA = 4;             // registers of weights
constexpr int kMmaB = 2;             // registers of A
constexpr int kTilesM = 2;           // 16 columns of D each, of a block
constexpr int kTilesN = 1;           // 8 rows of D each
constexpr int kDecodeK = 128;        // k of a chunk, whose scales are fetched together
constexpr int kRead = 16;            // bytes of codes that a lane reads at once
constexpr int kWarps = 8;            // of a block, which share k
constexpr int kAhead = 2;            // chunks on their way to a warp
constexpr int kBlocks = 1;           // that are to fit one SM
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), \
  "r"((b)[0]), "r"((b)[1])

// ---- cuda/weights/scaling.h ----
// Scales and zero points of a lane's columns of op(B): fetched a chunk before they are needed.
// Expects decode.h, convert.h.

constexpr int kLaneColumns = kTilesM * 2;
constexpr int kGroups = kDecodeK / kGroupK;

/// Which column of op(B) is line `line` of a warp's. The first half of its lines is the factor that
/// goes through the gate, the second the other, of the same columns of D, of which `column0` is the
/// warp's first. A column that does not exist is the last one.
KILN_DEVICE int column_of_b(const KilnGpuArgs& args, int column0, int line) {
  constexpr int kHalf = kTilesM * 8;
  const int column = min(column0 + line % kHalf, int(args.n) - 1);
  return line < kHalf ? column : int(args.n) + column;
}

/// As they come from memory: a conversion would wait for it.
struct Fetched {
  TypeScale scale[kLaneColumns][kGroups];
};

/// As they are used.
struct Factors {
  float scale[kLaneColumns][kGroups];
  Offset offset[kLaneColumns][kGroups];
};

struct Scaling {
  const TypeScale* scales;
  u32 first[kLaneColumns];  // group of each column, of all groups
  int groups;               // of a column

  /// `column0`: the warp's first column. Columns that do not exist repeat the last one.
  static __device__ __forceinline__ Scaling at(const KilnGpuArgs& args, i64 batch, int column0,
                                               int lane) {
    Scaling s;
    s.groups = int(args.k) / kGroupK;
    s.scales = static_cast<const TypeScale*>(args.scale_b);
    _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
      const int columns = 2 * int(args.n), column = column_of_b(args, column0, c * 8 + lane / 4);
      s.first[c] = u32(int(batch) * columns + column) * u32(s.groups);
    }
    return s;
  }

  /// Those of chunk `chunk` of all of k. Groups beyond k have scale 0.
  __device__ __forceinline__ void fetch(Fetched& to, int chunk) const {
    _Pragma("unroll") for (int g = 0; g < kGroups; ++g) {
      const int group = chunk * kGroups + g;
      const bool exists = group < groups;
      _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
        const u32 at = first[c] + u32(exists ? group : 0);
        to.scale[c][g] = exists ? scales[at] : TypeScale{};
      }
    }
  }

  __device__ __forceinline__ Factors factors(const Fetched& from, int chunk) const {
    Factors f;
    _Pragma("unroll") for (int g = 0; g < kGroups; ++g)
      _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
        f.scale[c][g] = to_real(from.scale[c][g]);
        f.offset[c][g] = offset_of(0);
      }
    return f;
  }
};

// ---- cuda/gemv/store.h ----
// A sum becomes an element of D. Expects convert.h, epilogue.h.

/// `first` and `second`: the sums of both products, of which the first goes through the gate.
KILN_DEVICE void store_gated(const Output& out, Acc first, Acc second, i64 row, i64 column) {
  Real x = gated(out, Real(first), Real(second), row, column);
  out.d[row * out.ldd + column] = from_real(x, TypeD{});
}

// ---- cuda/gemv_weights/source.h ----
// Codes and elements of A on their way from memory to a lane's registers, in the order in which the
// matrix instruction takes them. Expects scaling.h, pairs.h, read_ptx.h.

constexpr int kWords = kRead / 4;       // of a read of codes
constexpr int kWordSteps = kPairs / 2;  // of the matrix instruction, of a word
constexpr int kWordCodes = 32 / kCodeBits;
constexpr int kLaneCodes = kWords * kWordCodes;      // of a read
constexpr int kReads = kDecodeK / (4 * kLaneCodes);  // of a chunk
constexpr int kTileN = kTilesM * 16, kTileM = kTilesN * 8;
constexpr int kColumns = kTileN / 2;  // of D in a tile, which has both factors of each

/// A lane's codes of a chunk, and the elements of A that they meet.
using Codes = u32[kReads][kLaneColumns][kWords];
using Left = u32[kReads][kTilesN][kWords][kPairs];

struct alignas(kPairs * 4) SomeA {
  u32 x[kPairs];
};

/// Where a lane reads. Columns and rows that do not exist repeat the last ones: nothing of them is
/// stored.
struct Source {
  const unsigned char *codes, *left;  // of the block's first column and row, this lane's first byte
  i64 other;                          // bytes from a column of the first factor to the second's
  u32 column[kTilesM], row[kTilesN];  // bytes from there on: columns are those of the first one
  int k;  // codes from the lane's first one on

  static __device__ __forceinline__ Source at(const KilnGpuArgs& args, i64 batch, i64 row0,
                                              i64 column0, int lane) {
    Source s;
    const int first = lane % 4 * kLaneCodes;
    const i64 step = args.ldb;
    s.other = args.n * args.ldb * kCodeBits / 8;
    s.codes = static_cast<const unsigned char*>(args.b) +
              ((batch * args.stride_b + column0 * step) * kCodeBits + first * kCodeBits) / 8;
    s.left = static_cast<const unsigned char*>(args.a) +
             (batch * args.stride_a + row0 * args.lda + first) * i64(sizeof(TypeA));
    _Pragma("unroll") for (int c = 0; c < kTilesM; ++c)
      s.column[c] = u32(min(i64(c * 8 + lane / 4), args.n - 1 - column0) * step * kCodeBits / 8);
    _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
      s.row[j] = u32(min(i64(j * 8 + lane / 4), args.m - 1 - row0) * args.lda * i64(sizeof(TypeA)));
    s.k = int(args.k) - first;
    return s;
  }

  /// Beyond k there are zeros: of A, so that it does not matter what the codes mean.
  __device__ __forceinline__ void fetch(Codes& to, int chunk) const {
    _Pragma("unroll") for (int r = 0; r < kReads; ++r) {
      const int at = chunk * kDecodeK + r * 4 * kLaneCodes;
      _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
        if (at < k) {
          load_streamed(to[r][c], codes + column[c % kTilesM] + c / kTilesM * other +
                                      i64(at) * kCodeBits / 8);
        } else {
          _Pragma("unroll") for (int w = 0; w < kWords; ++w) to[r][c][w] = 0;
        }
      }
    }
  }
  __device__ __forceinline__ void fetch(Left& to, int chunk) const {
    _Pragma("unroll") for (int r = 0; r < kReads; ++r) {
      const int at = chunk * kDecodeK + r * 4 * kLaneCodes;
      _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
        _Pragma("unroll") for (int w = 0; w < kWords; ++w) {
          SomeA some = {};
          if (at < k)
            some = *reinterpret_cast<const SomeA*>(left + row[j] +
                                                   (i64(at) + w * kWordCodes) * i64(sizeof(TypeA)));
          _Pragma("unroll") for (int i = 0; i < kPairs; ++i) to[r][j][w][i] = some.x[i];
          pair_alike(to[r][j][w]);
        }
    }
  }
};

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
    const __grid_constant__ KilnGpuArgs args
) {
  __shared__ Acc parts[kWarps][kTileM][kTileN + 1];
  const int lane = int(threadIdx.x) % 32;
  // Through a shuffle, so that the compiler knows that it is the same for the whole warp.
  const int warp = __shfl_sync(0xffffffff, int(threadIdx.x) / 32, 0);
  const u32 down = u32(args.m + kTileM - 1) / kTileM,
            across = u32(args.n + kColumns - 1) / kColumns;
  // Rows first: their blocks read the same codes.
  const u32 tile = blockIdx.x / down, batch = tile / across;
  const i64 row0 = i64(blockIdx.x % down) * kTileM, column0 = i64(tile % across) * kColumns;
  const Source source = Source::at(args, batch, row0, column0, lane);
  const Scaling scaling = Scaling::at(args, batch, int(column0), lane);
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  Sums sums = {};
  run(sums, source, scaling, warp, int((args.k + kDecodeK - 1) / kDecodeK));
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
    _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
      _Pragma("unroll") for (int e = 0; e < 4; ++e)
        parts[warp][j * 8 + lane % 4 * 2 + e % 2][i * 16 + e / 2 * 8 + lane / 4] = sums[i][j][e];
  __syncthreads();
  const Output out = output_of(args, batch);
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
}
