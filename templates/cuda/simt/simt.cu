// Ordinary multiply-adds, for every type and every layout. Each thread keeps kThreadM × kThreadN
// sums; tiles of A and B pass through shared memory, or are read where they lie. Expects abi.h,
// types.h, convert.h, epilogue.h, lanes.h, tile_scheduler.h, combine.h where k is divided, and
// copy.h where tiles are copied.

constexpr int kLanesN = 32 / kLanesM;
constexpr int kWarpsM = kBlockM / (kLanesM * kThreadM);
static_assert(kWarpsM * kLanesM * kThreadM == kBlockM, "warps cover the tile's rows");
static_assert(kThreads / 32 / kWarpsM * kLanesN * kThreadN == kBlockN, "and its columns");

/// How many of a thread's `count` rows or columns lie side by side.
KILN_DEVICE constexpr int run_of(int count) {
  constexpr int kMost = 16 / int(sizeof(Acc));
  return !kSpread ? count : count % kMost == 0 ? kMost : count % 2 == 0 ? 2 : 1;
}
/// How far the i-th of them is from the first, the runs of all lanes coming in between.
KILN_DEVICE constexpr int apart(int i, int count, int lanes) {
  return i / run_of(count) * run_of(count) * lanes + i % run_of(count);
}
constexpr int kRunM = run_of(kThreadM), kRunN = run_of(kThreadN);

//% if order == pairs
/// One step of k. A snake: each product shares a factor with the one before, which spares the
/// register file a read.
KILN_DEVICE void multiply_line(Acc (&sums)[kThreadM][kThreadN], const Acc (&left)[kThreadM],
                               const Acc (&right)[kThreadN]) {
  constexpr int kPair = kThreadM % 2 == 0 ? 2 : 1;
  _Pragma("unroll") for (int i = 0; i < kThreadM; i += kPair)
    _Pragma("unroll") for (int turn = 0; turn < kThreadN; ++turn) {
      const int j = i / kPair % 2 == 0 ? turn : kThreadN - 1 - turn;
      _Pragma("unroll") for (int e = 0; e < kPair; ++e) {
        const int row = i + (turn % 2 == 0 ? e : kPair - 1 - e);
        sums[row][j] += left[row] * right[j];
      }
    }
}
//% else
/// One step of k. Each product shares a factor with the one before, which spares the register file
/// a read; which way around suits the registers that the assembler gives, measuring tells.
KILN_DEVICE void multiply_line(Acc (&sums)[kThreadM][kThreadN], const Acc (&left)[kThreadM],
                               const Acc (&right)[kThreadN]) {
  _Pragma("unroll") for (int turn = 0; turn < kThreadM * kThreadN; ++turn) {
    //% if order == rows
    const int i = turn / kThreadN, along = turn % kThreadN;
    const int j = i % 2 == 0 ? along : kThreadN - 1 - along;
    //% end
    //% if order == columns
    const int j = turn / kThreadM, along = turn % kThreadM;
    const int i = j % 2 == 0 ? along : kThreadM - 1 - along;
    //% end
    //% if order == folded
    // Pairs of rows down one column and up the next, every other pair the other way round.
    const int j = turn / kThreadM, pair = turn % kThreadM / 2, second = (turn + turn / 2) % 2;
    const int i = (j % 2 == 0 ? pair : kThreadM / 2 - 1 - pair) * 2 + second;
    //% end
    sums[i][j] += left[i] * right[j];
  }
}
//% end

//% if stages == none
/// No shared memory: every thread reads what it multiplies.
KILN_DEVICE void sum_products(Acc (&sums)[kThreadM][kThreadN], const KilnGpuArgs& args,
                              const Work& work, const TypeA* a, const TypeB* b, int first_m,
                              int first_n, int) {
  const i64 end = min(i64(work.begin + work.count) * kBlockK, args.k);
  const i64 row = i64(work.left) * kBlockM + first_m, column = i64(work.right) * kBlockN + first_n;
  //% if gather
  int row_of[kThreadM];
  _Pragma("unroll") for (int i = 0; i < kThreadM; ++i) {
    const i64 r = row + apart(i, kThreadM, kLanesM);
    row_of[i] = r < args.m ? row_of_a(args, r) : 0;
  }
  //% end
  for (i64 k = i64(work.begin) * kBlockK; k < end; ++k) {
    Acc left[kThreadM], right[kThreadN];
    _Pragma("unroll") for (int i = 0; i < kThreadM; ++i) {
      const i64 r = row + apart(i, kThreadM, kLanesM);
      //% if gather
      left[i] = r < args.m ? widened(a[row_of[i] * args.lda + k]) : Acc(0);
      //% else
      left[i] = r < args.m ? widened(a[kAlongKA ? r * args.lda + k : k * args.lda + r]) : Acc(0);
      //% end
    }
    _Pragma("unroll") for (int j = 0; j < kThreadN; ++j) {
      const i64 c = column + apart(j, kThreadN, kLanesN);
      right[j] = c < args.n ? widened(b[kAlongKB ? c * args.ldb + k : k * args.ldb + c]) : Acc(0);
    }
    multiply_line(sums, left, right);
  }
}
//% else
/// A thread's rows (or columns) of line `k` of a tile; `own` is the first of them in line 0.
template <int Rows, int Count, int Lanes>
KILN_DEVICE void read_line(Acc (&to)[Count], const Acc* own, int k, int first) {
  constexpr int kTogether = Count % kQuad == 0 ? kQuad : Count % 2 == 0 ? 2 : 1;
  _Pragma("unroll") for (int i = 0; i < Count; i += kTogether) {
    const auto some = *reinterpret_cast<const Some<Acc, kTogether>*>(
        own + Lines<Rows>::from(first, k, apart(i, Count, Lanes)));
    _Pragma("unroll") for (int e = 0; e < kTogether; ++e) to[i + e] = some.x[e];
  }
}

constexpr int kElementsA = Lines<kBlockM>::kElements;
constexpr int kStage = kElementsA + Lines<kBlockN>::kElements;  // elements

/// The factors of one step of k.
struct Factors {
  Acc left[kThreadM], right[kThreadN];
  //% if copy == warps
  /// Of line `k` behind those that the two point into.
  __device__ __forceinline__ void read(const Acc* left_line, const Acc* right_line, int k) {
    read_line<kBlockM, kThreadM, kLanesM>(left, left_line, k, 0);
    read_line<kBlockN, kThreadN, kLanesN>(right, right_line, k, 0);
  }
  //% else
  __device__ __forceinline__ void read(const Acc* stage, int k, int first_m, int first_n) {
    read_line<kBlockM, kThreadM, kLanesM>(left, stage + first_m, k, first_m);
    read_line<kBlockN, kThreadN, kLanesN>(right, stage + kElementsA + first_n, k, first_n);
  }
  //% end
};

//% if copy != warps
/// Both operands on their way, one pass of k after the other.
struct Feed {
  //% if gather
  Copier<TypeA, kAlongKA, kBlockM, kWidthA, false, true> a;
  //% else
  Copier<TypeA, kAlongKA, kBlockM, kWidthA> a;
  //% end
  //% if gate
  Copier<TypeB, kAlongKB, kBlockN, kWidthB, true> b;
  //% else
  Copier<TypeB, kAlongKB, kBlockN, kWidthB> b;
  //% end
  Acc* stages;
  i64 k;
  int pass, end;
  int whole;  // passes before this one find whole tiles

  /// Starts to bring the next pass, if there is one, to stage `to`.
  __device__ __forceinline__ void begin(int to) {
    if (pass < end) {
      if (pass < whole)
        bring<true>(to, kBlockK);
      else
        bring<false>(to, int(min(k - i64(pass) * kBlockK, i64(kBlockK))));
      a.next();
      b.next();
      ++pass;
    }
    //% if copy == async
    cp_async_commit();
    //% end
  }

  template <bool Whole>
  __device__ __forceinline__ void bring(int to, int depth) {
    //% if copy == async
    const u32 place = u32(__cvta_generic_to_shared(stages)) + to * u32(kStage * sizeof(Acc));
    a.template send<Whole>(place, depth);
    b.template send<Whole>(place + u32(kElementsA * sizeof(Acc)), depth);
    //% else
    a.template fetch<Whole>(depth);
    b.template fetch<Whole>(depth);
    //% end
  }

  /// Stage `at` is whole for every thread when all have come here.
  __device__ __forceinline__ void finish(int at, bool any) {
    //% if copy == async
    cp_async_wait<(kStages > 1 ? kStages - 2 : 0)>();
    //% else
    if (any) {
      a.store(stages + at * kStage);
      b.store(stages + at * kStage + kElementsA);
    }
    //% end
    __syncthreads();
  }
};

KILN_DEVICE void sum_products(Acc (&sums)[kThreadM][kThreadN], const KilnGpuArgs& args,
                              const Work& work, const TypeA* a, const TypeB* b, int first_m,
                              int first_n, int thread) {
  extern __shared__ __align__(16) unsigned char shared[];
  Feed feed;
  feed.stages = reinterpret_cast<Acc*>(shared);
  const int end = work.begin + work.count;
  const i64 first_k = i64(work.begin) * kBlockK;
  feed.a.start(a, args.lda, i64(work.left) * kBlockM, first_k, args.m, thread);
  //% if gather
  feed.a.gather(args, a, i64(work.left) * kBlockM, first_k);
  //% end
  //% if gate
  feed.b.start_factors(b, args.ldb, i64(work.right) * (kBlockN / 2), first_k, args.n, thread);
  //% else
  feed.b.start(b, args.ldb, i64(work.right) * kBlockN, first_k, args.n, thread);
  //% end
  feed.pass = work.begin;
  feed.end = end;
  feed.k = args.k;
  //% if gate
  feed.whole = feed.a.rows == kBlockM && feed.b.rows == kBlockN / 2 ? int(args.k / kBlockK) : 0;
  //% else
  feed.whole = feed.a.rows == kBlockM && feed.b.rows == kBlockN ? int(args.k / kBlockK) : 0;
  //% end
  //% if stages == 1
  for (int pass = work.begin; pass < end; ++pass) {
    feed.begin(0);
    feed.finish(0, true);
    _Pragma("unroll") for (int k = 0; k < kBlockK; ++k) {
      Factors factors;
      factors.read(feed.stages, k, first_m, first_n);
      multiply_line(sums, factors.left, factors.right);
    }
    __syncthreads();
  }
  //% else
  _Pragma("unroll 1") for (int s = 0; s + 1 < kStages; ++s) feed.begin(s);
  feed.finish(0, work.count > 0);
  int here = 0, free = kStages - 1;  // stages: the one to multiply, the one to fill
  //% if ahead
  // The factors of the next step are read while those of this one are multiplied.
  Factors factors[2];
  if (work.count > 0) factors[0].read(feed.stages, 0, first_m, first_n);
  //% end
  for (int pass = work.begin; pass < end; ++pass) {
    const Acc* stage = feed.stages + here * kStage;
    const int next = here + 1 == kStages ? 0 : here + 1;
    const bool more = pass + 1 < end;
    feed.begin(free);
    //% if ahead
    _Pragma("unroll") for (int k = 0; k + 1 < kBlockK; ++k) {
      factors[(k + 1) % 2].read(stage, k + 1, first_m, first_n);
      multiply_line(sums, factors[k % 2].left, factors[k % 2].right);
    }
    feed.finish(next, more);
    if (more) factors[0].read(feed.stages + next * kStage, 0, first_m, first_n);
    multiply_line(sums, factors[1].left, factors[1].right);
    //% else
    _Pragma("unroll") for (int k = 0; k < kBlockK; ++k) {
      Factors factors;
      factors.read(stage, k, first_m, first_n);
      multiply_line(sums, factors.left, factors.right);
    }
    feed.finish(next, more);
    //% end
    free = here;
    here = next;
  }
  //% end
}
//% end
//% end

KILN_DEVICE TypeD finished(const Output& out, Acc sum,
                           //% if gate
                           Acc other,
                           //% end
                           i64 row, i64 column) {
  //% if gate
  //% if zero_a
  subtract_zeros(out, sum, other, row, column);
  //% end
  Real x = gated(out, Real(sum), Real(other), row, column);
  //% else
  //% if zero_a
  subtract_zeros(out, sum, row, column);
  //% end
  //% if integer_d
  if (out.whole) return finished_whole(out, sum, row, column);
  //% end
  //% if line_scale_a || line_scale_b
  Real x = product(scaled(out, Real(sum), row, column), out.alpha);
  //% else
  Real x = product(Real(sum), out.alpha);
  //% end
  if (out.c) x += out.beta * to_real(out.c[row * out.ldc + column]);
  x = finish(out, x, row, column);
  //% end
  //% if amax
  out.largest = larger_magnitude(out.largest, x);
  //% end
  return from_real(x, TypeD{});
}

struct alignas(kStoreWidth * sizeof(TypeD)) Several {
  TypeD x[kStoreWidth];
};
/// Neighbours of one row of D, those inside.
KILN_DEVICE void store_several(const Output& out, const Acc* sums, i64 row, i64 column) {
  //% if scatter
  TypeD* d = row_of_d(out, row) + column;
  //% end
  //% if !scatter && stores_d
  TypeD* d = out.d + row * out.ldd + column;
  //% end
  Several several;
  _Pragma("unroll") for (int e = 0; e < kStoreWidth; ++e)
    //% if gate
    if (column + e < out.columns)
      several.x[e] = finished(out, sums[e], sums[e + kBlockN / 2], row, column + e);
  //% else
  if (column + e < out.columns) several.x[e] = finished(out, sums[e], row, column + e);
  //% end
  //% if stores_d
  if (column + kStoreWidth <= out.columns) {
    *reinterpret_cast<Several*>(d) = several;
  } else {
    _Pragma("unroll") for (int e = 0; e < kStoreWidth; ++e)
      if (column + e < out.columns) d[e] = several.x[e];
  }
  //% end
}

//% if staged
/// Through shared memory, one row of every thread's at a time: what finishes a sum stands in the
/// code once a row and not once a sum, and D is written in whole lines.
KILN_DEVICE void store_sums(const Acc (&sums)[kThreadM][kThreadN], const Output& out, i64 row0,
                            i64 column0, int first_m, int first_n, int thread) {
  extern __shared__ __align__(16) unsigned char shared[];
  //% if copy == warps
  // Behind the ring, which is filled for the next tile meanwhile.
  Acc* lines = reinterpret_cast<Acc*>(shared + kStages * (kStage * sizeof(Acc) + 16));
  //% else
  Acc* lines = reinterpret_cast<Acc*>(shared);
  //% end
  constexpr int kLines = kBlockM / kThreadM, kHeight = kLanesM * kThreadM;  // of a warp's tile
  const int mine = first_m / kHeight * kLanesM + first_m % kHeight / kRunM;
  _Pragma("unroll") for (int i = 0; i < kThreadM; ++i) {
    _Pragma("unroll") for (int j = 0; j < kThreadN; ++j)
      lines[mine * kBlockN + first_n + apart(j, kThreadN, kLanesN)] = sums[i][j];
    //% if copy == warps
    named_barrier_sync(kSumsBarrier, kThreads);
    //% else
    __syncthreads();
    //% end
    //% if gate
    constexpr int kColumns = kBlockN / 2;  // of D: those of the other factor stand behind them
    _Pragma("unroll 1") for (int u = thread * kStoreWidth; u < kLines * kColumns;
                             u += kThreads * kStoreWidth) {
      const int line = u / kColumns, column = u % kColumns, q = line * kBlockN + column;
      const i64 row =
          row0 + line / kLanesM * kHeight + line % kLanesM * kRunM + apart(i, kThreadM, kLanesM);
      if (row < out.rows) store_several(out, lines + q, row, column0 + column);
    }
    //% else
    _Pragma("unroll 1") for (int q = thread * kStoreWidth; q < kLines * kBlockN;
                             q += kThreads * kStoreWidth) {
      const int line = q / kBlockN, column = q % kBlockN;
      const i64 row =
          row0 + line / kLanesM * kHeight + line % kLanesM * kRunM + apart(i, kThreadM, kLanesM);
      if (row < out.rows) store_several(out, lines + q, row, column0 + column);
    }
    //% end
    //% if copy == warps
    named_barrier_sync(kSumsBarrier, kThreads);
    //% else
    __syncthreads();
    //% end
  }
  //% if amax
  raise_amax(out.amax, out.largest);
  //% end
}
//% else
KILN_DEVICE void store_sums(const Acc (&sums)[kThreadM][kThreadN], const Output& out, i64 row0,
                            i64 column0, int first_m, int first_n, int) {
  _Pragma("unroll") for (int i = 0; i < kThreadM; ++i) {
    const i64 row = row0 + first_m + apart(i, kThreadM, kLanesM);
    if (row >= out.rows) continue;
    _Pragma("unroll") for (int j = 0; j < kThreadN; j += kStoreWidth)
      store_several(out, &sums[i][j], row, column0 + first_n + apart(j, kThreadN, kLanesN));
  }
  //% if amax
  raise_amax(out.amax, out.largest);
  //% end
}
//% end

KILN_DEVICE TileScheduler scheduler_of(const KilnGpuArgs& args) {
  return TileScheduler::start(int(ceil_div(args.m, kBlockM)),
                              //% if gate
                              int(ceil_div(2 * args.n, kBlockN)),
                              //% else
                              int(ceil_div(args.n, kBlockN)),
                              //% end
                              int(ceil_div(args.k, kBlockK)), int(args.batch), 0);
}

//% if copy != warps
extern "C" __global__ void __launch_bounds__(kThreads, kResident)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  const int thread = int(threadIdx.x), warp = thread / 32, lane = thread & 31;
  const int first_m = warp % kWarpsM * kLanesM * kThreadM + lane_part(lane, kLanesM, true) * kRunM;
  const int first_n = warp / kWarpsM * kLanesN * kThreadN + lane_part(lane, kLanesM, false) * kRunN;
  TileScheduler scheduler = scheduler_of(args);
  //% if groups
  __shared__ u32 tables[2 * kMostGroups + 1];
  scheduler.groups = Groups::at(u32(__cvta_generic_to_shared(tables)), args);
  scheduler.groups.read(args, thread, kThreads);
  __syncthreads();
  //% if row_groups
  if (warp == 0) scheduler.groups.count_tiles(scheduler.rights, lane);
  __syncthreads();
  scheduler.tiles = scheduler.groups.tiles_before(scheduler.groups.count);
  //% end
  //% if lists
  if (warp == 0) scheduler.groups.count_tiles(lane);
  __syncthreads();
  scheduler.tiles = scheduler.groups.tiles_before(scheduler.groups.count);
  //% end
  const KilnGpuArgs& whole = args;
  //% end
  Work work;
  while (scheduler.take(work)) {
    //% if row_groups
    const KilnGpuArgs args =
        args_of_group(whole, work.batch, work.first_row, work.rows, kAlongKA ? whole.lda : 1);
    //% end
    //% if lists
    const KilnGpuArgs args = args_of_product(whole, work.batch);
    //% end
    //% if k_groups
    const KilnGpuArgs args = args_of_group(whole, work.batch, work.first_k, work.k,
                                           kAlongKA ? 1 : whole.lda, kAlongKB ? 1 : whole.ldb);
    //% end
    const auto* a = static_cast<const TypeA*>(args.a) + work.batch * args.stride_a;
    const auto* b = static_cast<const TypeB*>(args.b) + work.batch * args.stride_b;
    Acc sums[kThreadM][kThreadN] = {};
    sum_products(sums, args, work, a, b, first_m, first_n, thread);
    //% if sharing != tiles
    if (!combine(sums, work, args.workspace, thread)) continue;
    //% end
    //% if gate
    store_sums(sums, output_of(args, work.batch), i64(work.left) * kBlockM,
               i64(work.right) * (kBlockN / 2), first_m, first_n, thread);
    //% else
    store_sums(sums, output_of(args, work.batch), i64(work.left) * kBlockM,
               i64(work.right) * kBlockN, first_m, first_n, thread);
    //% end
  }
}
//% end
