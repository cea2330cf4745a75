// device:  sm_90a
// problem: bf16 N T 8192 8192 8192 batch=2 align=16
// config:  cuda_wgmma left=128 right=256 stages=4 warpgroups=2 pingpong=0 swap=0 cluster_left=2 cluster_right=1 sharing=tiles splits=1 along=hilbert group=16 pack_a=0 pack_b=0 keep_right=0 promote=0

// ---- parameters ----
using TypeA = Bfloat;                           // elements of A
using TypeB = Bfloat;                           // elements of B
using TypeD = Bfloat;                           // elements of C and D
using Acc = float;                              // accumulators
using Real = float;                             // what the epilogue computes in
constexpr int kLeftTile = 128;                  // rows of the left operand in a block's tile
constexpr int kRightTile = 256;                 // rows of the right operand in it
constexpr int kDepth = 64;                      // k of one stage
constexpr int kStages = 4;                      // places in the ring
constexpr int kWarpgroups = 2;                  // that multiply
constexpr int kWarpgroupRows = 64;              // left rows of each
constexpr int kSums = 128;                      // of a thread, for 64 left rows
constexpr int kReaders = 8;                     // warps that read one stage
constexpr int kRegions = 2;                     // warpgroups that share a tile
constexpr int kClusterLeft = 2;                 // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                // and along the right rows
constexpr int kGroup = 16;                      // tiles across a band of the rasterization
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
constexpr bool kSwap = false;                   // left is B: D's tile is computed transposed
constexpr bool kLeftAcrossK = false;            // the left operand's rows are neighbours in memory
constexpr bool kRightAcrossK = false;           // the right operand's rows are neighbours
constexpr u64 kLeftHint = 0x1000000000000000;   // L2 policy: evict first, or normal
constexpr u64 kRightHint = 0x1000000000000000;  // L2 policy: evict last, or normal
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"
#define KILN_WGMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63, " \
  "%64, %65, %66, %67, %68, %69, %70, %71, " \
  "%72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, " \
  "%88, %89, %90, %91, %92, %93, %94, %95, " \
  "%96, %97, %98, %99, %100, %101, %102, %103, " \
  "%104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, " \
  "%120, %121, %122, %123, %124, %125, %126, %127}"
#define KILN_WGMMA_OPERANDS "%128, %129, p, 1, 1, 0, 0"
#define KILN_WGMMA_ACCUMULATE "130"
#define KILN_WGMMA_TIED(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]), "+f"((d)[4]), "+f"((d)[5]), "+f"((d)[6]), "+f"((d)[7]), \
  "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11]), "+f"((d)[12]), "+f"((d)[13]), "+f"((d)[14]), "+f"((d)[15]), \
  "+f"((d)[16]), "+f"((d)[17]), "+f"((d)[18]), "+f"((d)[19]), "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23]), \
  "+f"((d)[24]), "+f"((d)[25]), "+f"((d)[26]), "+f"((d)[27]), "+f"((d)[28]), "+f"((d)[29]), "+f"((d)[30]), "+f"((d)[31]), \
  "+f"((d)[32]), "+f"((d)[33]), "+f"((d)[34]), "+f"((d)[35]), "+f"((d)[36]), "+f"((d)[37]), "+f"((d)[38]), "+f"((d)[39]), \
  "+f"((d)[40]), "+f"((d)[41]), "+f"((d)[42]), "+f"((d)[43]), "+f"((d)[44]), "+f"((d)[45]), "+f"((d)[46]), "+f"((d)[47]), \
  "+f"((d)[48]), "+f"((d)[49]), "+f"((d)[50]), "+f"((d)[51]), "+f"((d)[52]), "+f"((d)[53]), "+f"((d)[54]), "+f"((d)[55]), \
  "+f"((d)[56]), "+f"((d)[57]), "+f"((d)[58]), "+f"((d)[59]), "+f"((d)[60]), "+f"((d)[61]), "+f"((d)[62]), "+f"((d)[63]), \
  "+f"((d)[64]), "+f"((d)[65]), "+f"((d)[66]), "+f"((d)[67]), "+f"((d)[68]), "+f"((d)[69]), "+f"((d)[70]), "+f"((d)[71]), \
  "+f"((d)[72]), "+f"((d)[73]), "+f"((d)[74]), "+f"((d)[75]), "+f"((d)[76]), "+f"((d)[77]), "+f"((d)[78]), "+f"((d)[79]), \
  "+f"((d)[80]), "+f"((d)[81]), "+f"((d)[82]), "+f"((d)[83]), "+f"((d)[84]), "+f"((d)[85]), "+f"((d)[86]), "+f"((d)[87]), \
  "+f"((d)[88]), "+f"((d)[89]), "+f"((d)[90]), "+f"((d)[91]), "+f"((d)[92]), "+f"((d)[93]), "+f"((d)[94]), "+f"((d)[95]), \
  "+f"((d)[96]), "+f"((d)[97]), "+f"((d)[98]), "+f"((d)[99]), "+f"((d)[100]), "+f"((d)[101]), "+f"((d)[102]), "+f"((d)[103]), \
  "+f"((d)[104]), "+f"((d)[105]), "+f"((d)[106]), "+f"((d)[107]), "+f"((d)[108]), "+f"((d)[109]), "+f"((d)[110]), "+f"((d)[111]), \
  "+f"((d)[112]), "+f"((d)[113]), "+f"((d)[114]), "+f"((d)[115]), "+f"((d)[116]), "+f"((d)[117]), "+f"((d)[118]), "+f"((d)[119]), \
  "+f"((d)[120]), "+f"((d)[121]), "+f"((d)[122]), "+f"((d)[123]), "+f"((d)[124]), "+f"((d)[125]), "+f"((d)[126]), "+f"((d)[127])
#define KILN_WGMMA_REGISTER "f"
#define KILN_ACC_IN(x) "f"(x)
#define KILN_ACC_OUT(x) "=f"(x)

// ---- cuda/common/hilbert.h ----
// Tiles in the order of a curve whose steps lead to neighbours, so that those that run at the same
// time, and those that run next, share rows of both operands in L2. Bands of kGroup tiles along the
// left side are divided into squares; every other band runs backwards. Inside a whole square runs
// a Hilbert curve; what is left at the edges goes line by line. Expects types.h.

struct Place {
  int left, right;
};

/// Place `at` of the curve through `side` x `side` tiles, a power of two: from (0, 0) to
/// (0, side - 1), where the next square begins.
KILN_DEVICE Place in_square(unsigned at, int side) {
  Place place = {0, 0};
  for (int half = 1; half < side; half *= 2) {
    const int far_right = at / 2 % 2, far_left = (at ^ unsigned(far_right)) % 2;
    // The near quarters hold the smaller curve mirrored at one diagonal or the other.
    if (far_left == 0) {
      const Place smaller = place;
      place.left = far_right == 0 ? smaller.right : half - 1 - smaller.right;
      place.right = far_right == 0 ? smaller.left : half - 1 - smaller.left;
    }
    place.left += far_left * half;
    place.right += far_right * half;
    at /= 4;
  }
  return place;
}

/// Place `at` of `lefts` x `rights` tiles, each once.
KILN_DEVICE Place on_curve(int at, int lefts, int rights, int side) {
  const int band = at / (side * rights), rest = lefts - band * side;
  const int height = rest < side ? rest : side;
  int in_band = at - band * side * rights;
  if (band % 2 == 1) in_band = height * rights - 1 - in_band;
  const int square = in_band / (side * height), in = in_band - square * side * height;
  const bool whole = height == side && (square + 1) * side <= rights;
  Place place = {in % height, in / height};
  if (whole) place = in_square(unsigned(in), side);
  place.left += band * side;
  place.right += square * side;
  return place;
}
