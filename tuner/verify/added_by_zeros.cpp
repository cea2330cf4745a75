#include "tuner/verify/added_by_zeros.h"

#include "kiln/numeric.hpp"

namespace kiln {

AddedByZeros::AddedByZeros(const Gemm& gemm, const Scales& scales, std::int64_t batch) {
  if (gemm.a.q.zero == Zero::none) return;
  const auto at = [&](Operand which, const void* data, std::int64_t line) {
    if (!present(gemm, which) || data == nullptr) return 1.0;
    const bool one = scale_of(gemm, which) == Scale::tensor;
    return load_element(dtype_of(gemm, which), data,
                        batch * batch_stride(gemm, which) + (one ? 0 : line));
  };
  for (std::int64_t i = 0; i < gemm.m; ++i)
    rows_.push_back(at(Operand::zero_a, scales.zero_a, i) * at(Operand::scale_a, scales.a, i));
  for (std::int64_t j = 0; j < gemm.columns_of_b(); ++j)
    columns_.push_back(at(Operand::column_sums_b, scales.column_sums_b, j) *
                       at(Operand::scale_b, scales.b, j));
}

void AddedByZeros::subtract(Lines::Along along, std::span<const std::int64_t> lines,
                            std::span<double> sums) const {
  if (rows_.empty()) return;
  const bool by_rows = along == Lines::Along::rows;
  const std::vector<double>&ours = by_rows ? rows_ : columns_, &others = by_rows ? columns_ : rows_;
  for (std::size_t i = 0; i < sums.size(); ++i)
    sums[i] -= ours[lines[i / others.size()]] * others[i % others.size()];
}

void AddedByZeros::subtract(std::span<std::int32_t> sums) const {
  if (rows_.empty()) return;
  for (std::size_t i = 0; i < sums.size(); ++i)
    sums[i] -=
        static_cast<std::int32_t>(rows_[i / columns_.size()] * columns_[i % columns_.size()]);
}

}  // namespace kiln
