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
//% if gather
using CopierA = Copier<kPitchA, kTileM, kBitsA, kBaseA, 0, false, true>;
//% else
using CopierA = Copier<kPitchA, kTileM, kBitsA, kBaseA, 0>;
//% end
//% if gate
using CopierB = Copier<kPitchB, kTileN, kBitsB, 4, kShiftB, true>;
constexpr int kColumns = kTileN / 2;  // of D in a tile
//% else
using CopierB = Copier<kPitchB, kTileN, kBitsB, 4, kShiftB>;
//% end

constexpr int kWordSteps = kPairs / 2;       // of the matrix instruction, of a word of each lane
constexpr int kReadSteps = kWordSteps * 2;   // of a read of codes: two words of either half
constexpr int kSteps = kDecodeK / 16;        // of a chunk, whose codes are decoded together
constexpr int kChunks = kBlockK / kDecodeK;  // of a stage
//% if !whole_column
constexpr int kGroupSteps = kGroupK / 16;
//% end

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
    //% if code_bits == 4
    load_shared_words(to, from);
    //% else
    load_shared_two(to, from);
    //% end
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
        //% if whole_column
        const int group = 0;
        //% else
        const int group = step / kGroupSteps;
        //% end
        _Pragma("unroll") for (int e = 0; e < 4; ++e)
          to[i][step][e] = pair_of(codes[s / kWordSteps * 2 + e % 2], s % kWordSteps * 2 + e / 2,
                                   factors.offset[i * 2 + e % 2][group]);
      }
    }
}

//% if zero == float
/// Sums of A's elements, as accumulators are laid out: of the columns of A's tiles.
using LeftSums = Acc[kTilesN][4];
KILN_DEVICE void add_left(Acc (&sums)[4], const u32* left) {
  const u32 ones[4] = {kOnes, kOnes, kOnes, kOnes};
  mma_sync(sums, ones, left);
}
//% end

//% if whole_column
/// Adds the products of a chunk.
KILN_DEVICE void multiply_chunk(Sums& sums,
                                //% if zero == float
                                LeftSums& left_sums,
                                //% end
                                const Reader& reader, const Factors& factors) {
  Numbers numbers;
  decode(numbers, reader, factors);
  _Pragma("unroll") for (int step = 0; step < kSteps; step += kWordSteps)
    _Pragma("unroll") for (int j = 0; j < kTilesN; ++j) {
      u32 left[kPairs];
      reader.left(left, j, step / kWordSteps);
      _Pragma("unroll") for (int s = 0; s < kWordSteps; ++s) {
        //% if zero == float
        add_left(left_sums[j], left + s * 2);
        //% end
        _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
          mma_sync(sums[i][j], numbers[i][step + s], left + s * 2);
      }
    }
}

/// What all of k has in common.
KILN_DEVICE void scale_sums(Sums& sums,
                            //% if zero == float
                            const LeftSums& left_sums,
                            //% end
                            const Factors& factors) {
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
    _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
      _Pragma("unroll") for (int e = 0; e < 4; ++e) {
        //% if zero == float
        sums[i][j][e] -= factors.rest[i * 2 + e / 2][0] * left_sums[j][e % 2];
        //% end
        sums[i][j][e] *= factors.scale[i * 2 + e / 2][0];
      }
}
//% else
/// Adds the products of a chunk: of kAtOnce tiles of A and a group at a time, so that few sums wait
/// for their scale.
KILN_DEVICE void multiply_chunk(Sums& sums, const Reader& reader, const Factors& factors) {
  Numbers numbers;
  decode(numbers, reader, factors);
  _Pragma("unroll") for (int first = 0; first < kTilesN; first += kAtOnce)
    _Pragma("unroll") for (int group = 0; group < kGroups; ++group) {
      Acc parts[kTilesM][kAtOnce][4] = {};
      //% if zero == float
      Acc left_sums[kAtOnce][4] = {};
      //% end
      _Pragma("unroll") for (int step = group * kGroupSteps; step < (group + 1) * kGroupSteps;
                             step += kWordSteps)
        _Pragma("unroll") for (int j = 0; j < kAtOnce; ++j) {
          u32 left[kPairs];
          reader.left(left, first + j, step / kWordSteps);
          _Pragma("unroll") for (int s = 0; s < kWordSteps; ++s) {
            //% if zero == float
            add_left(left_sums[j], left + s * 2);
            //% end
            _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
              mma_sync(parts[i][j], numbers[i][step + s], left + s * 2);
          }
        }
      _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
        _Pragma("unroll") for (int j = 0; j < kAtOnce; ++j)
          _Pragma("unroll") for (int e = 0; e < 4; ++e) {
            //% if zero == float
            parts[i][j][e] -= factors.rest[i * 2 + e / 2][group] * left_sums[j][e % 2];
            //% end
            sums[i][first + j][e] += factors.scale[i * 2 + e / 2][group] * parts[i][j][e];
          }
    }
}
//% end

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
    //% if async
    // Groups without copies keep the count.
    cp_async_commit();
    //% end
  };
  _Pragma("unroll") for (int s = 0; s < kStages - 1; ++s) copy_next();
  Fetched fetched;
  //% if whole_column
  scaling.fetch(fetched, 0);
  const Factors factors = scaling.factors(fetched, 0);
  //% if zero == float
  LeftSums left_sums = {};
  //% end
  //% else
  int chunk = begin * kChunks;  // of all of k
  scaling.fetch(fetched, chunk);
  //% end
  u32 stage = ring;
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    //% if async
    cp_async_wait<kStages - 2>();
    //% end
    // The stage is there, and every warp has read the one before it, whose place is filled next.
    __syncthreads();
    copy_next();
    _Pragma("unroll 1") for (int c = 0; c < kChunks; ++c) {
      //% if whole_column
      //% if zero == float
      multiply_chunk(sums, left_sums, reader.of_chunk(stage, c), factors);
      //% else
      multiply_chunk(sums, reader.of_chunk(stage, c), factors);
      //% end
      //% else
      const Factors factors = scaling.factors(fetched, chunk);
      scaling.fetch(fetched, ++chunk);
      multiply_chunk(sums, reader.of_chunk(stage, c), factors);
      //% end
    }
    stage = stage == ring + (kStages - 1) * kStageBytes ? ring : stage + kStageBytes;
  }
  //% if whole_column
  //% if zero == float
  scale_sums(sums, left_sums, factors);
  //% else
  scale_sums(sums, factors);
  //% end
  //% end
}

/// (row0, column0): the warp's first element of D; `room`: its part of shared memory.
KILN_DEVICE void store_sums(const Sums& sums, const Output& out, i64 row0, i64 column0, u32 room,
                            int lane) {
  //% if gate
  constexpr int kUnits = kWarpN / 2 / kTogether;  // of a row of D
  //% else
  constexpr int kUnits = kWarpN / kTogether;  // of a row
  //% end
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
  //% if amax
  raise_amax(out.amax, out.largest);
  //% end
}

KILN_DEVICE void work_on(const Work& work, const KilnGpuArgs& args, u32 ring) {
  const int thread = int(threadIdx.x), lane = thread % 32;
  // Through a shuffle, so that the compiler knows that it is the same for the whole warp.
  const int warp = __shfl_sync(0xffffffff, thread / 32, 0);
  //% if gate
  const i64 row0 = i64(work.right) * kTileM, column0 = i64(work.left) * kColumns;
  const int own_d = warp * kWarpN / 2;  // the warp's first column of D in the tile
  //% else
  const i64 row0 = i64(work.right) * kTileM, column0 = i64(work.left) * kTileN;
  //% end
  const int own = warp * kWarpN;  // the warp's first column in the tile
  Sums sums = {};
  //% if gather
  CopierA copy_a = CopierA::at(args.a, args.lda * kElementA, row0, args.m,
                               i64(work.begin) * kPitchA, args.k * kElementA, thread);
  copy_a.gather(args, args.lda * kElementA, row0, i64(work.begin) * kPitchA);
  //% end
  run(sums,
      //% if gather
      copy_a,
      //% else
      CopierA::at(static_cast<const TypeA*>(args.a) + work.batch * args.stride_a,
                  args.lda * kElementA, row0, args.m, i64(work.begin) * kPitchA, args.k * kElementA,
                  thread),
      //% end
      CopierB::at(
          static_cast<const unsigned char*>(args.b) + work.batch * args.stride_b * kCodeBits / 8,
          args.ldb * kCodeBits / 8, column0, args.n, i64(work.begin) * kPitchB,
          (args.k * kCodeBits + 7) / 8, thread),
      //% if gate
      Reader::at(own, lane), Scaling::at(args, work.batch, int(column0) + own_d, lane), ring,
      //% else
      Reader::at(own, lane), Scaling::at(args, work.batch, int(column0) + own, lane), ring,
      //% end
      work.begin, work.count);
  // The ring is free when every warp has read its last stage.
  __syncthreads();
  //% if sharing != tiles
  if (!combine(sums, work, args.workspace, thread)) return;
  //% end
  //% if gate
  store_sums(sums, output_of(args, work.batch), row0, column0 + own_d,
             ring + u32(warp * 8 * kRowPitch), lane);
  //% else
  store_sums(sums, output_of(args, work.batch), row0, column0 + own,
             ring + u32(warp * 8 * kRowPitch), lane);
  //% end
}

//% if groups
KILN_DEVICE TileScheduler scheduler_of(const KilnGpuArgs& args) {
  //% if gate
  const int across = (int(args.n) + kColumns - 1) / kColumns;
  //% else
  const int across = (int(args.n) + kTileN - 1) / kTileN;
  //% end
  return TileScheduler::start(across, (int(args.m) + kTileM - 1) / kTileM,
                              (int(args.k) + kBlockK - 1) / kBlockK, int(args.batch), 0);
}
//% end

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  //% if groups
  __shared__ u32 tables[2 * kMostGroups + 1];
  __shared__ Work work;
  __shared__ bool any;
  const Groups groups = Groups::at(shared_address(tables), args);
  //% if overlaps
  // The list may be the work of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  //% end
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
  //% else
  //% if overlaps
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  //% end
  Work work;
  //% if gate
  TileScheduler::start((int(args.n) + kColumns - 1) / kColumns, (int(args.m) + kTileM - 1) / kTileM,
                       (int(args.k) + kBlockK - 1) / kBlockK, int(args.batch), 0)
      //% else
      TileScheduler::start((int(args.n) + kTileN - 1) / kTileN, (int(args.m) + kTileM - 1) / kTileM,
                           (int(args.k) + kBlockK - 1) / kBlockK, int(args.batch), 0)
          //% end
          .take(work);
  work_on(work, args, shared_address(shared_bytes));
  //% end
}
