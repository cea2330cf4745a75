//% if copy == warps
// The kernel whose tiles are copied by warps of their own, so that those that multiply issue little
// else and never wait for each other. Expects simt.cu and ring.h.

/// Brings one tile's passes of k, stage after stage as they fall free.
KILN_DEVICE void copy_tiles(Ring& ring, const KilnGpuArgs& args, const Work& work, const TypeA* a,
                            const TypeB* b, u32 stages, int thread) {
  Copier<TypeA, kAlongKA, kBlockM, kWidthA> left;
  Copier<TypeB, kAlongKB, kBlockN, kWidthB> right;
  const int end = work.begin + work.count;
  const i64 first_k = i64(work.begin) * kBlockK;
  left.start(a, args.lda, i64(work.left) * kBlockM, first_k, args.m, thread);
  right.start(b, args.ldb, i64(work.right) * kBlockN, first_k, args.n, thread);
  const int whole = left.rows == kBlockM && right.rows == kBlockN ? int(args.k / kBlockK) : 0;
  _Pragma("unroll 1") for (int pass = work.begin; pass < end; ++pass) {
    const u32 to = stages + ring.stage * u32(kStage * sizeof(Acc));
    const u32 right_to = to + u32(kElementsA * sizeof(Acc));
    mbarrier_wait(ring.free(), ring.parity ^ 1);
    if (pass < whole) {
      left.template send<true>(to, kBlockK);
      right.template send<true>(right_to, kBlockK);
    } else {
      const int depth = int(min(args.k - i64(pass) * kBlockK, i64(kBlockK)));
      left.template send<false>(to, depth);
      right.template send<false>(right_to, depth);
    }
    cp_async_arrive(ring.whole());
    left.next();
    right.next();
    ring.next();
  }
}

/// Multiplies them. The factors of the next step are read while those of this one are multiplied; a
/// turn of the loop is short enough to stay in the nearest cache of instructions.
KILN_DEVICE void sum_products(Acc (&sums)[kThreadM][kThreadN], Ring& ring, const Work& work,
                              const Acc* stages, int first_m, int first_n, int lane) {
  constexpr int kTurns = kBlockK / kUnroll;
  if (work.count == 0) return;
  mbarrier_wait(ring.whole(), ring.parity);
  const Acc* left = stages + ring.stage * kStage + first_m;
  const Acc* right = stages + ring.stage * kStage + kElementsA + first_n;
  Factors factors[2];
  factors[0].read(left, right, 0);
  int of_stage = kTurns;
  _Pragma("unroll 1") for (int turns = work.count * kTurns; turns > 0; --turns) {
    _Pragma("unroll") for (int k = 0; k + 1 < kUnroll; ++k) {
      factors[(k + 1) % 2].read(left, right, k + 1);
      multiply_line(sums, factors[k % 2].left, factors[k % 2].right);
    }
    if (--of_stage > 0) {
      left += kUnroll * Lines<kBlockM>::kPitch;
      right += kUnroll * Lines<kBlockN>::kPitch;
      factors[0].read(left, right, 0);
    } else {
      __syncwarp();
      if (lane == 0) mbarrier_arrive(ring.free());
      ring.next();
      of_stage = kTurns;
      if (turns > 1) {
        mbarrier_wait(ring.whole(), ring.parity);
        left = stages + ring.stage * kStage + first_m;
        right = stages + ring.stage * kStage + kElementsA + first_n;
        factors[0].read(left, right, 0);
      }
    }
    multiply_line(sums, factors[1].left, factors[1].right);
  }
}

KILN_DEVICE unsigned char* ring_memory() {
  extern __shared__ __align__(16) unsigned char shared[];
  return shared;
}

extern "C" __global__ void __launch_bounds__(2 * kThreads, kResident)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  unsigned char* shared = ring_memory();
  // Through a shuffle, so that the compiler knows that it is the same for the whole warp.
  const int warp = __shfl_sync(0xffffffff, int(threadIdx.x) / 32, 0), lane = int(threadIdx.x) & 31;
  const u32 stages = shared_address(shared);
  Ring ring = Ring::of(stages + u32(kStages * kStage * sizeof(Acc)));
  if (threadIdx.x == 0) {
    ring.init();
    mbarrier_init_fence();
  }
  __syncthreads();
  TileScheduler scheduler = scheduler_of(args);
  Work work;
  if (warp >= kThreads / 32) {
    give_registers<kCopyRegisters>();
    while (scheduler.take(work))
      copy_tiles(ring, args, work, static_cast<const TypeA*>(args.a) + work.batch * args.stride_a,
                 static_cast<const TypeB*>(args.b) + work.batch * args.stride_b, stages,
                 int(threadIdx.x) - kThreads);
    cp_async_commit();
    cp_async_wait<0>();
    return;
  }
  take_registers<kSumRegisters>();
  const int first_m = warp % kWarpsM * kLanesM * kThreadM + lane_part(lane, kLanesM, true) * kRunM;
  const int first_n = warp / kWarpsM * kLanesN * kThreadN + lane_part(lane, kLanesM, false) * kRunN;
  while (scheduler.take(work)) {
    Acc sums[kThreadM][kThreadN] = {};
    sum_products(sums, ring, work, reinterpret_cast<const Acc*>(shared), first_m, first_n, lane);
    //% if sharing != tiles
    if (!combine(sums, work, args.workspace, int(threadIdx.x))) continue;
    //% end
    store_sums(sums, output_of(args, work.batch), i64(work.left) * kBlockM,
               i64(work.right) * kBlockN, first_m, first_n, int(threadIdx.x));
  }
}
//% end
