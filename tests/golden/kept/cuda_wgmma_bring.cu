// device:  sm_90a
// problem: bf16 N T 4096 4096 4096 epilogue=d=gelu(acc+x0[n])*x1[m,n]+x2[n,m] align=16
// config:  cuda_wgmma left=128 right=128 stages=4 warpgroups=2 pingpong=1 swap=0 cluster_left=1 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 promote=0 bring=1

// ---- parameters ----
using TypeA = Bfloat;                             // elements of A
using TypeB = Bfloat;                             // elements of B
using TypeD = Bfloat;                             // elements of C and D
using Acc = float;                                // accumulators
using Real = float;                               // what the epilogue computes in
constexpr int kLeftTile = 128;                    // rows of the left operand in a block's tile
constexpr int kRightTile = 128;                   // rows of the right operand in it
constexpr int kDepth = 64;                        // k of one stage
constexpr int kStages = 4;                        // places in the ring
constexpr int kWarpgroups = 2;                    // that multiply
constexpr int kWarpgroupRows = 128;               // left rows of each
constexpr int kSums = 64;                         // of a thread, for 64 left rows
constexpr int kReaders = 4;                       // warps that read one stage
constexpr int kRegions = 1;                       // warpgroups that share a tile
constexpr int kClusterLeft = 1;                   // blocks of a cluster along the left rows
constexpr int kClusterRight = 1;                  // and along the right rows
constexpr int kGroup = 8;                         // tiles across a band of the rasterization
constexpr int kChunk = 16;                        // right rows that one store buffer holds
constexpr int kStoreBuffers = 2;                  // of each warp
constexpr int kHeld = 8;                          // sums of a thread that are finished together
constexpr int kTurnsOfPart = 8;                   // turns for which a part of matrices is brought
constexpr int kPartRight = 128;                   // right rows of such a part
constexpr int kParts = 2;                         // parts of a tile
constexpr int kPartBytes = 32768;                 // bytes of a part
constexpr int kCopyRegisters = 56;                // of the warps that copy
constexpr int kMultiplyRegisters = 224;           // of the warps that multiply
constexpr int kTurnBarrier = 1;                   // named barriers 1 and 2: whose turn it is
constexpr int kGroupBarrier = 3;                  // named barriers from 3 on: one a warpgroup
constexpr int kCounterBytes = 0;                  // front of the workspace
constexpr bool kPackA = false;                    // A is copied into the workspace first
constexpr bool kPackB = false;                    // B is copied into the workspace first
constexpr bool kAlongKA = true;                   // A's neighbours run along k
constexpr bool kAlongKB = true;                   // B's neighbours run along k
constexpr bool kSwap = false;                     // left is B: D's tile is computed transposed
constexpr bool kLeftAcrossK = false;              // the left operand's rows are neighbours in memory
constexpr bool kRightAcrossK = false;             // the right operand's rows are neighbours
constexpr u64 kLeftHint = 0x1000000000000000;     // L2 policy: evict first, or normal
constexpr u64 kBroughtHint = 0x1000000000000000;  // of matrices that an expression reads
constexpr u64 kRightHint = 0x1000000000000000;    // L2 policy: evict last, or normal
#define KILN_WGMMA_NAME "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"
#define KILN_WGMMA_SUMS "{%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63}"
#define KILN_WGMMA_OPERANDS "%64, %65, p, 1, 1, 0, 0"
#define KILN_WGMMA_ACCUMULATE "66"
#define KILN_WGMMA_TIED(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]), "+f"((d)[4]), "+f"((d)[5]), "+f"((d)[6]), "+f"((d)[7]), \
  "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11]), "+f"((d)[12]), "+f"((d)[13]), "+f"((d)[14]), "+f"((d)[15]), \
  "+f"((d)[16]), "+f"((d)[17]), "+f"((d)[18]), "+f"((d)[19]), "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23]), \
  "+f"((d)[24]), "+f"((d)[25]), "+f"((d)[26]), "+f"((d)[27]), "+f"((d)[28]), "+f"((d)[29]), "+f"((d)[30]), "+f"((d)[31]), \
  "+f"((d)[32]), "+f"((d)[33]), "+f"((d)[34]), "+f"((d)[35]), "+f"((d)[36]), "+f"((d)[37]), "+f"((d)[38]), "+f"((d)[39]), \
  "+f"((d)[40]), "+f"((d)[41]), "+f"((d)[42]), "+f"((d)[43]), "+f"((d)[44]), "+f"((d)[45]), "+f"((d)[46]), "+f"((d)[47]), \
  "+f"((d)[48]), "+f"((d)[49]), "+f"((d)[50]), "+f"((d)[51]), "+f"((d)[52]), "+f"((d)[53]), "+f"((d)[54]), "+f"((d)[55]), \
  "+f"((d)[56]), "+f"((d)[57]), "+f"((d)[58]), "+f"((d)[59]), "+f"((d)[60]), "+f"((d)[61]), "+f"((d)[62]), "+f"((d)[63])
#define KILN_WGMMA_REGISTER "f"
#define KILN_TURN_BRANCHES "turns: .branchtargets t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12, t13, t14, t15;\n" \
  "brx.idx %136, turns;\n" \
  "t0: mov.b32 %0, %8; mov.b32 %1, %9; mov.b32 %2, %10; mov.b32 %3, %11; mov.b32 %4, %12; mov.b32 %5, %13; mov.b32 %6, %14; mov.b32 %7, %15;\nbra done;\n" \
  "t1: mov.b32 %0, %16; mov.b32 %1, %17; mov.b32 %2, %18; mov.b32 %3, %19; mov.b32 %4, %20; mov.b32 %5, %21; mov.b32 %6, %22; mov.b32 %7, %23;\nbra done;\n" \
  "t2: mov.b32 %0, %24; mov.b32 %1, %25; mov.b32 %2, %26; mov.b32 %3, %27; mov.b32 %4, %28; mov.b32 %5, %29; mov.b32 %6, %30; mov.b32 %7, %31;\nbra done;\n" \
  "t3: mov.b32 %0, %32; mov.b32 %1, %33; mov.b32 %2, %34; mov.b32 %3, %35; mov.b32 %4, %36; mov.b32 %5, %37; mov.b32 %6, %38; mov.b32 %7, %39;\nbra done;\n" \
  "t4: mov.b32 %0, %40; mov.b32 %1, %41; mov.b32 %2, %42; mov.b32 %3, %43; mov.b32 %4, %44; mov.b32 %5, %45; mov.b32 %6, %46; mov.b32 %7, %47;\nbra done;\n" \
  "t5: mov.b32 %0, %48; mov.b32 %1, %49; mov.b32 %2, %50; mov.b32 %3, %51; mov.b32 %4, %52; mov.b32 %5, %53; mov.b32 %6, %54; mov.b32 %7, %55;\nbra done;\n" \
  "t6: mov.b32 %0, %56; mov.b32 %1, %57; mov.b32 %2, %58; mov.b32 %3, %59; mov.b32 %4, %60; mov.b32 %5, %61; mov.b32 %6, %62; mov.b32 %7, %63;\nbra done;\n" \
  "t7: mov.b32 %0, %64; mov.b32 %1, %65; mov.b32 %2, %66; mov.b32 %3, %67; mov.b32 %4, %68; mov.b32 %5, %69; mov.b32 %6, %70; mov.b32 %7, %71;\nbra done;\n" \
  "t8: mov.b32 %0, %72; mov.b32 %1, %73; mov.b32 %2, %74; mov.b32 %3, %75; mov.b32 %4, %76; mov.b32 %5, %77; mov.b32 %6, %78; mov.b32 %7, %79;\nbra done;\n" \
  "t9: mov.b32 %0, %80; mov.b32 %1, %81; mov.b32 %2, %82; mov.b32 %3, %83; mov.b32 %4, %84; mov.b32 %5, %85; mov.b32 %6, %86; mov.b32 %7, %87;\nbra done;\n" \
  "t10: mov.b32 %0, %88; mov.b32 %1, %89; mov.b32 %2, %90; mov.b32 %3, %91; mov.b32 %4, %92; mov.b32 %5, %93; mov.b32 %6, %94; mov.b32 %7, %95;\nbra done;\n" \
  "t11: mov.b32 %0, %96; mov.b32 %1, %97; mov.b32 %2, %98; mov.b32 %3, %99; mov.b32 %4, %100; mov.b32 %5, %101; mov.b32 %6, %102; mov.b32 %7, %103;\nbra done;\n" \
  "t12: mov.b32 %0, %104; mov.b32 %1, %105; mov.b32 %2, %106; mov.b32 %3, %107; mov.b32 %4, %108; mov.b32 %5, %109; mov.b32 %6, %110; mov.b32 %7, %111;\nbra done;\n" \
  "t13: mov.b32 %0, %112; mov.b32 %1, %113; mov.b32 %2, %114; mov.b32 %3, %115; mov.b32 %4, %116; mov.b32 %5, %117; mov.b32 %6, %118; mov.b32 %7, %119;\nbra done;\n" \
  "t14: mov.b32 %0, %120; mov.b32 %1, %121; mov.b32 %2, %122; mov.b32 %3, %123; mov.b32 %4, %124; mov.b32 %5, %125; mov.b32 %6, %126; mov.b32 %7, %127;\nbra done;\n" \
  "t15: mov.b32 %0, %128; mov.b32 %1, %129; mov.b32 %2, %130; mov.b32 %3, %131; mov.b32 %4, %132; mov.b32 %5, %133; mov.b32 %6, %134; mov.b32 %7, %135;\n"
#define KILN_TURN_TAKEN(d) "=&f"((d)[0]), "=&f"((d)[1]), "=&f"((d)[2]), "=&f"((d)[3]), "=&f"((d)[4]), "=&f"((d)[5]), "=&f"((d)[6]), "=&f"((d)[7])
#define KILN_TURN_SUMS(d) "f"((d)[0][0]), "f"((d)[0][1]), "f"((d)[0][2]), "f"((d)[0][3]), "f"((d)[0][4]), "f"((d)[0][5]), \
  "f"((d)[0][6]), "f"((d)[0][7]), "f"((d)[0][8]), "f"((d)[0][9]), "f"((d)[0][10]), "f"((d)[0][11]), \
  "f"((d)[0][12]), "f"((d)[0][13]), "f"((d)[0][14]), "f"((d)[0][15]), "f"((d)[0][16]), "f"((d)[0][17]), \
  "f"((d)[0][18]), "f"((d)[0][19]), "f"((d)[0][20]), "f"((d)[0][21]), "f"((d)[0][22]), "f"((d)[0][23]), \
  "f"((d)[0][24]), "f"((d)[0][25]), "f"((d)[0][26]), "f"((d)[0][27]), "f"((d)[0][28]), "f"((d)[0][29]), \
  "f"((d)[0][30]), "f"((d)[0][31]), "f"((d)[0][32]), "f"((d)[0][33]), "f"((d)[0][34]), "f"((d)[0][35]), \
  "f"((d)[0][36]), "f"((d)[0][37]), "f"((d)[0][38]), "f"((d)[0][39]), "f"((d)[0][40]), "f"((d)[0][41]), \
  "f"((d)[0][42]), "f"((d)[0][43]), "f"((d)[0][44]), "f"((d)[0][45]), "f"((d)[0][46]), "f"((d)[0][47]), \
  "f"((d)[0][48]), "f"((d)[0][49]), "f"((d)[0][50]), "f"((d)[0][51]), "f"((d)[0][52]), "f"((d)[0][53]), \
  "f"((d)[0][54]), "f"((d)[0][55]), "f"((d)[0][56]), "f"((d)[0][57]), "f"((d)[0][58]), "f"((d)[0][59]), \
  "f"((d)[0][60]), "f"((d)[0][61]), "f"((d)[0][62]), "f"((d)[0][63]), "f"((d)[1][0]), "f"((d)[1][1]), \
  "f"((d)[1][2]), "f"((d)[1][3]), "f"((d)[1][4]), "f"((d)[1][5]), "f"((d)[1][6]), "f"((d)[1][7]), \
  "f"((d)[1][8]), "f"((d)[1][9]), "f"((d)[1][10]), "f"((d)[1][11]), "f"((d)[1][12]), "f"((d)[1][13]), \
  "f"((d)[1][14]), "f"((d)[1][15]), "f"((d)[1][16]), "f"((d)[1][17]), "f"((d)[1][18]), "f"((d)[1][19]), \
  "f"((d)[1][20]), "f"((d)[1][21]), "f"((d)[1][22]), "f"((d)[1][23]), "f"((d)[1][24]), "f"((d)[1][25]), \
  "f"((d)[1][26]), "f"((d)[1][27]), "f"((d)[1][28]), "f"((d)[1][29]), "f"((d)[1][30]), "f"((d)[1][31]), \
  "f"((d)[1][32]), "f"((d)[1][33]), "f"((d)[1][34]), "f"((d)[1][35]), "f"((d)[1][36]), "f"((d)[1][37]), \
  "f"((d)[1][38]), "f"((d)[1][39]), "f"((d)[1][40]), "f"((d)[1][41]), "f"((d)[1][42]), "f"((d)[1][43]), \
  "f"((d)[1][44]), "f"((d)[1][45]), "f"((d)[1][46]), "f"((d)[1][47]), "f"((d)[1][48]), "f"((d)[1][49]), \
  "f"((d)[1][50]), "f"((d)[1][51]), "f"((d)[1][52]), "f"((d)[1][53]), "f"((d)[1][54]), "f"((d)[1][55]), \
  "f"((d)[1][56]), "f"((d)[1][57]), "f"((d)[1][58]), "f"((d)[1][59]), "f"((d)[1][60]), "f"((d)[1][61]), \
  "f"((d)[1][62]), "f"((d)[1][63])
#define KILN_ACC_IN(x) "f"(x)
#define KILN_ACC_OUT(x) "=f"(x)

// ---- cuda/wgmma/ring.h ----
// The ring of pipeline stages in shared memory. Expects tile.h.

/// Shared memory: the ring, buffers of stores, barriers.
struct Shared {
  u32 ring, buffers, full, empty, flags;  // flags of shared k, or the tables of groups
  u32 parts, parts_full, parts_empty;  // of matrices that an expression reads (bring.h)
  static __device__ __forceinline__ Shared at(u32 base) {
    Shared s;
    s.ring = base;
    s.buffers = base + kStages * kStageBytes;
    s.parts = (s.buffers + kStoreBytes + 1023) / 1024 * 1024;
    s.full = s.parts + kParts * kPartBytes;
    s.empty = s.full + kStages * 8;
    s.parts_full = s.empty + kStages * 8;
    s.parts_empty = s.parts_full + 2 * kParts * 8;
    s.flags = s.parts_empty + kParts * 8;
    return s;
  }
};

/// Where in the ring a warp is, and the parity of that place's barriers.
struct Turn {
  int stage = 0;
  u32 parity = 0;
  __device__ __forceinline__ void step() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  __device__ __forceinline__ void skip(int count) {
    const int at = stage + count;
    parity ^= u32(at / kStages) & 1;
    stage = at % kStages;
  }
};

// ---- cuda/wgmma/bring_ptx.h ----
// Loads of what bring.h brought.

KILN_DEVICE void load_shared(u16& x, u32 from) {
  asm volatile("ld.shared.b16 %0, [%1];" : "=h"(x) : "r"(from) : "memory");
}
KILN_DEVICE void load_shared(u32& x, u32 from) {
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
}
KILN_DEVICE void load_shared(u64& x, u32 from) {
  asm volatile("ld.shared.b64 %0, [%1];" : "=l"(x) : "r"(from) : "memory");
}

// ---- cuda/wgmma/bring.h ----
// Matrices of D's shape that an expression reads come by the copy engine while a tile is
// multiplied, in parts of some turns each. They lie in the ring, behind the tile's stages. Where
// warpgroups take turns, one would wait for places that the other still reads: there parts have
// places of their own. Expects epilogue.h, hopper_ptx.h, tile_scheduler.h, ring.h.

// A part of a tile of D: of each warpgroup 64 left rows by kPartRight right ones.
constexpr int kLeftOfGroup = kWarpgroupRows, kLeftOfTile = kLeftTile;
constexpr int kRightOfTile = kRightTile;
constexpr int kPartsOf64 = kRightOfTile / kPartRight;
static_assert(kParts == kLeftOfGroup / 64 * kPartsOf64);

/// A warpgroup's part of a matrix in shared memory: boxes of kBox bytes of each line, whose units
/// of 16 bytes the copy engine exchanges. kOfRow: lines are rows of D.
template <typename T, bool kOfRow>
struct Brought {
  static constexpr bool kAlongRight = kOfRow != kSwap;
  static constexpr int kLines = kAlongRight ? 64 : kPartRight;
  static constexpr int kLength = kAlongRight ? kPartRight : 64, kSize = int(sizeof(T));
  static constexpr int kBox = kLength * kSize % 128 == 0  ? 128
                              : kLength * kSize % 64 == 0 ? 64
                              : kLength * kSize % 32 == 0 ? 32
                                                          : 16;
  static constexpr int kBytes = kLines * kLength * kSize;
};
/// Their tensor maps.
struct BroughtMaps {
  const KilnTensorMap* x1;
  const KilnTensorMap* x2;
};
constexpr int kBroughtBytes = Brought<Bfloat, true>::kBytes + Brought<Bfloat, false>::kBytes;
static_assert(kPartBytes == kBroughtBytes);

/// Where among the parts' places a warp is, and the parity of its barriers: a place is free when
/// the tile before has been read, and each warpgroup has a barrier of its own that says when its
/// tile's part is there, because a warp cannot wait for a phase behind the next one.
struct PartTurn {
  int place = 0;
  u32 parity = 0;
  __device__ __forceinline__ void step() {
    if (++place == kParts) {
      place = 0;
      parity ^= 1;
    }
  }
};

KILN_DEVICE bool in_units(const void* from) { return (reinterpret_cast<u64>(from) & 15) == 0; }
/// Whether the copy engine can bring all of them.
KILN_DEVICE bool brings(const Output& out) {
  return in_units(out.x1) && in_units(out.x2);
}
KILN_DEVICE Output output_under(const KilnGpuArgs& args, const Work& work) {
  return output_of(args, work.batch);
}

/// Copies a warpgroup's part of a matrix: from (left, right) of D's tile on.
template <typename T, bool kOfRow>
KILN_DEVICE u32 bring_lines(u32 to, u32 barrier, const KilnTensorMap* map, int left, int right,
                            int first_row, int batch) {
  using Lines = Brought<T, kOfRow>;
  const int row = first_row + (kSwap ? right : left), column = kSwap ? left : right;
  _Pragma("unroll") for (int box = 0; box < Lines::kLength * Lines::kSize / Lines::kBox; ++box) {
    const int along = box * (Lines::kBox / Lines::kSize);
    tma_load_3d(to + box * (Lines::kLines * Lines::kBox), map, barrier,
                (kOfRow ? column : row) + along, kOfRow ? row : column, batch, kBroughtHint);
  }
  return to + Lines::kBytes;
}

/// All parts of a tile.
KILN_DEVICE void bring_tile(const Shared& shared, PartTurn& turn, const KilnGpuArgs& args,
                            const BroughtMaps& maps, const Work& work) {
  if (!brings(output_under(args, work))) return;
  const int first_row = 0, batch = work.batch;
  _Pragma("unroll 1") for (int part = 0; part < kParts; ++part) {
    // Of the tiles every other one is each warpgroup's.
    mbarrier_wait(shared.parts_empty + turn.place * 8, turn.parity ^ 1);
    const u32 barrier = shared.parts_full + (turn.parity * kParts + turn.place) * 8;
    u32 to = shared.parts + turn.place * kPartBytes;
    mbarrier_expect(barrier, kRegions * kBroughtBytes);
    const int right = work.right * kRightOfTile + part % kPartsOf64 * kPartRight;
    _Pragma("unroll") for (int region = 0; region < kRegions; ++region) {
      const int left = work.left * kLeftOfTile + region * kLeftOfGroup + part / kPartsOf64 * 64;
      to = bring_lines<Bfloat, true>(to, barrier, maps.x1, left, right, first_row, 0);
      to = bring_lines<Bfloat, false>(to, barrier, maps.x2, left, right, first_row, 0);
    }
    turn.step();
  }
}

// ---- cuda/wgmma/consumer.h ----
// What every warpgroup that multiplies does with the ring and its sums. Expects wgmma_ptx.h,
// ring.h.

/// This warp no longer reads a place of the ring: every block that writes to it must know.
KILN_DEVICE void release(u32 empty, int lane) {
  if (lane == 0) mbarrier_arrive(empty);
}

/// All sums, so that the compiler keeps what it does with them on its side of a wait.
KILN_DEVICE void pin_all(Acc (&sums)[kSubtiles][kSums]) {
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int r = 0; r < kSums; ++r) pin(sums[s][r]);
}

/// The parts of a tile, one after the other (bring.h).
struct Parts {
  const Shared& shared;
  PartTurn& turn;
  int group;
  bool there;  // otherwise lanes read memory
  u32 part;    // the warpgroup's, of the turns at hand

  __device__ __forceinline__ void before(int of_tile) {
    if (!there || of_tile % kTurnsOfPart != 0) return;
    mbarrier_wait(shared.parts_full + (group * kParts + turn.place) * 8, turn.parity);
    part = shared.parts + turn.place * kPartBytes;
  }
  __device__ __forceinline__ void behind(int of_tile, int lane) {
    if (!there || of_tile % kTurnsOfPart != kTurnsOfPart - 1) return;
    __syncwarp();
    if (lane == 0) mbarrier_arrive(shared.parts_empty + turn.place * 8);
    turn.step();
  }
};

// ---- cuda/wgmma/store.h ----
// A warp's sums to D: finished in registers a chunk at a time, then through swizzled buffers of its
// own in shared memory and the copy engine, or coalesced stores, or straight from registers. Warps
// never wait for each other here. Expects epilogue.h, hopper_ptx.h, store_ptx.h.

/// Element (row of left, row of right) of a tile as (row, column) of D.
KILN_DEVICE i64 row_of(i64 left, i64 right) { return kSwap ? right : left; }
KILN_DEVICE i64 column_of(i64 left, i64 right) { return kSwap ? left : right; }

KILN_DEVICE Real real_of(float x) { return x; }
KILN_DEVICE float kept(Real x) { return x; }
KILN_DEVICE Real first_real(float sum) { return sum; }

constexpr int kTurns = kSubtiles * kSums / kHeld;

template <typename Lines>
KILN_DEVICE u32 place_in(u32 part, int left, int right) {
  const int line = Lines::kAlongRight ? left : right;
  const int byte = (Lines::kAlongRight ? right : left) * Lines::kSize;
  return part + u32(byte / Lines::kBox * (Lines::kLines * Lines::kBox)) +
         swizzled_byte(line, byte % Lines::kBox / 16, Lines::kBox) + u32(byte % 16);
}
/// What came through the ring for two sums, of neighbouring right rows.
KILN_DEVICE void words_of_part(Words& w, u32 part, int left, int right) {
  load_shared(w.x1, place_in<Brought<Bfloat, true>>(part, left, right));
  part += Brought<Bfloat, true>::kBytes;
  load_shared(w.x2, place_in<Brought<Bfloat, false>>(part, left, right));
  load_shared(w.next2, place_in<Brought<Bfloat, false>>(part, left, right + 1));
  part += Brought<Bfloat, false>::kBytes;
}
/// What came through the ring for a turn; `left`, `right`: of sum 0 in the part.
KILN_DEVICE void take_words(Words (&words)[kHeld / 2], u32 part, int left, int right) {
  _Pragma("unroll") for (int e = 0; e < kHeld; e += 2)
    words_of_part(words[e / 2], part, left + (e & 2) * 4, right + e / 4 * 8);
}
/// What one turn sees.
namespace of_turn {
constexpr int kSums = kHeld;
constexpr int kPart = kSums;
/// Sums that are finished together: enough loads in flight, few registers beside the sums.
constexpr int kTogether = kPart % 16 == 0 ? 16 : kPart % 8 == 0 ? 8 : 4;

/// The elements of a matrix like D under sums [i, i + kTogether); zero outside. `left`, `right`: of
/// sum 0.
KILN_DEVICE void load_under(Real (&x)[kTogether],
                            const TypeD* from,
                            i64 ld, const Output& out, i64 left, i64 right, int i) {
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    const i64 row = row_of(l, r), column = column_of(l, r);
    x[e] = row < out.rows && column < out.columns ? to_real(from[row * ld + column]) : Real(0);
  }
}

/// What the expression reads of matrices for sums [i, i + kTogether).
KILN_DEVICE void load_words(Words (&words)[kTogether / 2], const Output& out, i64 left, i64 right,
                            int i, bool in_pairs) {
  constexpr int kDown = kSwap ? 1 : 0, kRight = kSwap ? 0 : 1;
  if (in_pairs) {
    _Pragma("unroll") for (int e = 0; e < kTogether; e += 2) {
      const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8;
      words[e / 2] = words_inside<kDown, kRight>(out, row_of(l, r), column_of(l, r));
    }
  } else {
    _Pragma("unroll") for (int e = 0; e < kTogether; e += 2) {
      const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8;
      words[e / 2] = words_at_edge<kDown, kRight>(out, row_of(l, r), column_of(l, r));
    }
  }
}
/// The matrices that did not come through the ring.
KILN_DEVICE void load_under_turn(Words (&words)[kTogether / 2], const Output& out, i64 left,
                                 i64 right) {
  constexpr int kDown = kSwap ? 1 : 0, kRight = kSwap ? 0 : 1;
  _Pragma("unroll") for (int e = 0; e < kTogether; e += 2) {
    const i64 l = left + (e & 2) * 4, r = right + e / 4 * 8;
    words_under<kDown, kRight>(words[e / 2], out, row_of(l, r), column_of(l, r));
  }
}
template <bool Inside>
KILN_DEVICE void make_extras(Extras (&extras)[kTogether], const Words (&words)[kTogether / 2],
                             const Output& out, i64 left, i64 right, int i) {
  _Pragma("unroll") for (int e = 0; e < kTogether; e += 2) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8;
    extras_of_two<kSwap ? 1 : 0, kSwap ? 0 : 1, Inside>(out, words[e / 2], row_of(l, r),
                                                        column_of(l, r), extras[e], extras[e + 1]);
  }
}

/// alpha, beta·C and the rest for sums [i, i + kTogether), in place.
KILN_DEVICE void finish_sums(Acc (&sums)[kSums], const Output& out, i64 left, i64 right,
                             const Words (&words)[kTogether / 2], bool inside, bool in_pairs,
                             int i) {
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e)
    sums[i + e] = kept(product(first_real(sums[i + e]), out.alpha));
  if (out.c) {
    Real c[kTogether];
    load_under(c, out.c, out.ldc, out, left, right, i);
    _Pragma("unroll") for (int e = 0; e < kTogether; ++e)
      sums[i + e] = kept(real_of(sums[i + e]) + out.beta * c[e]);
  }
  Extras extras[kTogether];
  if (inside)
    make_extras<true>(extras, words, out, left, right, i);
  else
    make_extras<false>(extras, words, out, left, right, i);
  _Pragma("unroll") for (int e = 0; e < kTogether; ++e) {
    const i64 l = left + (e & 2) * 4, r = right + (i + e) / 4 * 8 + (e & 1);
    sums[i + e] = kept(finish(out, real_of(sums[i + e]), row_of(l, r), column_of(l, r), extras[e]));
  }
  // Otherwise loads of later sums move up here, and sums already fill the registers.
  compiler_barrier();
}

KILN_DEVICE TypeD stored(Acc sum, bool exact) {
  return from_real(real_of(sum), TypeD{});
}

constexpr int kPitch = (kSwap ? 16 : kChunk) * int(sizeof(TypeD));  // bytes of a buffer's row

KILN_DEVICE u32 swizzled(int row, int unit) { return swizzled_byte(row, unit, kPitch); }

}  // namespace of_turn

/// A warp's sums of a turn, 16 left rows by 2 * kHeld right rows of D, into its buffer: `word(i)`
/// is what of sums i and i + 1.
template <typename F>
KILN_DEVICE void fill_with_pairs(u32 buffer, int lane, F&& word) {
  constexpr int kPitch = (kSwap ? 16 : kHeld * 2) * 2;
  _Pragma("unroll") for (int g = 0; g < kHeld / 4; g += kHeld == 4 ? 1 : 2) {
    const int i = g * 4;
    const int row = lane & 15;
    if constexpr (kHeld == 4)
      stmatrix_x2(buffer + swizzled_byte(row, g, kPitch), word(i), word(i + 2));
    else
      stmatrix_x4(buffer + swizzled_byte(row, g + (lane >> 4), kPitch), word(i), word(i + 2),
                  word(i + 4), word(i + 6));
  }
}

/// A warp's part of a tile: its first element, and whether all of it is in D, in words of memory.
struct WarpTile {
  i64 left0, right0;
  bool inside, in_pairs;
};
KILN_DEVICE WarpTile warp_tile(const Output& out, const Work& work, u32 row_offset, int thread) {
  WarpTile at;
  at.left0 = i64(work.left) * kLeftTile + row_offset + thread / 32 * 16;
  at.right0 = i64(work.right) * kRightTile;
  at.inside = at.left0 + (kSubtiles * 64 - 48) <= (kSwap ? out.columns : out.rows) &&
              at.right0 + kRightTile <= (kSwap ? out.rows : out.columns);
  at.in_pairs = at.inside && pairs_fit(out);
  return at;
}
KILN_DEVICE void load_turn(Words (&words)[kHeld / 2], const Output& out, const WarpTile& at,
                           int turn, int lane) {
  of_turn::load_words(words, out, at.left0 + turn / (kSums / kHeld) * 64 + lane / 4,
                      at.right0 + turn % (kSums / kHeld) * (kHeld * 2) + lane % 4 * 2, 0,
                      at.in_pairs);
}

/// One warpgroup's part of a tile.
KILN_DEVICE void store_tile(
    const Acc (&sums)[kSubtiles][kSums],
    const Work& work, const KilnGpuArgs& args, const KilnTensorMap* map_d, u32 buffers,
    const Shared& shared, PartTurn& part_turn,
    u32 row_offset, int group, int thread) {
  Output out = output_of(args, work.batch);
  keep_in_register(out.alpha);
  const int warp = thread / 32, lane = thread & 31;
  const WarpTile at = warp_tile(out, work, row_offset, thread);
  const bool exact = false;
  const u32 mine = buffers + u32(group * 4 + warp) * kStoreBuffers * kBufferBytes;
  constexpr int kUnrolled = 1;
  Parts parts{shared, part_turn, group, brings(out), 0};
  // What the next turn needs of matrices is on its way while this one computes.
  Words next[kHeld / 2];
  load_turn(next, out, at, 0, lane);
  _Pragma("unroll kUnrolled") for (int turn = 0; turn < kTurns; ++turn) {
    const i64 left = at.left0 + turn / (kSums / kHeld) * 64;
    const i64 right = at.right0 + turn % (kSums / kHeld) * (kHeld * 2);
    Acc some[kHeld];
    take_sums(some, sums, turn);
    Words words[kHeld / 2];
    _Pragma("unroll") for (int e = 0; e < kHeld / 2; ++e) words[e] = next[e];
    if (turn + 1 < kTurns) load_turn(next, out, at, turn + 1, lane);
    parts.before(turn);
    if (parts.there)
      take_words(words, parts.part, warp * 16 + lane / 4,
                 turn % kTurnsOfPart * (kHeld * 2) + lane % 4 * 2);
    else
      of_turn::load_under_turn(words, out, left + lane / 4, right + lane % 4 * 2);
    parts.behind(turn, lane);
    of_turn::finish_sums(some, out, left + lane / 4, right + lane % 4 * 2, words, at.inside,
                         at.in_pairs, 0);
    const u32 here = mine + u32(turn % kStoreBuffers) * kBufferBytes;
    // An odd number of turns leaves the first buffer to the last store of the tile before.
    if (lane == 0) {
      if (turn == 0)
        tma_store_wait_read<0>();
      else
        tma_store_wait_read<kStoreBuffers - 1>();
    }
    __syncwarp();
    fill_with_pairs(here, lane, [&](int i) {
      return pack_two(real_of(some[i]), real_of(some[i + 1]), TypeD{});
    });
    fence_async_shared();
    __syncwarp();
    if (lane == 0) {
      tma_store_3d(map_d, here, int(column_of(left, right)), int(row_of(left, right)), work.batch);
      tma_store_commit();
    }
  }
}
