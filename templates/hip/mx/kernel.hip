// The kernel itself. Expects mx.hip, store.h and, with split-K, combine.h.

KILN_KERNEL(kThreads, kWavesPerUnit) kiln_gemm(KilnGpuArgs args) {
  const u32 thread = thread_index(), wave = uniform(thread / 64), lane = thread % 64;
  const u32 wave_m = wave / kWavesN * kWaveM, wave_n = wave % kWavesN * kWaveN;
  const Work work = work_of(args, block_index());
  const i64 row = i64(work.tile_m) * kTileM, column = i64(work.tile_n) * kTileN;
  const u8* from_a = static_cast<const u8*>(args.a) + work.batch * (args.stride_a * kBitsA / 8);
  const u8* from_b = static_cast<const u8*>(args.b) + work.batch * (args.stride_b * kBitsB / 8);
  const OperandA a = OperandA::start(from_a, args.lda, row, args.m, work.k_begin, work.k_end);
  const OperandB b = OperandB::start(from_b, args.ldb, column, args.n, work.k_begin, work.k_end);
  const ScaleSource scales = ScaleSource::start(args, work, row, column);
  Tile sums;
  KILN_UNROLL for (int i = 0; i < kBlocksM; ++i) KILN_UNROLL for (int j = 0; j < kBlocksN; ++j)
      sums[i][j] = Sums(Acc(0));
  const Place at{wave_m + lane % kRows, wave_n + lane % kRows, lane / kRows};
  multiply_all(sums, a, b, scales, i32(ceil_div(work.k_end - work.k_begin, kTileK)), thread, at);
  //% if split
  if (!combine(sums, work, args, thread)) return;
  //% end
  store_tile(sums, work, args, row + wave_m, column + wave_n, int(lane));
}
