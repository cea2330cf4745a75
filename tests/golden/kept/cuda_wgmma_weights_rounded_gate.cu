// device:  sm_90a
// problem: fp16_uint4 N T 512 4096 4096 align=16 group=64 scale_type=fp16 zero=float numerics=fast gate=silu
// config:  cuda_wgmma_weights tile_m=96 warpgroups=2 block_k=128 stages=4 sharing=tiles splits=1 group=8 round_weights=1

// ---- parameters ----
using TypeA = Half;                             // elements of A
using TypeB = Half;                             // elements of B
using TypeD = Half;                             // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 256;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 96;                  // rows of the right operand in it
constexpr int kDepth = 128;                     // k of one stage
constexpr int kStages = 4;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 128;             // left rows of each
constexpr int kSums = 48;                       // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kChunk = 32;                      // right rows that one store buffer holds
constexpr int kStoreBuffers = 2;                // of each warp
constexpr int kHeld = 16;                       // sums of a thread that are finished together
constexpr int kCopyRegisters = 40;              // of the warps that copy
constexpr int kMultiplyRegisters = 232;         // of the warps that multiply
constexpr int kTurnBarrier = 1;                 // named barriers 1 and 2: whose turn it is
constexpr int kGroupBarrier = 3;                // named barriers from 3 on: one a warpgroup
constexpr int kCounterBytes = 0;                // front of the workspace
constexpr bool kPackA = false;                  // A is copied into the workspace first
constexpr bool kPackB = false;                  // B is copied into the workspace first
constexpr bool kAlongKA = true;                 // A's neighbours run along k
constexpr bool kAlongKB = true;                 // B's neighbours run along k
constexpr bool kSwap = true;                    // left is B: D's tile is computed transposed
constexpr bool kLeftAcrossK = false;            // the left operand's rows are neighbours in memory
constexpr bool kRightAcrossK = false;           // the right operand's rows are neighbours
constexpr u64 kLeftHint = 0x1000000000000000;   // L2 policy: evict first, or normal
constexpr u64 kRightHint = 0x1000000000000000;  // L2 policy: evict last, or normal
using TypeScale = Half;                         // scales of B
using TypeZero = Half;                          // zero points of B
constexpr int kCodeBits = 4;                    // bits of an element of B
constexpr int kGroupK = 64;                     // elements along k that share a scale
constexpr bool kSignedCodes = false;            // codes are two's complement
constexpr int kCodePitch = 64;                  // bytes of a column's codes in a stage
constexpr int kDecodeK = 128;                   // k whose scales are fetched together
constexpr int kTilesM = 2;                      // 16 columns each, of a warp
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16"
#define KILN_WGMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47}"
#define KILN_WGMMA_OPERANDS "{%48, %49, %50, %51}, %52, p, 1, 1, 0"
#define KILN_WGMMA_ACCUMULATE "53"
#define KILN_WGMMA_TIED(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]), "+f"((d)[4]), "+f"((d)[5]), "+f"((d)[6]), "+f"((d)[7]), \
  "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11]), "+f"((d)[12]), "+f"((d)[13]), "+f"((d)[14]), "+f"((d)[15]), \
  "+f"((d)[16]), "+f"((d)[17]), "+f"((d)[18]), "+f"((d)[19]), "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23]), \
  "+f"((d)[24]), "+f"((d)[25]), "+f"((d)[26]), "+f"((d)[27]), "+f"((d)[28]), "+f"((d)[29]), "+f"((d)[30]), "+f"((d)[31]), \
  "+f"((d)[32]), "+f"((d)[33]), "+f"((d)[34]), "+f"((d)[35]), "+f"((d)[36]), "+f"((d)[37]), "+f"((d)[38]), "+f"((d)[39]), \
  "+f"((d)[40]), "+f"((d)[41]), "+f"((d)[42]), "+f"((d)[43]), "+f"((d)[44]), "+f"((d)[45]), "+f"((d)[46]), "+f"((d)[47])
#define KILN_WGMMA_REGISTER "f"
#define KILN_TURN_BRANCHES "turns: .branchtargets t0, t1, t2, t3, t4, t5;\n" \
  "brx.idx %112, turns;\n" \
  "t0: mov.b32 %0, %16; mov.b32 %1, %17; mov.b32 %2, %18; mov.b32 %3, %19; mov.b32 %4, %20; mov.b32 %5, %21; mov.b32 %6, %22; mov.b32 %7, %23; mov.b32 %8, %24; mov.b32 %9, %25; mov.b32 %10, %26; mov.b32 %11, %27; mov.b32 %12, %28; mov.b32 %13, %29; mov.b32 %14, %30; mov.b32 %15, %31;\nbra done;\n" \
  "t1: mov.b32 %0, %32; mov.b32 %1, %33; mov.b32 %2, %34; mov.b32 %3, %35; mov.b32 %4, %36; mov.b32 %5, %37; mov.b32 %6, %38; mov.b32 %7, %39; mov.b32 %8, %40; mov.b32 %9, %41; mov.b32 %10, %42; mov.b32 %11, %43; mov.b32 %12, %44; mov.b32 %13, %45; mov.b32 %14, %46; mov.b32 %15, %47;\nbra done;\n" \
  "t2: mov.b32 %0, %48; mov.b32 %1, %49; mov.b32 %2, %50; mov.b32 %3, %51; mov.b32 %4, %52; mov.b32 %5, %53; mov.b32 %6, %54; mov.b32 %7, %55; mov.b32 %8, %56; mov.b32 %9, %57; mov.b32 %10, %58; mov.b32 %11, %59; mov.b32 %12, %60; mov.b32 %13, %61; mov.b32 %14, %62; mov.b32 %15, %63;\nbra done;\n" \
  "t3: mov.b32 %0, %64; mov.b32 %1, %65; mov.b32 %2, %66; mov.b32 %3, %67; mov.b32 %4, %68; mov.b32 %5, %69; mov.b32 %6, %70; mov.b32 %7, %71; mov.b32 %8, %72; mov.b32 %9, %73; mov.b32 %10, %74; mov.b32 %11, %75; mov.b32 %12, %76; mov.b32 %13, %77; mov.b32 %14, %78; mov.b32 %15, %79;\nbra done;\n" \
  "t4: mov.b32 %0, %80; mov.b32 %1, %81; mov.b32 %2, %82; mov.b32 %3, %83; mov.b32 %4, %84; mov.b32 %5, %85; mov.b32 %6, %86; mov.b32 %7, %87; mov.b32 %8, %88; mov.b32 %9, %89; mov.b32 %10, %90; mov.b32 %11, %91; mov.b32 %12, %92; mov.b32 %13, %93; mov.b32 %14, %94; mov.b32 %15, %95;\nbra done;\n" \
  "t5: mov.b32 %0, %96; mov.b32 %1, %97; mov.b32 %2, %98; mov.b32 %3, %99; mov.b32 %4, %100; mov.b32 %5, %101; mov.b32 %6, %102; mov.b32 %7, %103; mov.b32 %8, %104; mov.b32 %9, %105; mov.b32 %10, %106; mov.b32 %11, %107; mov.b32 %12, %108; mov.b32 %13, %109; mov.b32 %14, %110; mov.b32 %15, %111;\n"
#define KILN_TURN_TAKEN(d) "=&f"((d)[0]), "=&f"((d)[1]), "=&f"((d)[2]), "=&f"((d)[3]), "=&f"((d)[4]), "=&f"((d)[5]), "=&f"((d)[6]), "=&f"((d)[7]), "=&f"((d)[8]), "=&f"((d)[9]), "=&f"((d)[10]), "=&f"((d)[11]), "=&f"((d)[12]), "=&f"((d)[13]), "=&f"((d)[14]), "=&f"((d)[15])
#define KILN_TURN_SUMS(d) "f"((d)[0][0]), "f"((d)[0][1]), "f"((d)[0][2]), "f"((d)[0][3]), "f"((d)[0][4]), "f"((d)[0][5]), \
  "f"((d)[0][6]), "f"((d)[0][7]), "f"((d)[0][8]), "f"((d)[0][9]), "f"((d)[0][10]), "f"((d)[0][11]), \
  "f"((d)[0][12]), "f"((d)[0][13]), "f"((d)[0][14]), "f"((d)[0][15]), "f"((d)[0][16]), "f"((d)[0][17]), \
  "f"((d)[0][18]), "f"((d)[0][19]), "f"((d)[0][20]), "f"((d)[0][21]), "f"((d)[0][22]), "f"((d)[0][23]), \
  "f"((d)[0][24]), "f"((d)[0][25]), "f"((d)[0][26]), "f"((d)[0][27]), "f"((d)[0][28]), "f"((d)[0][29]), \
  "f"((d)[0][30]), "f"((d)[0][31]), "f"((d)[0][32]), "f"((d)[0][33]), "f"((d)[0][34]), "f"((d)[0][35]), \
  "f"((d)[0][36]), "f"((d)[0][37]), "f"((d)[0][38]), "f"((d)[0][39]), "f"((d)[0][40]), "f"((d)[0][41]), \
  "f"((d)[0][42]), "f"((d)[0][43]), "f"((d)[0][44]), "f"((d)[0][45]), "f"((d)[0][46]), "f"((d)[0][47]), \
  "f"((d)[1][0]), "f"((d)[1][1]), "f"((d)[1][2]), "f"((d)[1][3]), "f"((d)[1][4]), "f"((d)[1][5]), \
  "f"((d)[1][6]), "f"((d)[1][7]), "f"((d)[1][8]), "f"((d)[1][9]), "f"((d)[1][10]), "f"((d)[1][11]), \
  "f"((d)[1][12]), "f"((d)[1][13]), "f"((d)[1][14]), "f"((d)[1][15]), "f"((d)[1][16]), "f"((d)[1][17]), \
  "f"((d)[1][18]), "f"((d)[1][19]), "f"((d)[1][20]), "f"((d)[1][21]), "f"((d)[1][22]), "f"((d)[1][23]), \
  "f"((d)[1][24]), "f"((d)[1][25]), "f"((d)[1][26]), "f"((d)[1][27]), "f"((d)[1][28]), "f"((d)[1][29]), \
  "f"((d)[1][30]), "f"((d)[1][31]), "f"((d)[1][32]), "f"((d)[1][33]), "f"((d)[1][34]), "f"((d)[1][35]), \
  "f"((d)[1][36]), "f"((d)[1][37]), "f"((d)[1][38]), "f"((d)[1][39]), "f"((d)[1][40]), "f"((d)[1][41]), \
  "f"((d)[1][42]), "f"((d)[1][43]), "f"((d)[1][44]), "f"((d)[1][45]), "f"((d)[1][46]), "f"((d)[1][47])
#define KILN_ACC_IN(x) "f"(x)
#define KILN_ACC_OUT(x) "=f"(x)

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
  TypeZero zero[kLaneColumns][kGroups];
};

/// As they are used. Scales are rounded to A's type and stand twice in a word, and so does what is
/// added to scaled numbers.
struct Factors {
  u32 scale[kLaneColumns][kGroups];
  Offset offset[kLaneColumns][kGroups];
  u32 rest[kLaneColumns][kGroups];  // of the zero point, whose whole part is in the offset: scaled
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
    s.groups = int(args.k) / kGroupK;
    s.scales = static_cast<const TypeScale*>(args.scale_b);
    s.zeros = static_cast<const TypeZero*>(args.zero_b);
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
        to.zero[c][g] = exists ? zeros[at] : TypeZero{};
      }
    }
  }

  __device__ __forceinline__ Factors factors(const Fetched& from, int chunk) const {
    Factors f;
    _Pragma("unroll") for (int g = 0; g < kGroups; ++g)
      _Pragma("unroll") for (int c = 0; c < kLaneColumns; ++c) {
        const float scale = to_real(from.scale[c][g]);
        f.scale[c][g] = pack_two(scale, scale, TypeA{});
        const float zero = to_real(from.zero[c][g]);
        constexpr int kLeast = kSignedCodes ? -(1 << (kCodeBits - 1)) : 0;
        const int whole = max(kLeast, min(float_to_int(zero), kLeast + (1 << kCodeBits) - 1));
        f.offset[c][g] = offset_of(whole);
        // Of the scale as it was rounded: then it is no larger than the weight that it leads to,
        // nor is its error.
        const float rest = (float(whole) - zero) * to_real(TypeA{u16(f.scale[c][g])});
        f.rest[c][g] = pack_two(rest, rest, TypeA{});
      }
    return f;
  }
};

// ---- cuda/wgmma_weights/fragment.h ----
// Codes in shared memory to words of the left operand, in k's own order. A lane's word of a step of
// 16 k holds elements 2q and 2q + 1 of eight, q being its place in a quad: of four bits byte q of a
// word of codes, of eight bits two neighbours of two words. So a quad reads the same 16 bytes and
// each lane takes its part, without a shuffle. Expects decode.h, swizzle.h, registers_ptx.h,
// read_ptx.h.

constexpr int kStepWords = 8 / kPairs;      // of codes, of a row in one step
constexpr int kReadSteps = 4 / kStepWords;  // that 16 bytes of codes are

/// 16 bytes of either row of a lane.
using Codes = u32[2][4];

/// Two neighbouring codes, which `selector` takes out of `low` and `high`, as numbers.
KILN_DEVICE u32 neighbours(u32 low, u32 high, u32 selector, const Offset& offset) {
  const u32 taken = __byte_perm(low, high, selector);
  // The second code stays where it is in its byte, and counts sixteenths.
  constexpr u32 kTurned = kSignedCodes ? 0x00800008 : 0;
  return fma_pairs(masked_bits(taken, 0x00f0000f, 0x64006400 | kTurned), 0x2c003c00,
                   __byte_perm(offset.pair, offset.pair_of_16, 0x7610));
}

/// Where a lane's codes lie in a stage, as the copy engine swizzled them, and which it takes.
struct CodeLane {
  u32 line, turn;  // byte of the first row; what exchanges the row's units of 16 bytes
  u32 selector;

  static __device__ __forceinline__ CodeLane of(u32 row_offset, int thread) {
    const int row = int(row_offset) + thread / 32 * 16 + thread % 32 / 4;
    const u32 place = u32(thread) % 4;
    CodeLane lane;
    lane.line = u32(row * kCodePitch);
    lane.turn = swizzled_byte(row, 0, kCodePitch) - lane.line;
    lane.selector = place | place << 8;
    return lane;
  }

  /// Read `read` of a stage. Eight rows on the units are exchanged alike.
  __device__ __forceinline__ void fetch(Codes& to, u32 stage, int read) const {
    _Pragma("unroll") for (int half = 0; half < 2; ++half)
      load_shared_words(to[half],
                        stage + line + u32(half * 8 * kCodePitch) + (turn ^ u32(read * 16)));
  }

  /// The words of step `step` of those that the codes are, times the scales of columns from
  /// `column` of the lane on in group `group`.
  __device__ __forceinline__ void decode(u32 (&to)[4], const Codes& codes, int step,
                                         const Factors& factors, int column, int group) const {
    _Pragma("unroll") for (int i = 0; i < 4; ++i) {
      const u32* word = codes[i % 2] + (step * 2 + i / 2) * (kStepWords / 2);
      const int of = column + i % 2;
      const Offset& offset = factors.offset[of][group];
      const u32 numbers = neighbours(word[0], 0, selector, offset);
      to[i] = fma_pairs(numbers, factors.scale[of][group], factors.rest[of][group]);
      pin_word(to[i]);
    }
  }
};

// ---- cuda/wgmma_weights/multiply.cu ----
// A times weights of four or eight bits by the instruction of a warpgroup. The weights are the left
// operand, from registers, so that D is computed transposed; A's rows are the right one, from
// shared memory. A stage holds codes as they are stored and A's lines of 64 k. While one warpgroup
// turns codes into numbers and multiplies these by their scales, in A's type, the tensor cores
// multiply another's. Sums are of all of k, which is divided by turns of kTurn stages. Expects
// fragment.h, scaling.h, wgmma.h, consumer.h, tile_scheduler.h.

constexpr int kSteps = kDepth / 16;  // instructions of a stage
constexpr int kTurn = kDecodeK / kDepth;  // stages whose instructions follow one another
constexpr int kChain = kSteps;            // instructions that add up before their sums are read
constexpr int kFlight = kChain < 4 ? kChain : 4;  // on their way at once, each with its own words

// A warpgroup has 64 columns of B of either factor, under the same columns of D.
constexpr int kColumns = kLeftTile / 2;        // of D in a tile
constexpr int kFactorBytes = 64 * kCodePitch;  // of a stage's codes

KILN_DEVICE TileScheduler scheduler_of(const KilnGpuArgs& args, u32 rank) {
  return TileScheduler::start(
      (int(args.n) + kColumns - 1) / kColumns,
      (int(args.m) + kRightTile - 1) / kRightTile,
      (int(args.k) + kDecodeK - 1) / kDecodeK,
      int(args.batch), rank);
}

/// One thread fills the ring.
KILN_DEVICE void copy_all(const Shared& shared, TileScheduler scheduler, const KilnTensorMap* left,
                          const KilnTensorMap* right) {
  Turn turn;
  Work work;
  bool more = scheduler.take(work);
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  for (; more; more = scheduler.take(work))
    for (int i = 0; i < work.count * kTurn; ++i) {
      mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
      const u32 barrier = shared.full + turn.stage * 8;
      const u32 to = shared.ring + turn.stage * kStageBytes;
      const int stage = work.begin * kTurn + i;
      mbarrier_expect(barrier, kStageBytes);
      // The map counts factors as batches.
      _Pragma("unroll") for (int unit = 0; unit < 2 * kWarpgroups; ++unit)
        tma_load_3d(to + unit * kFactorBytes, left, barrier, stage * kCodePitch,
                    work.left * kColumns + unit / 2 * 64, work.batch * 2 + unit % 2, kLeftHint);
      _Pragma("unroll") for (int line = 0; line < kDepth / 64; ++line)
        tma_load_3d(to + kLeftBytes + line * kRightTile * 128, right, barrier,
                    stage * kDepth + line * 64, work.right * kRightTile, work.batch, kRightHint);
      turn.step();
    }
}

/// Scales and zero points of a lane's two columns of either factor in a tile.
struct TileScales {
  Scaling scaling;
  int begin;  // first stage of the work

  static __device__ __forceinline__ TileScales of(const KilnGpuArgs& args, const Work& work,
                                                  u32 row_offset, int thread) {
    const int column0 = work.left * kColumns + int(row_offset) / 2 + thread / 32 * 16;
    return {Scaling::at(args, work.batch, column0, thread % 32), work.begin};
  }
};

/// The products of `count` turns, in each of them those of one factor and then those of the other.
/// While the last instructions of a turn are on their way, the next one's first words are decoded:
/// the assembler lets no instruction be on its way from one turn of the loop to the next.
KILN_DEVICE void multiply(Acc (&sums)[kSubtiles][kSums], const Shared& shared, Turn& turn,
                          int count, u32 row_offset, int, int lane, const TileScales& scales) {
  constexpr int kFactorSteps = kTurn * kSteps, kAll = kSubtiles * kFactorSteps;  // of a turn
  const CodeLane mine = CodeLane::of(row_offset, int(threadIdx.x) & 127);
  const u64 right0 = descriptor(kAlongK, shared.ring + kLeftBytes);
  int chunk = scales.begin;
  Fetched fetched;
  scales.scaling.fetch(fetched, chunk);
  Codes codes[2];
  u32 words[kFlight][4];
  mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
  mine.fetch(codes[0], shared.ring + turn.stage * kStageBytes, 0);
  Factors factors = scales.scaling.factors(fetched, chunk);
  scales.scaling.fetch(fetched, ++chunk);
  _Pragma("unroll") for (int step = 0; step < kReadSteps; ++step)
    mine.decode(words[step], codes[0], step, factors, 0, 0);
  _Pragma("unroll 1") for (int i = 0; i < count; ++i) {
    int place[kTurn];  // of its stages in the ring
    pin_all(sums);
    _Pragma("unroll") for (int at = 0; at < kAll; ++at) {
      const int f = at / kFactorSteps, of_factor = at % kFactorSteps;
      const int stage = of_factor / kSteps, step = of_factor % kSteps;
      if (f == 0 && step == 0) {
        place[stage] = turn.stage;
        turn.step();
      }
      // The next codes come while these are decoded.
      const int next = (at / kReadSteps + 1) * kReadSteps;
      const bool enters = next % kSteps == 0 && (next < kFactorSteps || next == kAll);
      if (at % kReadSteps == 0 && enters && (next < kAll || i + 1 < count)) {
        mbarrier_wait(shared.full + turn.stage * 8, turn.parity);
        mine.fetch(codes[next / kReadSteps % 2], shared.ring + turn.stage * kStageBytes, 0);
      }
      if (at % kReadSteps == 0 && !enters)
        mine.fetch(codes[next / kReadSteps % 2],
                   shared.ring + place[next % kFactorSteps / kSteps] * kStageBytes +
                       next / kFactorSteps * kFactorBytes,
                   next % kSteps / kReadSteps);
      // The instruction that took these words has ended, and with its last one a stage.
      if (at >= kFlight) wgmma_wait<kFlight - 1>();
      const int ended = at - kFlight - (kAll - kFactorSteps);  // of the last factor
      if (ended >= 0 && ended % kSteps == kSteps - 1)
        release(shared.empty + place[ended / kSteps] * 8, lane);
      u32(&left)[4] = words[at % kFlight];
      if (at >= kReadSteps)
        mine.decode(left, codes[at / kReadSteps % 2], at % kReadSteps, factors, f * 2,
                    of_factor * 16 / kGroupK);
      wgmma_fence();
      wgmma_m64(sums[f], left,
                right0 + u64(place[stage]) * (kStageBytes >> 4) +
                    ((step / 4 * kRightTile * 128 + step % 4 * 32) >> 4),
                i | of_factor);
      wgmma_commit();
    }
    factors = scales.scaling.factors(fetched, chunk);
    scales.scaling.fetch(fetched, ++chunk);
    wgmma_wait<kFlight - 1>();
    mine.decode(words[0], codes[0], 0, factors, 0, 0);
    wgmma_wait<kFlight - 2>();
    mine.decode(words[1], codes[0], 1, factors, 0, 0);
    wgmma_wait<0>();
    pin_all(sums);
    release(shared.empty + place[kTurn - 1] * 8, lane);
  }
}
