// A thin operand (at most 16 rows) times a wide one whose rows run along k: each warp takes kRows
// wide rows, its lanes walk along k together, and their sums meet at the end. Bound by memory, and
// content with any address. "Thin" is A, or B when kSwap. Expects convert.h, epilogue.h.

using TypeThin = KILN_THIN;
using TypeWide = KILN_WIDE;

KILN_DEVICE Acc widened(float x) { return Acc(x); }
KILN_DEVICE Acc widened(double x) { return Acc(x); }
KILN_DEVICE Acc widened(i8 x) { return Acc(x); }
KILN_DEVICE Acc widened(u8 x) { return Acc(x); }
template <typename T>
KILN_DEVICE Acc widened(T x) {
  return Acc(to_real(x));
}

//% if !by_words
template <typename T>
struct alignas(kWidth * sizeof(T)) Some {
  T x[kWidth];
};

/// kWidth neighbours along k of one row, zero behind its end. `at` points to the first of them.
template <typename T, bool AlongK>
KILN_DEVICE void load_some(Acc (&to)[kWidth], const T* at, i64 ld, i64 left) {
  if constexpr (AlongK) {
    if (left >= kWidth) {
      const auto some = *reinterpret_cast<const Some<T>*>(at);
      _Pragma("unroll") for (int e = 0; e < kWidth; ++e) to[e] = widened(some.x[e]);
      return;
    }
  }
  _Pragma("unroll") for (int e = 0; e < kWidth; ++e) to[e] =
      e < left ? widened(at[AlongK ? e : e * ld]) : Acc(0);
}

KILN_DEVICE Acc sum_of_warp(Acc x) {
  _Pragma("unroll") for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffff, x, step);
  return x;
}

//% end
KILN_DEVICE void store_one(const Output& out, Acc sum, i64 row, i64 column) {
  TypeD* d = out.d + row * out.ldd + column;
  //% if integer_d
  if (out.alpha == Real(1) && !out.c) {
    *d = sum;
    return;
  }
  //% end
  //% if line_scale_a || line_scale_b
  Real x = product(scaled(out, Real(sum), row, column), out.alpha);
  //% else
  Real x = product(Real(sum), out.alpha);
  //% end
  if (out.c) x += out.beta * to_real(out.c[row * out.ldc + column]);
  x = finish(out, x, row, column);
  //% if residual
  x += to_real(out.residual[row * out.ldd + column]);
  //% end
  *d = from_real(x, TypeD{});
}

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
  const auto* thin = static_cast<const TypeThin*>(thin_bytes) +
                     batch * (kSwap ? args.stride_b : args.stride_a);
  const auto* wide = static_cast<const TypeWide*>(wide_bytes) +
                     batch * (kSwap ? args.stride_a : args.stride_b) + row0 * wide_ld;
  Acc sums[kRows][kThin] = {};
  for (i64 k = lane * kWidth; k < args.k; k += 32 * kWidth) {
    const i64 left = args.k - k;
    Acc right[kRows][kWidth];
    _Pragma("unroll") for (int r = 0; r < kRows; ++r)
      load_some<TypeWide, true>(right[r], wide + r * wide_ld + k, 1, row0 + r < wide_rows ? left : 0);
    _Pragma("unroll") for (int t = 0; t < kThin; ++t) {
      Acc here[kWidth];
      load_some<TypeThin, kThinAlongK>(
          here, kThinAlongK ? thin + t * thin_ld + k : thin + k * thin_ld + t, thin_ld, left);
      _Pragma("unroll") for (int r = 0; r < kRows; ++r)
        _Pragma("unroll") for (int e = 0; e < kWidth; ++e) sums[r][t] += here[e] * right[r][e];
    }
  }
  const Output out = output_of(args, batch);
  _Pragma("unroll") for (int r = 0; r < kRows; ++r)
    _Pragma("unroll") for (int t = 0; t < kThin; ++t) {
      const Acc sum = sum_of_warp(sums[r][t]);
      if (lane == (r * kThin + t) % 32 && row0 + r < wide_rows)
        store_one(out, sum, kSwap ? row0 + r : t, kSwap ? t : row0 + r);
    }
}
//% end
