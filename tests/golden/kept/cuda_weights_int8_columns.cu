// device:  sm_80
// problem: bf16_int8 N T 64 4096 4096 group=k zero=float
// config:  cuda_weights tile_n=64 tile_m=32 block_k=64 warps=2 stages=3 group=8 splits=1

// ---- parameters ----
using TypeA = Bfloat;                // elements of A
using TypeB = i8;                    // elements of B
using TypeD = Bfloat;                // elements of C and D
using Acc = float;                   // accumulators
using Real = float;                  // what the epilogue computes in
using TypeScale = float;             // scales of B
using TypeZero = float;              // zero points of B
constexpr int kCodeBits = 8;         // bits of an element of B
constexpr bool kSignedCodes = true;  // codes are two's complement
using Fragment = u32;                // a register of an operand
constexpr int kTileN = 64;           // columns of D in a block's tile
constexpr int kTileM = 32;           // rows of D in it
constexpr int kBlockK = 64;          // k of one stage
constexpr int kDecodeK = 64;         // k of a chunk, which is decoded together
constexpr int kThreads = 64;         // of a block
constexpr int kBlocks = 6;           // that are to fit one SM
constexpr int kTilesM = 2;           // 16 columns each, of a warp
constexpr int kTilesN = 4;           // 8 rows each, of a warp
constexpr int kStages = 3;           // of the ring
constexpr int kUnit = 4;             // bytes of one copy to shared memory
constexpr int kBitsA = 2;            // of a byte's place in a line of A that are exchanged
constexpr int kBaseA = 5;            // the first of them
constexpr int kBitsB = 2;            // the same for B, from bit 4 on
constexpr int kShiftB = 1;           // with bits of the line's number from here on
constexpr int kStoreWidth = 1;       // elements of D stored at once
constexpr int kGroup = 8;            // tiles along n in a band of the rasterization
constexpr int kMmaSums = 4;          // registers of sums of the matrix instruction
constexpr int kMmaA = 4;             // registers of weights
constexpr int kMmaB = 2;             // registers of A
#define KILN_MMA_NAME "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define KILN_MMA_TEXT "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}"
#define KILN_MMA_SUMS(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define KILN_MMA_OPERANDS(a, b) "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), \
  "r"((b)[0]), "r"((b)[1])

// ---- cuda/weights/decode.h ----
// Codes of weights to numbers of A's type, exactly, two in a register. A word of codes becomes
// kPairs pairs. Of integers a mask leaves the code in the low bits of a number whose exponent makes
// them whole: 128 + code in bf16, 1024 + code in half precision. Of floats the bits are moved to
// where A's type has them. Expects decode_ptx.h, convert.h.

constexpr int kPairs = 16 / kCodeBits;

constexpr u32 kOnes = 0x3f803f80;

/// What is added to the numbers of a column: less the offset that they have, less the zero point.
struct Offset {
  u32 pair;
};

KILN_DEVICE Offset offset_of(int zero) {
  Offset offset;
  offset.pair = pack_two(Real(-zero), Real(-zero), TypeA{});
  return offset;
}

// ---- cuda/weights/pairs.h ----
// Which codes of a word are a pair: of four bits codes i and i + 4, because one mask takes both out
// of the word; of eight bits codes 2i and 2i + 1. Expects decode.h.

/// Pair `i` of a word.
KILN_DEVICE u32 pair_of(u32 codes, int i, const Offset& offset) {
  const u32 selector = i == 0 ? 0x4140 : 0x4342;
  // Seven bits fit behind the exponent; the sign, which counts -128, is the difference of 128 and
  // 256.
  const u32 halves = __byte_perm(codes, 0, selector);
  const u32 number = fma_pairs(masked_bits(halves, 0x007f007f, 0x43004300), kOnes,
                               masked_bits(halves, 0x00800080, 0xc300c300));
  return fma_pairs(number, kOnes, offset.pair);
}

/// The same pairs of the other operand, whose elements lie side by side: four words of eight, two
/// of four.
KILN_DEVICE void pair_alike(u32 (&x)[kPairs]) {
}

// ---- cuda/weights/copy.h ----
// From memory to shared memory: every thread's share of one operand's stage. Both operands run
// along k and are copied as bytes, kUnit at a time; what lies outside the operand becomes zeros.
// Expects banks.h, ampere_ptx.h, decode_ptx.h.

/// Byte by byte: no copy instruction reads such addresses.
KILN_DEVICE void copy_unit(u32 to, const unsigned char* from, int valid) {
  static_assert(kUnit == 4, "one register is stored");
  u32 word = 0;
  _Pragma("unroll") for (int i = 0; i < 4; ++i)
    if (i < valid) word |= u32(from[i]) << i * 8;
  store_shared_one(to, word);
}

/// A stage holds `Lines` lines of `Pitch` bytes, whose bytes are exchanged as exchanged_byte()
/// says.
template <int Pitch, int Lines, int Bits, int Base, int Shift>
struct Copier {
  static constexpr int kUnits = Pitch / kUnit;  // of a line
  static constexpr int kLinesAtOnce = kThreads / kUnits;
  static constexpr int kCopies = (Lines + kLinesAtOnce - 1) / kLinesAtOnce;
  static_assert(kThreads % kUnits == 0, "threads share a line evenly");

  const unsigned char* from;  // this thread's first unit of the next stage
  i64 step;                   // bytes between its lines
  int lines, bytes;           // from the first unit on to the operand's end
  int line, byte;             // of the first unit in the stage

  /// Of an operand of `rows` lines of `length` bytes each, the stage that begins at (row0, first).
  static __device__ __forceinline__ Copier at(const void* operand, i64 pitch, i64 row0, i64 rows,
                                              i64 first, i64 length, int thread) {
    Copier c;
    c.line = thread / kUnits;
    c.byte = thread % kUnits * kUnit;
    c.from = static_cast<const unsigned char*>(operand) + (row0 + c.line) * pitch + first + c.byte;
    c.step = pitch * kLinesAtOnce;
    c.lines = int(rows - row0) - c.line;
    c.bytes = int(min(length - first, i64(1) << 30)) - c.byte;
    return c;
  }

  static __device__ __forceinline__ u32 place(int line, int byte) {
    return u32(line * Pitch + exchanged_byte(line, byte, Bits, Base, Shift));
  }

  /// Starts the copies of one stage and goes on to the next.
  __device__ __forceinline__ void copy(u32 to) {
    const unsigned char* here = from;
    const int there = max(0, min(bytes, kUnit));
    _Pragma("unroll") for (int i = 0; i < kCopies; ++i, here += step) {
      const int down = i * kLinesAtOnce;
      if (Lines % kLinesAtOnce != 0 && line + down >= Lines) continue;
      const u32 at =
          kLinesAtOnce % 8 == 0 ? place(line, byte) + u32(down * Pitch) : place(line + down, byte);
      copy_unit(to + at, here, down < lines ? there : 0);
    }
    from += Pitch;
    bytes -= Pitch;
  }
};

// ---- cuda/weights/scaling.h ----
// Scales and zero points of a lane's columns of op(B): fetched a chunk before they are needed.
// Expects decode.h, convert.h.

constexpr int kLaneColumns = kTilesM * 2;
constexpr int kGroups = 1;  // that a chunk has of a column

/// As they come from memory: a conversion would wait for it.
struct Fetched {
  TypeScale scale[kLaneColumns][kGroups];
  TypeZero zero[kLaneColumns][kGroups];
};

/// As they are used.
struct Factors {
  float scale[kLaneColumns][kGroups];
  Offset offset[kLaneColumns][kGroups];
  float rest[kLaneColumns][kGroups];  // of the zero point, whose whole part is in the offset
};

struct Scaling {
  const TypeScale* scales;
  const TypeZero* zeros;
  u32 first[kLaneColumns];  // group of each column, of all groups
  int groups;               // of a column

  /// `column0`: the warp's first column. Columns that do not exist repeat the last one.
  static __device__ __forceinline__ Scaling at(const KilnGpuArgs& args, i64 batch, int column0,
                                               int lane) {
    Scaling s;
    s.groups = 1;
    s.scales = static_cast<const TypeScale*>(args.scale_b);
    s.zeros = static_cast<const TypeZero*>(args.zero_b);
    _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
      const int column = min(column0 + c * 8 + lane / 4, int(args.n) - 1);
      s.first[c] = u32(int(batch) * int(args.n) + column) * u32(s.groups);
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
        to.zero[c][g] = exists ? zeros[at] : TypeZero{};
      }
    }
  }

  __device__ __forceinline__ Factors factors(const Fetched& from, int chunk) const {
    Factors f;
    _Pragma("unroll") for (int g = 0; g < kGroups; ++g)
      _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
        f.scale[c][g] = to_real(from.scale[c][g]);
        const float zero = to_real(from.zero[c][g]);
        constexpr int kLeast = kSignedCodes ? -(1 << (kCodeBits - 1)) : 0;
        const int whole = max(kLeast, min(float_to_int(zero), kLeast + (1 << kCodeBits) - 1));
        f.offset[c][g] = offset_of(whole);
        f.rest[c][g] = zero - float(whole);
      }
    return f;
  }
};

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
    load_shared_two(to, from);
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
        const int group = 0;
        _Pragma("unroll") for (int e = 0; e < 4; ++e)
          to[i][step][e] = pair_of(codes[s / kWordSteps * 2 + e % 2], s % kWordSteps * 2 + e / 2,
                                   factors.offset[i * 2 + e % 2][group]);
      }
    }
}

/// Sums of A's elements, as accumulators are laid out: of the columns of A's tiles.
using LeftSums = Acc[kTilesN][4];
KILN_DEVICE void add_left(Acc (&sums)[4], const u32* left) {
  const u32 ones[4] = {kOnes, kOnes, kOnes, kOnes};
  mma_sync(sums, ones, left);
}

/// Adds the products of a chunk.
KILN_DEVICE void multiply_chunk(Sums& sums,
                                LeftSums& left_sums,
                                const Reader& reader, const Factors& factors) {
  Numbers numbers;
  decode(numbers, reader, factors);
  _Pragma("unroll") for (int step = 0; step < kSteps; step += kWordSteps)
    _Pragma("unroll") for (int j = 0; j < kTilesN; ++j) {
      u32 left[kPairs];
      reader.left(left, j, step / kWordSteps);
      _Pragma("unroll") for (int s = 0; s < kWordSteps; ++s) {
        add_left(left_sums[j], left + s * 2);
        _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
          mma_sync(sums[i][j], numbers[i][step + s], left + s * 2);
      }
    }
}

/// What all of k has in common.
KILN_DEVICE void scale_sums(Sums& sums,
                            const LeftSums& left_sums,
                            const Factors& factors) {
  _Pragma("unroll") for (int i = 0; i < kTilesM; ++i)
    _Pragma("unroll") for (int j = 0; j < kTilesN; ++j)
      _Pragma("unroll") for (int e = 0; e < 4; ++e) {
        sums[i][j][e] -= factors.rest[i * 2 + e / 2][0] * left_sums[j][e % 2];
        sums[i][j][e] *= factors.scale[i * 2 + e / 2][0];
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
  };
  _Pragma("unroll") for (int s = 0; s < kStages - 1; ++s) copy_next();
  Fetched fetched;
  scaling.fetch(fetched, 0);
  const Factors factors = scaling.factors(fetched, 0);
  LeftSums left_sums = {};
  u32 stage = ring;
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    // The stage is there, and every warp has read the one before it, whose place is filled next.
    __syncthreads();
    copy_next();
    _Pragma("unroll 1") for (int c = 0; c < kChunks; ++c) {
      multiply_chunk(sums, left_sums, reader.of_chunk(stage, c), factors);
    }
    stage = stage == ring + (kStages - 1) * kStageBytes ? ring : stage + kStageBytes;
  }
  scale_sums(sums, left_sums, factors);
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

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  Work work;
      TileScheduler::start((int(args.n) + kTileN - 1) / kTileN, (int(args.m) + kTileM - 1) / kTileM,
                           (int(args.k) + kBlockK - 1) / kBlockK, int(args.batch), 0)
          .take(work);
  work_on(work, args, shared_address(shared_bytes));
}
