// The kernel itself. Expects mfma.hip, mainloop.h, store.h and, with split-K, combine.h, with groups
// groups.h.

KILN_KERNEL(kThreads, kWavesPerUnit) kiln_gemm(KilnGpuArgs args) {
  const u32 thread = thread_index(), wave = uniform(thread / 64), lane = thread % 64;
  const u32 wave_m = wave / kWavesN * kWaveM, wave_n = wave % kWavesN * kWaveN;
  //% if row_groups
  const GroupBlock own = group_of(args, block_index(), u32(ceil_div(args.n, kTileN)));
  if (own.rows == 0) return;
  args = args_of_group(args, own.group, own.first_row, own.rows, kAlongA ? args.lda : 1);
  Work work = work_of(args, own.block);
  work.batch = own.group;
  //% end
  //% if k_groups
  Work work = work_of(args, block_index());
  const GroupK own = part_of_group(args, work.batch);
  args = args_of_group(args, work.batch, own.first, own.count, kAlongA ? 1 : args.lda,
                       kAlongB ? 1 : args.ldb);
  work.k_end = own.count;
  //% end
  //% if lists
  const ProductBlock own = product_of(args, block_index());
  if (own.product < 0) return;
  args = args_of_listed(args, own.product);
  args.batch = 1;
  Work work = work_of(args, own.block);
  work.batch = own.product;
  //% end
  //% if !groups
  const Work work = work_of(args, block_index());
  //% end
  const i64 row = i64(work.tile_m) * kTileM, column = i64(work.tile_n) * kTileN;
  const SourceA a = SourceA::start(static_cast<const TypeA*>(args.a) + work.batch * args.stride_a,
                                   args.lda, row, args.m, work.k_begin, work.k_end);
  const SourceB b = SourceB::start(static_cast<const TypeB*>(args.b) + work.batch * args.stride_b,
                                   args.ldb, column, args.n, work.k_begin, work.k_end);
  Tile sums;
  KILN_UNROLL for (int i = 0; i < kBlocksM; ++i) KILN_UNROLL for (int j = 0; j < kBlocksN; ++j)
      sums[i][j] = Sums(Acc(0));
  multiply_all(sums, a, b, thread, {wave_m + lane % kRows, wave_n + lane % kRows, lane / kRows});
  //% if split
  if (!combine(sums, work, args, thread)) return;
  //% end
  store_tile(sums, work, args, row + wave_m, column + wave_n, int(lane));
}
