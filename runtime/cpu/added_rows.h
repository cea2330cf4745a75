// The product of a call whose rows are added to rows of D: its memory, and the sums. Threads have
// rows of D, so that the order of additions is that of the product's rows. Knows no kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "generator/problem/indices.h"
#include "runtime/cpu/cpu.h"

namespace kiln {

class AddedRows {
 public:
  /// Of a call of `gemm`. Both must live on.
  AddedRows(const Gemm& gemm, const KilnArgs& call) : gemm_(gemm), call_(call) {}

  /// `to` computes the product, into memory of the calling thread's that is valid until its next
  /// such call. Errors: device (no memory).
  Status redirect(KilnArgs& to);
  /// Adds the rows of that product, and beta · C.
  void add(int threads);

 private:
  void link();
  template <typename Real>
  void add_to(std::int64_t begin, std::int64_t end) const;

  const Gemm& gemm_;
  const KilnArgs& call_;
  std::byte* product_ = nullptr;
  // Of each row of D the first row of the product that is added to it, of each row of the product
  // the next one; negative: none.
  std::int32_t *first_ = nullptr, *next_ = nullptr;
};

/// Adds `count` elements of a row of the product to sums, times the row's weight where it has one.
template <typename Real>
void add_elements(const Gemm& gemm, const KilnArgs& call, std::int64_t row, const Real* from,
                  std::int64_t count, Real* sums) {
  if (!weighs_rows(gemm)) {
    for (std::int64_t j = 0; j < count; ++j) sums[j] += from[j];
    return;
  }
  const auto weight = static_cast<Real>(static_cast<const float*>(call.row_weights)[row]);
  for (std::int64_t j = 0; j < count; ++j) sums[j] += weight * from[j];
}

/// Writes `count` sums to a row of D from a column on, with beta · C.
template <typename Real>
void store_sums(const Gemm& gemm, const KilnArgs& call, std::int64_t row, std::int64_t column,
                std::int64_t count, Real* sums);
extern template void store_sums(const Gemm&, const KilnArgs&, std::int64_t, std::int64_t,
                                std::int64_t, float*);
extern template void store_sums(const Gemm&, const KilnArgs&, std::int64_t, std::int64_t,
                                std::int64_t, double*);

}  // namespace kiln
