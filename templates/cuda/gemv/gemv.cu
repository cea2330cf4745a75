// A thin operand (kThin rows at most) times a wide one whose rows run along k: each warp takes
// kRows wide rows, its lanes walk along k together, and their sums meet at the end. Bound by
// memory, and content with any address. "Thin" is A, or B when kSwap. Expects read.h, store.h.

//% if !by_words
extern "C" __global__ void __launch_bounds__(kWarps * 32)
    kiln_gemm(const __grid_constant__ KilnGpuArgs args) {
  const int lane = int(threadIdx.x) & 31;
  const i64 wide_rows = kSwap ? args.m : args.n, blocks = ceil_div(wide_rows, kWarps * kRows);
  const i64 batch = i64(blockIdx.x) / blocks;
  const i64 row0 = ((i64(blockIdx.x) - batch * blocks) * kWarps + threadIdx.x / 32) * kRows;
  const void* thin_bytes = kSwap ? args.b : args.a;
  const void* wide_bytes = kSwap ? args.a : args.b;
  const i64 thin_ld = kSwap ? args.ldb : args.lda, wide_ld = kSwap ? args.lda : args.ldb;
  const auto* thin =
      static_cast<const TypeThin*>(thin_bytes) + batch * (kSwap ? args.stride_b : args.stride_a);
  const auto* wide = static_cast<const TypeWide*>(wide_bytes) +
                     batch * (kSwap ? args.stride_a : args.stride_b) + row0 * wide_ld;
  const int rows = thin_rows(args);
  Acc sums[kRows][kThin] = {};
  for (i64 k = lane * kWidth; k < args.k; k += 32 * kWidth) {
    const i64 left = args.k - k;
    Acc right[kRows][kWidth];
    _Pragma("unroll") for (int r = 0; r < kRows; ++r)
      load_some<TypeWide, true>(right[r], wide + r * wide_ld + k, 1,
                                row0 + r < wide_rows ? left : 0);
    _Pragma("unroll") for (int t = 0; t < kThin; ++t) {
      Acc here[kWidth];
      load_some<TypeThin, kThinAlongK>(
          here, kThinAlongK ? thin + t * thin_ld + k : thin + k * thin_ld + t, thin_ld,
          t < rows ? left : 0);
      _Pragma("unroll") for (int r = 0; r < kRows; ++r)
        _Pragma("unroll") for (int e = 0; e < kWidth; ++e) sums[r][t] += here[e] * right[r][e];
    }
  }
  const Output out = output_of(args, batch);
  _Pragma("unroll") for (int r = 0; r < kRows; ++r)
    _Pragma("unroll") for (int t = 0; t < kThin; ++t) {
      const Acc sum = sum_of_warp(sums[r][t]);
      if (lane == (r * kThin + t) % 32 && t < rows && row0 + r < wide_rows)
        store_one(out, sum, kSwap ? row0 + r : t, kSwap ? t : row0 + r);
    }
}
//% end
