//% if summed
// The kernel itself: who copies, who multiplies. Expects copy_all() and multiply(), and reduce.h.
//% else
// The kernel itself: who copies, who multiplies. Expects copy_all() and multiply(), store.h and,
// where k is divided, combine.h.
//% end

//% if k_groups && !k_group_edges || lists
/// Through a shuffle: the assembler serialises wgmma in a loop on whose end the lanes of a warp may
/// not agree.
KILN_DEVICE int same_for_warp(int x) { return __shfl_sync(0xffffffff, x, 0); }

//% end
KILN_DEVICE void run_consumer(const Shared& shared, TileScheduler scheduler,
                              const KilnGpuArgs& args, const KilnTensorMap* map_d, int group) {
  const int thread = int(threadIdx.x) & 127, lane = thread & 31;
  Acc sums[kSubtiles][kSums];
  Turn turn;
  //% if bring && pingpong
  PartTurn parts;
  //% end
  Work work;
  //% if scale_d
  u32 tile = 0;
  //% end
  //% if pingpong
  // Warpgroups take tiles in turn, and only one at a time may wait for the ring: the parity of a
  // barrier says nothing to a warp that is two phases behind.
  constexpr u32 kRowOffset = 0;
  if (group == 1) named_barrier_arrive(kTurnBarrier, 256);
  for (int i = 0; scheduler.take(work); ++i) {
    //% if k_groups || lists
    work.count = same_for_warp(work.count);
    //% end
    if ((i & 1) != group) {
      turn.skip(work.count);
      continue;
    }
    named_barrier_sync(kTurnBarrier + group, 256);
    //% if ahead
    Ahead ahead;
    load_ahead(ahead, args, work, kRowOffset, thread);
    //% end
    //% if weights
    multiply(sums, shared, turn, work.count, kRowOffset, group, lane,
             TileScales::of(args, work, kRowOffset, thread));
    //% else
    //% if k_group_edges
    multiply(sums, shared, turn, work.count, kRowOffset, group, lane, Edges::of(work));
    //% else
    multiply(sums, shared, turn, work.count, kRowOffset, group, lane);
    //% end
    //% end
    const int region = 0;
    //% include cuda/wgmma/finish_tile.h
  }
  //% else
  const u32 kRowOffset = group * kWarpgroupRows;
  const int region = group;
  //% if alternate
  if (group == 1) named_barrier_arrive(kTurnBarrier, 256);
  //% end
  //% if sharing == tiles && !alternate
  // The others start some stages behind the first: while it finishes a tile, they still multiply.
  //% if k_groups || lists
  TileScheduler ahead = scheduler;  // the first tile may be of a short group, or there is none
  if (group > 0 && ahead.take(work))
    mbarrier_wait(shared.full + (min(same_for_warp(work.count), kStages - 1) - 1) * 8, 0);
  //% else
  //% if groups
  if (group > 0 && scheduler.next < scheduler.tiles)  // blocks may be left without a tile
    //% else
    if (group > 0)
      //% end
      mbarrier_wait(shared.full + (min(scheduler.stages, kStages - 1) - 1) * 8, 0);
  //% end
  //% end
  while (scheduler.take(work)) {
    //% if k_groups || lists
    work.count = same_for_warp(work.count);
    //% end
    //% if ahead
    Ahead ahead;
    load_ahead(ahead, args, work, kRowOffset, thread);
    //% end
    //% if weights
    multiply(sums, shared, turn, work.count, kRowOffset, group, lane,
             TileScales::of(args, work, kRowOffset, thread));
    //% else
    //% if k_group_edges
    multiply(sums, shared, turn, work.count, kRowOffset, group, lane, Edges::of(work));
    //% else
    multiply(sums, shared, turn, work.count, kRowOffset, group, lane);
    //% end
    //% end
    //% include cuda/wgmma/finish_tile.h
  }
  //% end
  //% if store == tma
  if (lane == 0) tma_store_wait_read<0>();
  //% end
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args
              //% if !lists
              ,
              const __grid_constant__ KilnTensorMap map_left,
              const __grid_constant__ KilnTensorMap map_right
              //% end
              //% if clip_left
              ,
              const __grid_constant__ KilnTensorMap map_last_left
              //% end
              //% if clip_right
              ,
              const __grid_constant__ KilnTensorMap map_last_right
              //% end
              //% if store == tma
              ,
              const __grid_constant__ KilnTensorMap map_d
              //% end
              //% if tma_scales
              ,
              const __grid_constant__ KilnTensorMap map_scale_a,
              const __grid_constant__ KilnTensorMap map_scale_b
              //% end
              //% if bring
              //% include expression/brought_maps
              //% end
    ) {
  extern __shared__ __align__(1024) unsigned char shared_bytes[];
  const Shared shared = Shared::at(shared_address(shared_bytes));
  // Through a shuffle, so that the compiler knows that it is the same for the whole warp.
  const int group = __shfl_sync(0xffffffff, int(threadIdx.x) / 128, 0);
  //% if cluster
  const u32 rank = cluster_rank();
  //% else
  const u32 rank = 0;
  //% end
  //% if !lists
  if (threadIdx.x == kWarpgroups * 128) {
    tensor_map_prefetch(&map_left);
    tensor_map_prefetch(&map_right);
    //% if clip_left
    tensor_map_prefetch(&map_last_left);
    //% end
    //% if clip_right
    tensor_map_prefetch(&map_last_right);
    //% end
    //% if store == tma
    tensor_map_prefetch(&map_d);
    //% end
    //% if tma_scales
    tensor_map_prefetch(&map_scale_a);
    tensor_map_prefetch(&map_scale_b);
    //% end
  }
  //% end
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      //% if block_scales && !weights && !tma_scales
      mbarrier_init(shared.full + i * 8, 1 + kScaleWarps);
      //% else
      //% if gather_copies
      mbarrier_init(shared.full + i * 8, 1 + kGatherWarps * 32);
      //% else
      mbarrier_init(shared.full + i * 8, 1);
      //% end
      //% end
      mbarrier_init(shared.empty + i * 8, kReaders * kCluster);
    }
    //% if scale_pairs
    for (int i = 0; i < kMeetings; ++i)
      mbarrier_init(shared.buffers + kMeetingBarriersAt + i * 8, 1);
    //% end
    //% if bring && pingpong
    for (int i = 0; i < 2 * kParts; ++i) mbarrier_init(shared.parts_full + i * 8, 1);
    for (int i = 0; i < kParts; ++i) mbarrier_init(shared.parts_empty + i * 8, kReaders);
    //% end
    mbarrier_init_fence();
  }
  //% if groups
  const Groups groups = Groups::at(shared.flags, args);
  // The list may be the work of the grid before.
  wait_for_previous_grid();
  groups.read(args, int(threadIdx.x), kThreads);
  //% if row_groups
  __syncthreads();
  if (group == kWarpgroups && int(threadIdx.x) < kThreads - 96)
    groups.count_tiles(tiles_across(args), int(threadIdx.x) & 31);
  //% end
  //% if lists
  __syncthreads();
  if (group == kWarpgroups && int(threadIdx.x) < kThreads - 96)
    groups.count_tiles(int(threadIdx.x) & 31);
  //% end
  //% end
  //% if cluster
  cluster_sync();
  //% else
  __syncthreads();
  //% end
  //% if groups
  TileScheduler scheduler = scheduler_of(args, rank);
  scheduler.groups = groups;
  //% if row_groups || lists
  // Through a shuffle as well: the assembler serialises wgmma in a loop on whose end the lanes of a
  // warp may not agree.
  scheduler.tiles = __shfl_sync(0xffffffff, groups.tiles_before(groups.count), 0);
  //% end
  //% else
  const TileScheduler scheduler = scheduler_of(args, rank);
  //% end
  if (group == kWarpgroups) {
    give_registers<kCopyRegisters>();
    //% if bring
    //% include expression/brought_pointers
    //% end
    //% if clip
    Maps maps{&map_left, &map_right, &map_left, &map_right};
    //% if clip_left
    maps.last_left = &map_last_left;
    //% end
    //% if clip_right
    maps.last_right = &map_last_right;
    //% end
    //% if tma_scales
    maps.scale_a = &map_scale_a;
    maps.scale_b = &map_scale_b;
    //% end
    //% if bring
    if (threadIdx.x == kWarpgroups * 128) copy_all(shared, scheduler, brought, args, maps);
    //% else
    if (threadIdx.x == kWarpgroups * 128) copy_all(shared, scheduler, args, maps);
    //% end
    //% else
    //% if tma_scales
    if (threadIdx.x == kWarpgroups * 128)
      copy_all(shared, scheduler, &map_left, &map_right, &map_scale_a, &map_scale_b);
    //% else
    //% if lists
    if (threadIdx.x == kWarpgroups * 128) copy_all(shared, scheduler, args);
    //% else
    //% if bring
    if (threadIdx.x == kWarpgroups * 128)
      copy_all(shared, scheduler, brought, args, &map_left, &map_right);
    //% else
    if (threadIdx.x == kWarpgroups * 128) copy_all(shared, scheduler, &map_left, &map_right);
    //% end
    //% end
    //% end
    //% end
    //% if block_scales && !weights && !tma_scales
    const int warp = __shfl_sync(0xffffffff, int(threadIdx.x) / 32, 0) - kWarpgroups * 4 - 1;
    if (warp >= 0 && warp < kScaleWarps)
      copy_scales(shared, scheduler, args, warp, int(threadIdx.x) & 31);
    //% end
    //% if gather_copies
    const int warp = __shfl_sync(0xffffffff, int(threadIdx.x) / 32, 0) - kWarpgroups * 4 - 1;
    if (warp >= 0) copy_gathered(shared, scheduler, args, warp, int(threadIdx.x) & 31);
    //% end
  } else {
    take_registers<kMultiplyRegisters>();
    wait_for_previous_grid();
    let_next_grid_start();
    //% if store == tma
    run_consumer(shared, scheduler, args, &map_d, group);
    //% else
    run_consumer(shared, scheduler, args, nullptr, group);
    //% end
  }
  //% if cluster
  // A block that ended would take away the barriers at which the others still arrive.
  cluster_sync();
  //% end
}
