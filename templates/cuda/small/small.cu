// Batches of small products. A block has kProducts of them at once in shared memory, kLanesM ×
// kLanesN lanes for each; the next ones are on their way meanwhile. All sizes are constants.
// Expects copy.h, factors.h or matrix.h, store.h and, where grids overlap, grid_ptx.h.

/// Starts to bring a group of products to a stage.
KILN_DEVICE void fetch(const KilnGpuArgs& args, i64 group, unsigned char* stage, int thread) {
  const i64 first = group * kProducts;
  const int products = int(min(args.batch - first, i64(kProducts)));
  const auto* a = static_cast<const TypeA*>(args.a) + first * args.stride_a;
  const auto* b = static_cast<const TypeB*>(args.b) + first * args.stride_b;
  //% if copy == async
  const u32 to = shared_address(stage);
  OperandA::send(to, a, args.lda, args.stride_a, products, thread);
  OperandB::send(to + u32(OperandA::kBytes), b, args.ldb, args.stride_b, products, thread);
  //% else
  OperandA::bring(reinterpret_cast<TypeA*>(stage), a, args.lda, args.stride_a, products, thread);
  OperandB::bring(reinterpret_cast<TypeB*>(stage + OperandA::kBytes), b, args.ldb, args.stride_b,
                  products, thread);
  //% end
}

/// One lane's part of its product, of which `left` are the accumulators in shared memory.
KILN_DEVICE void compute(const KilnGpuArgs& args, i64 group, const unsigned char* stage, Acc* left,
                         int thread) {
  constexpr int kLanes = kLanesM * kLanesN;
  const int team = thread / kLanes, lane = thread - team * kLanes;
  const int lane_m = lane / kLanesN, lane_n = lane - lane_m * kLanesN;
  const i64 product = group * kProducts + team;
  if (team >= kProducts || product >= args.batch) return;
  const auto* a = reinterpret_cast<const TypeA*>(stage) + team * kApartA;
  const auto* b = reinterpret_cast<const TypeB*>(stage + OperandA::kBytes) + team * kApartB;
  Acc sums[kThreadM][kThreadN] = {};
  sum_products(sums, a, b, lane_m, lane_n);
  //% if store == shared
  leave_sums(sums, left + team * (kM * kN), lane_m, lane_n);
  //% else
  store_sums(sums, output_of(args, product), lane_m, lane_n);
  //% end
}

extern "C" __global__ void __launch_bounds__(kThreads, kResident)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int thread = int(threadIdx.x);
  const i64 groups = ceil_div(args.batch, kProducts), apart = i64(gridDim.x);
  Acc* left = reinterpret_cast<Acc*>(shared + kStages * kStageBytes);
  //% if overlaps
  wait_for_previous_grid();
  let_next_grid_start();
  //% end
  //% if stages == 1
  _Pragma("unroll 1") for (i64 group = i64(blockIdx.x); group < groups; group += apart) {
    fetch(args, group, shared, thread);
    //% if copy == async
    cp_async_commit();
    cp_async_wait<0>();
    //% end
    __syncthreads();
    compute(args, group, shared, left, thread);
    //% if store == shared
    __syncthreads();
    store_group(args, group, left, thread);
    //% end
    __syncthreads();
  }
  //% else
  int stage = 0;
  // The first turns only fill stages; the group that is multiplied is kStages - 1 turns behind.
  i64 group = i64(blockIdx.x) - (kStages - 1) * apart;
  _Pragma("unroll 1") for (; group < groups; group += apart) {
    if (group >= 0) {
      // What this thread copied is there, then what all did; the stage to fill has been read.
      cp_async_wait<kStages - 2>();
      __syncthreads();
    }
    const i64 next = group + (kStages - 1) * apart;
    if (next < groups) fetch(args, next, shared + stage * kStageBytes, thread);
    cp_async_commit();
    stage = stage + 1 == kStages ? 0 : stage + 1;  // the one filled kStages - 1 turns ago
    if (group < 0) continue;
    compute(args, group, shared + stage * kStageBytes, left, thread);
    //% if store == shared
    __syncthreads();
    store_group(args, group, left, thread);
    //% end
  }
  //% end
}
