// device:  sm_90a
// problem: bf16_int4 N T 4096 4096 7168 groups=32 grouped=rows align=16 group=128
// config:  cuda_weights tile_n=128 tile_m=64 block_k=128 warps=4 stages=3 group=8 splits=1

// ---- parameters ----
using TypeA = Bfloat;                // elements of A
using TypeB = u8;                    // elements of B
using TypeD = Bfloat;                // elements of C and D
using Acc = float;                   // accumulators
using Real = float;                  // what the epilogue computes in
using TypeScale = float;             // scales of B
constexpr int kCodeBits = 4;         // bits of an element of B
constexpr int kGroupK = 128;         // elements along k that share a scale
constexpr bool kSignedCodes = true;  // codes are two's complement
using Fragment = u32;                // a register of an operand
constexpr int kTileN = 128;          // columns of D in a block's tile
constexpr int kTileM = 64;           // rows of D in it
constexpr int kBlockK = 128;         // k of one stage
constexpr int kDecodeK = 128;        // k of a chunk, which is decoded together
constexpr int kThreads = 128;        // of a block
constexpr int kBlocks = 2;           // that are to fit one SM
constexpr int kTilesM = 2;           // 16 columns each, of a warp
constexpr int kTilesN = 8;           // 8 rows each, of a warp
constexpr int kAtOnce = 2;           // tiles of 8 rows whose sums wait for a scale
constexpr int kStages = 3;           // of the ring
constexpr int kUnit = 16;            // bytes of one copy to shared memory
constexpr int kBitsA = 1;            // of a byte's place in a line of A that are exchanged
constexpr int kBaseA = 6;            // the first of them
constexpr int kBitsB = 2;            // the same for B, from bit 4 on
constexpr int kShiftB = 1;           // with bits of the line's number from here on
constexpr int kStoreWidth = 8;       // elements of D stored at once
constexpr int kGroup = 8;            // tiles along n in a band of the rasterization
constexpr int kGroupRows = 64;       // rows of A in a tile, of a cluster if any
constexpr int kMostGroups = 64;      // room in the tables of groups
constexpr int kMmaSums = 4;          // registers of sums of the matrix instruction
constexpr int kMmaA = 4;             // registers of weights
constexpr int kMmaB = 2;             // registers of A
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), \
  "r"((b)[0]), "r"((b)[1])

// ---- cuda/weights/weights.cu ----
// A times weights of four or eight bits that are k-major, by the matrix instructions of a warp. The
// weights are the left operand, so that D is computed transposed and few rows of A waste little.
// Both operands pass through a ring of stages in shared memory as they are; codes become numbers in
// registers, in the warp that owns their columns and once. Within a stage the order of k is that in
// which a quad's words of codes lie: 16 bytes of a column, a word a lane, are one or two steps of
// the matrix instruction, and lanes read A's elements alike. The sum of a group is scaled, then
// added. Expects finish.h, combine.h and what stands before them.

constexpr int kElementA = int(sizeof(TypeA));
constexpr int kPitchA = kBlockK * kElementA, kPitchB = kBlockK * kCodeBits / 8;  // bytes of a line
constexpr int kBytesB = kTileN * kPitchB;
constexpr int kStageBytes = kBytesB + kTileM * kPitchA;
using CopierA = Copier<kPitchA, kTileM, kBitsA, kBaseA, 0>;
using CopierB = Copier<kPitchB, kTileN, kBitsB, 4, kShiftB>;

constexpr int kWordSteps = kPairs / 2;       // of the matrix instruction, of a word of each lane
constexpr int kReadSteps = kWordSteps * 2;   // of a read of codes: two words of either half
constexpr int kSteps = kDecodeK / 16;        // of a chunk, whose codes are decoded together
constexpr int kChunks = kBlockK / kDecodeK;  // of a stage
constexpr int kGroupSteps = kGroupK / 16;

/// Where a lane reads in a stage, or in a chunk of one. What is added to a byte's place within 128
/// of a line is exchanged like it.
struct Reader {
  u32 line_a, line_b;
  int byte_a, byte_b;

  /// `column0`: the warp's first column in the tile.
  static __device__ __forceinline__ Reader at(int column0, int lane) {
    Reader r;
    const int row = lane / 4, column = column0 + lane % 16;
    r.line_a = u32(kBytesB + row * kPitchA);
    r.byte_a = exchanged_byte(row, lane % 4 * kPairs * 4, kBitsA, kBaseA, 0);
    r.line_b = u32(column * kPitchB);
    r.byte_b = exchanged_byte(column, lane / 16 * 16, kBitsB, 4, kShiftB);
    return r;
  }
  __device__ __forceinline__ Reader of_chunk(u32 stage, int chunk) const {
    const int a = chunk * kDecodeK * kElementA, b = chunk * kDecodeK * kCodeBits / 8;
    return {stage + line_a + u32(a / 128 * 128), stage + line_b + u32(b / 128 * 128),
            byte_a ^ a % 128, byte_b ^ b % 128};
  }
  /// Words of codes of 16 columns: of the first 8, of the others, then the next word of either.
  __device__ __forceinline__ void codes(u32 (&to)[4], int tile, int read) const {
    const int byte = read * 32;
    ldmatrix_x4(to, line_b + u32(tile * 16 * kPitchB + byte / 128 * 128 + (byte_b ^ byte % 128)));
  }
  /// The elements of A that one word of codes meets.
  __device__ __forceinline__ void left(u32 (&to)[kPairs], int tile, int word) const {
    const int byte = word * kPairs * 16;
    const u32 from = line_a + u32(tile * 8 * kPitchA + byte / 128 * 128 + (byte_a ^ byte % 128));
    load_shared_words(to, from);
    pair_alike(to);
  }
};

using Numbers = u32[kTilesM][kSteps][4];

KILN_DEVICE void decode(Numbers& to, const Reader& reader, const Factors& factors) {
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
    _Pragma("unroll") for (int read = 0; read < kSteps / kReadSteps; ++read) {
      u32 codes[4];
      reader.codes(codes, i, read);
      _Pragma("unroll") for (int s = 0; s < kReadSteps; ++s) {
        const int step = read * kReadSteps + s;
        const int group = step / kGroupSteps;
        _Pragma("unroll") for (int e = 0; e < 4; ++e)
          to[i][step][e] = pair_of(codes[s / kWordSteps * 2 + e % 2], s % kWordSteps * 2 + e / 2,
                                   factors.offset[i * 2 + e % 2][group]);
      }
    }
}

/// Adds the products of a chunk: of kAtOnce tiles of A and a group at a time, so that few sums wait
/// for their scale.
KILN_DEVICE void multiply_chunk(Sums& sums, const Reader& reader, const Factors& factors) {
  Numbers numbers;
  decode(numbers, reader, factors);
  _Pragma("unroll") for (int first = 0; first < kTilesN; first += kAtOnce)
    _Pragma("unroll") for (int group = 0; group < kGroups; ++group) {
      Acc parts[kTilesM][kAtOnce][4] = {};
      _Pragma("unroll") for (int step = group * kGroupSteps; step < (group + 1) * kGroupSteps;
                             step += kWordSteps)
        _Pragma("unroll") for (int j = 0; j < kAtOnce; ++j) {
          u32 left[kPairs];
          reader.left(left, first + j, step / kWordSteps);
          _Pragma("unroll") for (int s = 0; s < kWordSteps; ++s) {
            _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
              mma_sync(parts[i][j], numbers[i][step + s], left + s * 2);
          }
        }
      _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
        _Pragma("unroll") for (int j = 0; j < kAtOnce; ++j)
          _Pragma("unroll") for (int e = 0; e < 4; ++e) {
            sums[i][first + j][e] += factors.scale[i * 2 + e / 2][group] * parts[i][j][e];
          }
    }
}

/// The products of `count` stages, of which the first is `begin`.
KILN_DEVICE void run(Sums& sums, CopierA copy_a, CopierB copy_b, const Reader& reader,
                     const Scaling& scaling, u32 ring, int begin, int count) {
  int copied = 0;
  u32 to = ring;
  const auto copy_next = [&] {
    if (copied < count) {
      copy_b.copy(to);
      copy_a.copy(to + kBytesB);
    }
    ++copied;
    to = to == ring + (kStages - 1) * kStageBytes ? ring : to + kStageBytes;
    // Groups without copies keep the count.
    cp_async_commit();
  };
  _Pragma("unroll") for (int s = 0; s < kStages - 1; ++s) copy_next();
  Fetched fetched;
  int chunk = begin * kChunks;  // of all of k
  scaling.fetch(fetched, chunk);
  u32 stage = ring;
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    cp_async_wait<kStages - 2>();
    // The stage is there, and every warp has read the one before it, whose place is filled next.
    __syncthreads();
    copy_next();
    _Pragma("unroll 1") for (int c = 0; c < kChunks; ++c) {
      const Factors factors = scaling.factors(fetched, chunk);
      scaling.fetch(fetched, ++chunk);
      multiply_chunk(sums, reader.of_chunk(stage, c), factors);
    }
    stage = stage == ring + (kStages - 1) * kStageBytes ? ring : stage + kStageBytes;
  }
}

/// (row0, column0): the warp's first element of D; `room`: its part of shared memory.
KILN_DEVICE void store_sums(const Sums& sums, const Output& out, i64 row0, i64 column0, u32 room,
                            int lane) {
  constexpr int kUnits = kWarpN / kTogether;  // of a row
  _Pragma("unroll") for (int j = 0; j < kTilesN; ++j) {
    put_down(sums, j, room, lane);
    __syncwarp();
    _Pragma("unroll 1") for (int u = lane; u < 8 * kUnits; u += 32) {
      const int line = u / kUnits, first = u % kUnits * kTogether;
      const i64 row = row0 + j * 8 + line, column = column0 + first;
      if (row < out.rows && column < out.columns)
        finish_some(room + u32(line * kRowPitch + first * int(sizeof(Acc))), out, row, column,
                    false);
    }
    __syncwarp();
  }
}

KILN_DEVICE void work_on(const Work& work, const KilnGpuArgs& args, u32 ring) {
  const int thread = int(threadIdx.x), lane = thread % 32;
  // Through a shuffle, so that the compiler knows that it is the same for the whole warp.
  const int warp = __shfl_sync(0xffffffff, thread / 32, 0);
  const i64 row0 = i64(work.right) * kTileM, column0 = i64(work.left) * kTileN;
  const int own = warp * kWarpN;  // the warp's first column in the tile
  Sums sums = {};
  run(sums,
      CopierA::at(static_cast<const TypeA*>(args.a) + work.batch * args.stride_a,
                  args.lda * kElementA, row0, args.m, i64(work.begin) * kPitchA, args.k * kElementA,
                  thread),
      CopierB::at(
          static_cast<const unsigned char*>(args.b) + work.batch * args.stride_b * kCodeBits / 8,
          args.ldb * kCodeBits / 8, column0, args.n, i64(work.begin) * kPitchB,
          (args.k * kCodeBits + 7) / 8, thread),
      Reader::at(own, lane), Scaling::at(args, work.batch, int(column0) + own, lane), ring,
      work.begin, work.count);
  // The ring is free when every warp has read its last stage.
  __syncthreads();
  store_sums(sums, output_of(args, work.batch), row0, column0 + own,
             ring + u32(warp * 8 * kRowPitch), lane);
}

KILN_DEVICE TileScheduler scheduler_of(const KilnGpuArgs& args) {
  const int across = (int(args.n) + kTileN - 1) / kTileN;
  return TileScheduler::start(across, (int(args.m) + kTileM - 1) / kTileM,
                              (int(args.k) + kBlockK - 1) / kBlockK, int(args.batch), 0);
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  __shared__ u32 tables[2 * kMostGroups + 1];
  __shared__ Work work;
  __shared__ bool any;
  const Groups groups = Groups::at(shared_address(tables), args);
  // The list may be the work of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  groups.read(args, int(threadIdx.x), kThreads);
  __syncthreads();
  if (threadIdx.x < 32) groups.count_tiles(scheduler_of(args).lefts, int(threadIdx.x));
  __syncthreads();
  if (threadIdx.x == 0) {
    TileScheduler scheduler = scheduler_of(args);
    scheduler.groups = groups;
    scheduler.tiles = groups.tiles_before(groups.count);
    any = scheduler.take(work);
  }
  __syncthreads();
  if (!any) return;
  work_on(work, args_of_group(args, work.batch, work.first_row, work.rows, args.lda),
          shared_address(shared_bytes));
}
