//% if !matrix
// Ordinary multiply-adds: each lane has a register tile of one product. Expects convert.h, copy.h.
#pragma once

KILN_DEVICE Acc widened(float x) { return Acc(x); }
KILN_DEVICE Acc widened(double x) { return Acc(x); }
template <typename T>
KILN_DEVICE Acc widened(T x) {
  return Acc(to_real(x));
}

/// A lane's rows of A, or columns of B: runs of `Run` neighbours, between which the other lanes'
/// lie. `Vector` elements along k are read at once.
template <typename T, bool AlongK, int Rows, int Lanes, int Run, int Count, int Pitch, int Vector>
struct Factors {
  static constexpr int kRuns = Count / Run, kStep = AlongK ? Pitch : 1;
  const T *own, *last;  // of the first run and of the last, which not every lane has

  __device__ __forceinline__ void start(const T* product, int lane) {
    own = product + lane * Run * kStep;
    last = product + min(lane + (kRuns - 1) * Lanes, Rows / Run - 1) * Run * kStep;
  }

  /// to[step of k][row].
  template <int Depth>
  __device__ __forceinline__ void read(Acc (&to)[Depth][Count], int k) const {
    _Pragma("unroll") for (int r = 0; r < kRuns; ++r) {
      const T* const run = r + 1 < kRuns ? own + r * Lanes * Run * kStep : last;
      if constexpr (AlongK) {
        constexpr int kTogether = Depth % Vector == 0 ? Vector : 1;
        _Pragma("unroll") for (int e = 0; e < Run; ++e)
          _Pragma("unroll") for (int d = 0; d < Depth; d += kTogether) {
            const auto some = *reinterpret_cast<const Some<T, kTogether>*>(run + e * Pitch + k + d);
            _Pragma("unroll") for (int x = 0; x < kTogether; ++x)
              to[d + x][r * Run + e] = widened(some.x[x]);
          }
      } else {
        _Pragma("unroll") for (int d = 0; d < Depth; ++d) {
          const auto some = *reinterpret_cast<const Some<T, Run>*>(run + (k + d) * Pitch);
          _Pragma("unroll") for (int e = 0; e < Run; ++e) to[d][r * Run + e] = widened(some.x[e]);
        }
      }
    }
  }
};

using FactorsA = Factors<TypeA, kAlongKA, kM, kLanesM, kRunM, kThreadM, kPitchA, kVectorA>;
using FactorsB = Factors<TypeB, kAlongKB, kN, kLanesN, kRunN, kThreadN, kPitchB, kVectorB>;

/// `Depth` steps of k, one after the other.
template <int Depth>
KILN_DEVICE void multiply_steps(Acc (&sums)[kThreadM][kThreadN], const FactorsA& a,
                                const FactorsB& b, int k) {
  Acc left[Depth][kThreadM], right[Depth][kThreadN];
  a.read<Depth>(left, k);
  b.read<Depth>(right, k);
  _Pragma("unroll") for (int d = 0; d < Depth; ++d)
    _Pragma("unroll") for (int i = 0; i < kThreadM; ++i)
      _Pragma("unroll") for (int j = 0; j < kThreadN; ++j) sums[i][j] += left[d][i] * right[d][j];
}

KILN_DEVICE void sum_products(Acc (&sums)[kThreadM][kThreadN], const TypeA* a, const TypeB* b,
                              int lane_m, int lane_n) {
  FactorsA left;
  FactorsB right;
  left.start(a, lane_m);
  right.start(b, lane_n);
  _Pragma("unroll kUnroll") for (int k = 0; k + kDepth <= kK; k += kDepth)
      multiply_steps<kDepth>(sums, left, right, k);
  if constexpr (kK % kDepth != 0)
    multiply_steps<kK % kDepth>(sums, left, right, kK / kDepth * kDepth);
}
//% end
