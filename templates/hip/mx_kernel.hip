// The kernel itself. Expects mx.hip and, where k is cut, combine.h.

/// Sums to D. Four neighbours of a row are one store where D's pitch and address allow it.
KILN_DEVICE void store_tile(const Tile& sums, const Work& work, const KilnGpuArgs& args, i64 row,
                            i64 column, int lane) {
  const Output out = output_of(args, work.batch);
  KILN_UNROLL for (int i = 0; i < kBlocksM; ++i) {
    const i64 r = row + i * kRows + lane % kRows;
    if (r >= out.rows) continue;
    KILN_UNROLL for (int j = 0; j < kBlocksN; ++j) {
      const i64 c0 = column + j * kRows;
      //% if wide_store
      KILN_UNROLL for (int s = 0; s < kSums; s += 4) {
        const i64 c = c0 + sum_row(lane, s);
        if (c >= out.columns) continue;
        TypeD four[4];
        KILN_UNROLL for (int e = 0; e < 4; ++e) four[e] = finish(out, sums[i][j][s + e], r, c + e);
        *reinterpret_cast<Four*>(out.d + r * out.ldd + c) = bits_as<Four>(four);
      }
      //% else
      KILN_UNROLL for (int s = 0; s < kSums; ++s) {
        const i64 c = c0 + sum_row(lane, s);
        if (c < out.columns) out.d[r * out.ldd + c] = finish(out, sums[i][j][s], r, c);
      }
      //% end
    }
  }
}

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
