// device:  sm_90a
// problem: bf16 N T 4096 14336 4096 align=16 gate=silu
// config:  cuda_wgmma left=128 right=256 stages=4 warpgroups=2 pingpong=0 swap=0 cluster_left=2 cluster_right=1 sharing=tiles splits=1 along=left group=8 pack_a=0 pack_b=0 keep_right=0 promote=0

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

// ---- cuda/common/epilogue.h ----
// What happens to a sum: alpha, beta·C, bias, activation, residual, in that order, in Real. Expects
// convert.h, and from the parameters TypeD, Acc and Real.

/// x / y for y from 1 on, to two units in the last place; 0 beyond 2^126. Without the branch of an
/// exact division the elements of a lane are computed beside each other.
KILN_DEVICE float quotient(float x, float y) { return __fdividef(x, y); }
KILN_DEVICE double quotient(double x, double y) { return x / y; }

KILN_DEVICE Real activate(Real x) { return quotient(x, Real(1) + Real(exp(-x))); }

/// Rounded before anything is added: whether a compiler would fuse alpha · sum with the bias behind
/// it differs from kernel to kernel, and the bits of an element must not. The product beta · C
/// behind it is left to the compiler, which always fuses it: there is one way only.
KILN_DEVICE float product(float x, float y) { return __fmul_rn(x, y); }
KILN_DEVICE double product(double x, double y) { return __dmul_rn(x, y); }

/// Where results go. Pointers are those of one batch.
struct Output {
  TypeD* d;
  const TypeD* c;  // null when beta == 0: C is then never read
  const TypeD* residual;
  const Real* bias;
  i64 ldd, ldc;
  i64 rows, columns;
  Real alpha, beta;
};

KILN_DEVICE Output output_of(const KilnGpuArgs& args, i64 batch) {
  Output out;
  out.d = static_cast<TypeD*>(args.d) + batch * args.stride_d;
  out.c = args.beta != 0 ? static_cast<const TypeD*>(args.c) + batch * args.stride_c : nullptr;
  out.residual = static_cast<const TypeD*>(args.residual) + batch * args.stride_d;
  out.bias = static_cast<const Real*>(args.bias);
  out.ldd = args.ldd;
  out.ldc = args.ldc;
  out.rows = args.m;
  out.columns = args.n;
  out.alpha = Real(args.alpha);
  out.beta = Real(args.beta);
  return out;
}

/// Columns of the product under one of D: of what goes through the gate, and of the other factor.
KILN_DEVICE i64 first_factor(const Output& out, i64 column) {
  return column;
}
KILN_DEVICE i64 second_factor(const Output& out, i64 column) {
  return out.columns + column;
}

/// A sum with alpha, the scales of its row and of the product's column, and the bias.
KILN_DEVICE Real factor(const Output& out, Real x, i64 row, i64 column) {
  x = product(x, out.alpha);
  return x;
}

/// An element of D, but for the residual, from the sums of both products; one outside D reads what
/// D's first element does, instead of a branch, and is 0.
KILN_DEVICE Real gated(const Output& out, Real first, Real second, i64 row, i64 column) {
  const bool there = row < out.rows && column < out.columns;
  if (!there) row = column = 0;
  const Real x = product(activate(factor(out, first, row, first_factor(out, column))),
                         factor(out, second, row, second_factor(out, column)));
  return there ? x : Real(0);
}

// ---- cuda/wgmma/copy.h ----
// The warpgroup that copies: bulk tensor copies of both operands into the ring. Expects abi.h,
// hopper_ptx.h, grid_ptx.h, tile_scheduler.h, ring.h.

/// Copies this block's share of one operand's rows and hands it to every block that needs it.
template <bool AcrossK, int Rows, int Sharers>
KILN_DEVICE void copy_rows(u32 to, const KilnTensorMap* map,
                           u32 barrier, int row, int k, int batch, u32 share, u16 mask, u64 hint) {
  if constexpr (AcrossK) {
    // Boxes of 64 rows by a share of the stage's k, k being the slow direction.
    constexpr int kShare = kDepth / Sharers;
    const u32 offset = share * kShare * 128;
    _Pragma("unroll") for (int block = 0; block < (Rows + 63) / 64; ++block) {
      const u32 there = to + block * 64 * 128 + offset;
      if constexpr (Sharers > 1)
        tma_load_multicast_3d(there, map, barrier, row + block * 64, k + int(share) * kShare, batch,
                              mask, hint);
      else
        tma_load_3d(there, map, barrier, row + block * 64, k, batch, hint);
    }
  } else {
    constexpr int kShare = Rows / Sharers;
    if constexpr (Sharers > 1)
      tma_load_multicast_3d(to + share * kShare * 128, map, barrier, k, row + int(share) * kShare,
                            batch, mask, hint);
    else
      tma_load_3d(to, map, barrier, k, row, batch, hint);
  }
}

/// Lines of one block's tile of B: units of each factor's lines in turn.
constexpr int kUnit = kSwap ? kWarpgroupRows / 2 : kRightTile / 2;

/// As copy_rows(), of B's two factors, which the map counts as batches. `line`: of either factor.
template <bool AcrossK, int Lines, int Sharers>
KILN_DEVICE void copy_factors(u32 to, const KilnTensorMap* map, u32 barrier, int line, int k,
                              int batch, u32 share, u16 mask, u64 hint) {
  constexpr int kUnits = Lines / kUnit / Sharers, kBox = AcrossK ? 64 : kUnit;
  _Pragma("unroll") for (int i = 0; i < kUnits; ++i) {
    const int unit = int(share) * kUnits + i;
    _Pragma("unroll") for (int at = 0; at < kUnit; at += kBox) {
      const u32 there = to + (unit * kUnit + at) * 128;
      const int first = line + unit / 2 * kUnit + at, factor = batch * 2 + unit % 2;
      if constexpr (Sharers > 1)
        tma_load_multicast_3d(there, map, barrier, AcrossK ? first : k, AcrossK ? k : first, factor,
                              mask, hint);
      else
        tma_load_3d(there, map, barrier, AcrossK ? first : k, AcrossK ? k : first, factor, hint);
    }
  }
}

KILN_DEVICE TileScheduler scheduler_of(const KilnGpuArgs& args, u32 rank) {
  const int left_rows = int(kSwap ? 2 * args.n : args.m);
  const int right_rows = int(kSwap ? args.m : 2 * args.n);
  return TileScheduler::start(
      (left_rows + kLeftTile * kClusterLeft - 1) / (kLeftTile * kClusterLeft),
      (right_rows + kRightTile * kClusterRight - 1) / (kRightTile * kClusterRight),
      (int(args.k) + kDepth - 1) / kDepth, int(args.batch), rank);
}

/// One thread fills the ring.
KILN_DEVICE void copy_all(const Shared& shared, TileScheduler scheduler,
                          const KilnTensorMap* left,
                          const KilnTensorMap* right
) {
  const u32 rank_left = scheduler.rank % kClusterLeft, rank_right = scheduler.rank / kClusterLeft;
  // The blocks with my rows of the left operand, and those with my rows of the right one.
  const u16 same_left = kClusterRight > 1 ? (1 << kCluster) - 1 : 1;
  const u16 same_right = kClusterLeft > 1 ? (1 << kCluster) - 1 : 1;
  Turn turn;
  Work work;
  bool more = scheduler.take(work);
  // Everything before this overlaps with the end of the grid before.
  wait_for_previous_grid();
  let_next_grid_start();
  for (; more; more = scheduler.take(work)) {
    for (int i = 0; i < work.count; ++i) {
      mbarrier_wait(shared.empty + turn.stage * 8, turn.parity ^ 1);
      const u32 barrier = shared.full + turn.stage * 8;
      const u32 to = shared.ring + turn.stage * kStageBytes;
      const int k = (work.begin + i) * kDepth;
      mbarrier_expect(barrier, kStageBytes);
      copy_rows<kLeftAcrossK, kLeftTile, kClusterRight>(to, left, barrier, work.left * kLeftTile, k,
                                                        work.batch, rank_right, same_left,
                                                        kLeftHint);
      copy_factors<kRightAcrossK, kRightTile, kClusterLeft>(
          to + kLeftBytes, right, barrier, work.right * (kRightTile / 2), k, work.batch, rank_left,
          same_right, kRightHint);
      turn.step();
    }
  }
}

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

/// D's tile, of half as many columns as B's has lines: what follows sees it alone.
namespace of_d {
constexpr int kSums = kSwap ? ::kSums : ::kSums / 2,
              kSubtiles = kSwap ? ::kSubtiles / 2 : ::kSubtiles;
constexpr int kLeftTile = kSwap ? ::kLeftTile / 2 : ::kLeftTile;
constexpr int kRightTile = kSwap ? ::kRightTile : ::kRightTile / 2;
constexpr int kPart = kChunk / 2;  // sums of one chunk
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

/// What is left for sums [i, i + kTogether) of D, in place.
KILN_DEVICE void finish_sums(Acc (&sums)[kSums], const Output& out, i64 left, i64 right,
                             int i) {
  // Otherwise loads of later sums move up here, and sums already fill the registers.
  compiler_barrier();
}

KILN_DEVICE TypeD stored(Acc sum, bool exact) {
  return from_real(real_of(sum), TypeD{});
}

constexpr int kPitch = (kSwap ? 16 : kChunk) * int(sizeof(TypeD));  // bytes of a buffer's row

KILN_DEVICE u32 swizzled(int row, int unit) { return swizzled_byte(row, unit, kPitch); }

/// A warp's 16 left rows by kChunk right rows, from group `j` of 8 on, into a buffer.
KILN_DEVICE void fill_buffer(const Acc (&sums)[kSums], int j, u32 buffer, int lane, bool) {
  const auto two = [&](int i) { return pack_two(real_of(sums[i]), real_of(sums[i + 1]), TypeD{}); };
  _Pragma("unroll") for (int g = 0; g < kChunk / 8; g += kChunk == 8 ? 1 : 2) {
    const int i = (j + g) * 4;
    const int row = lane & 15;
    if constexpr (kChunk == 8)
      stmatrix_x2(buffer + swizzled(row, 0), two(i), two(i + 2));
    else
      stmatrix_x4(buffer + swizzled(row, g + (lane >> 4)), two(i), two(i + 2), two(i + 4),
                  two(i + 6));
  }
}

/// One warpgroup's part of a tile.
KILN_DEVICE void store_tile(Acc (&sums)[kSubtiles][kSums], const Work& work,
                            const KilnGpuArgs& args, const KilnTensorMap* map_d, u32 buffers,
                            u32 row_offset, int group, int thread) {
  const Output out = output_of(args, work.batch);
  const int warp = thread / 32, lane = thread & 31;
  const i64 left = i64(work.left) * kLeftTile + row_offset + warp * 16;
  const i64 right = i64(work.right) * kRightTile;
  const i64 my_left = left + lane / 4, my_right = right + lane % 4 * 2;
  const bool exact = false;
  const u32 mine = buffers + u32(group * 4 + warp) * kStoreBuffers * kBufferBytes;
  _Pragma("unroll") for (int s = 0; s < kSubtiles; ++s)
    _Pragma("unroll") for (int chunk = 0; chunk < kRightTile / kChunk; ++chunk) {
        if (!exact)
          _Pragma("unroll") for (int i = 0; i < kPart; i += kTogether)
            finish_sums(sums[s], out, my_left + s * 64, my_right, chunk * kPart + i);
      const u32 here = mine + (s * (kRightTile / kChunk) + chunk) % kStoreBuffers * kBufferBytes;
      const i64 l = left + s * 64, r = right + chunk * kChunk;
      // An odd number of chunks leaves the first buffer to the last store of the tile before.
      if (lane == 0) {
        if (s == 0 && chunk == 0)
          tma_store_wait_read<0>();
        else
          tma_store_wait_read<kStoreBuffers - 1>();
      }
      __syncwarp();
      fill_buffer(sums[s], chunk * (kChunk / 8), here, lane, exact);
      fence_async_shared();
      __syncwarp();
      if (lane == 0) {
        tma_store_3d(map_d, here, int(column_of(l, r)), int(row_of(l, r)), work.batch);
        tma_store_commit();
      }
    }
}
}  // namespace of_d

/// The sums of both products of a warpgroup's tile become D's elements, but for the residual.
/// (left, right) is D's under sum 0.
KILN_DEVICE void pass_gate(Acc (&d)[of_d::kSubtiles][of_d::kSums],
                           const Acc (&sums)[kSubtiles][kSums], const Output& out, i64 left,
                           i64 right) {
  _Pragma("unroll") for (int s = 0; s < of_d::kSubtiles; ++s)
    _Pragma("unroll") for (int i = 0; i < of_d::kSums; i += 4) {
      _Pragma("unroll") for (int e = 0; e < 4; ++e) {
        const Acc other = kSwap ? sums[s + of_d::kSubtiles][i + e] : sums[s][i + of_d::kSums + e];
        const i64 l = left + s * 64 + (e & 2) * 4, r = right + i / 4 * 8 + (e & 1);
        d[s][i + e] = kept(gated(out, first_real(sums[s][i + e]), first_real(other), row_of(l, r),
                                 column_of(l, r)));
      }
      compiler_barrier();
    }
}

/// One warpgroup's part of a tile, whose rows of the left operand start at `row_offset`.
KILN_DEVICE void store_gated(const Acc (&sums)[kSubtiles][kSums], const Work& work,
                             const KilnGpuArgs& args, const KilnTensorMap* map_d, u32 buffers,
                             u32 row_offset, int group, int thread) {
  const Output out = output_of(args, work.batch);
  const u32 first = kSwap ? row_offset / 2 : row_offset;
  const int lane = thread & 31;
  Acc d[of_d::kSubtiles][of_d::kSums];
  pass_gate(d, sums, out, i64(work.left) * of_d::kLeftTile + first + thread / 32 * 16 + lane / 4,
            i64(work.right) * of_d::kRightTile + lane % 4 * 2);
  of_d::store_tile(d, work, args, map_d, buffers, first, group, thread);
}
