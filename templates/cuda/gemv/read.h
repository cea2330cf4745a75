// Elements of the thin and of the wide operand on their way to sums, and the sum of a warp. Expects
// convert.h.
#pragma once

using TypeThin = KILN_THIN;
using TypeWide = KILN_WIDE;

/// Rows of the thin operand, kThin at most.
//% if any_thin
KILN_DEVICE int thin_rows(const KilnGpuArgs& args) { return int(kSwap ? args.n : args.m); }
//% else
KILN_DEVICE constexpr int thin_rows(const KilnGpuArgs&) { return kThin; }
//% end

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
  _Pragma("unroll") for (int e = 0; e < kWidth; ++e)
    to[e] = e < left ? widened(at[AlongK ? e : e * ld]) : Acc(0);
}

KILN_DEVICE Acc sum_of_warp(Acc x) {
  _Pragma("unroll") for (int step = 16; step > 0; step /= 2)
    x += __shfl_xor_sync(0xffffffff, x, step);
  return x;
}

//% end
