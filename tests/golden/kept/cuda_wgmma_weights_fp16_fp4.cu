// device:  sm_90a
// problem: fp16_fp4 N T 512 4096 4096 align=16 group=k
// config:  cuda_wgmma_weights tile_m=128 warpgroups=2 block_k=128 stages=4 sharing=tiles splits=1 group=8

// ---- parameters ----
using TypeA = Half;                             // elements of A
using TypeB = Half;                             // elements of B
using TypeD = Half;                             // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 128;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 128;                 // rows of the right operand in it
constexpr int kDepth = 128;                     // k of one stage
constexpr int kStages = 4;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 64;                       // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 1;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 8;                       // tiles across a band of the rasterization
constexpr int kChunk = 64;                      // right rows that one store buffer holds
constexpr int kStoreBuffers = 2;                // of each warp
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
using TypeScale = float;                        // scales of B
constexpr int kCodeBits = 4;                    // bits of an element of B
constexpr int kCodePitch = 64;                  // bytes of a column's codes in a stage
constexpr int kDecodeK = 128;                   // k whose scales are fetched together
constexpr int kTilesM = 1;                      // 16 columns each, of a warp
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16"
#define KILN_WGMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63}"
#define KILN_WGMMA_OPERANDS "{%64, %65, %66, %67}, %68, p, 1, 1, 0"
#define KILN_WGMMA_ACCUMULATE "69"
#define KILN_WGMMA_TIED(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]), "+f"((d)[4]), "+f"((d)[5]), "+f"((d)[6]), "+f"((d)[7]), \
  "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11]), "+f"((d)[12]), "+f"((d)[13]), "+f"((d)[14]), "+f"((d)[15]), \
  "+f"((d)[16]), "+f"((d)[17]), "+f"((d)[18]), "+f"((d)[19]), "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23]), \
  "+f"((d)[24]), "+f"((d)[25]), "+f"((d)[26]), "+f"((d)[27]), "+f"((d)[28]), "+f"((d)[29]), "+f"((d)[30]), "+f"((d)[31]), \
  "+f"((d)[32]), "+f"((d)[33]), "+f"((d)[34]), "+f"((d)[35]), "+f"((d)[36]), "+f"((d)[37]), "+f"((d)[38]), "+f"((d)[39]), \
  "+f"((d)[40]), "+f"((d)[41]), "+f"((d)[42]), "+f"((d)[43]), "+f"((d)[44]), "+f"((d)[45]), "+f"((d)[46]), "+f"((d)[47]), \
  "+f"((d)[48]), "+f"((d)[49]), "+f"((d)[50]), "+f"((d)[51]), "+f"((d)[52]), "+f"((d)[53]), "+f"((d)[54]), "+f"((d)[55]), \
  "+f"((d)[56]), "+f"((d)[57]), "+f"((d)[58]), "+f"((d)[59]), "+f"((d)[60]), "+f"((d)[61]), "+f"((d)[62]), "+f"((d)[63])
#define KILN_WGMMA_REGISTER "f"
#define KILN_ACC_IN(x) "f"(x)
#define KILN_ACC_OUT(x) "=f"(x)

// ---- cuda/weights/decode.h ----
// Codes of weights to numbers of A's type, exactly, two in a register. A word of codes becomes
// kPairs pairs. Of integers a mask leaves the code in the low bits of a number whose exponent makes
// them whole: 128 + code in bf16, 1024 + code in half precision. Of floats the bits are moved to
// where A's type has them. Expects decode_ptx.h, convert.h.

constexpr int kPairs = 16 / kCodeBits;

constexpr u32 kOnes = 0x3c003c00;

/// There are no zero points.
struct Offset {};
KILN_DEVICE Offset offset_of(int) { return {}; }

/// The numbers of two codes (e2m1), each in the top bits of a half; what lies below is ignored.
/// A shift puts exponent and mantissa where A's type has them, and a product puts the exponent's
/// bias right, of the denormal too. The addend, -0, leaves every number as it is.
KILN_DEVICE u32 floats_of(u32 codes) {
  constexpr u32 kMinusZeros = 0x80008000;
  return fma_pairs(codes >> 3 & 0x0e000e00, masked_bits(codes, 0x80008000, 0x74007400),  // 2^14
                   kMinusZeros);
}

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
KILN_DEVICE u32 neighbours(u32 low, u32 high, u32 selector, const Offset&) {
  // The product puts the first code at the top of the low half, the second one at that of the high.
  return floats_of(__byte_perm(low, high, selector) * 0x01001000);
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
    lane.selector = 0x4440 | place;  // zeros above the byte
    return lane;
  }

  /// Read `read` of a stage. Eight rows on the units are exchanged alike.
  __device__ __forceinline__ void fetch(Codes& to, u32 stage, int read) const {
    _Pragma("unroll") for (int half = 0; half < 2; ++half)
      load_shared_words(to[half],
                        stage + line + u32(half * 8 * kCodePitch) + (turn ^ u32(read * 16)));
  }

  /// The words of step `step` of those that the codes are.
  __device__ __forceinline__ void decode(u32 (&to)[4], const Codes& codes, int step,
                                         const Offset& first, const Offset& second) const {
    _Pragma("unroll") for (int i = 0; i < 4; ++i) {
      const u32* word = codes[i % 2] + (step * 2 + i / 2) * (kStepWords / 2);
      const Offset& offset = i % 2 == 0 ? first : second;
      to[i] = neighbours(word[0], 0, selector, offset);
      pin_word(to[i]);
    }
  }
};
