// Scales and zero points as the kernel without a compiler applies them to sums of integers. Knows
// nothing of how these are summed.
#pragma once

#include <cstdint>
#include <type_traits>

#include "generator/problem/extent.h"
#include "kiln/numeric.hpp"
#include "templates/cpu/common/abi.h"

namespace kiln {

/// What sums of one row of D count as: less what the row's zero point added, times the scales of
/// row and column. Sums that are not integers are what they are.
class SumScales {
 public:
  SumScales(const Gemm& gemm, const KilnArgs& args, std::int64_t batch, std::int64_t row) {
    if (gemm.accumulator != s32) return;
    const auto place = [&](Scale kind, std::int64_t lines, std::int64_t line) {
      return kind == Scale::tensor ? batch : batch * lines + line;
    };
    if (gemm.a.q.scale != Scale::none)
      of_row_ = load_element(fp32, args.scale_a, place(gemm.a.q.scale, args.m, row));
    of_columns_ = gemm.b.q.scale;
    scales_b_ = args.scale_b;
    first_scale_ = place(gemm.b.q.scale, gemm.columns_of_b(), 0);
    if (gemm.a.q.zero == Zero::none) return;
    zero_ = integer(args.zero_a, place(scale_of(gemm, Operand::zero_a), args.m, row));
    sums_b_ = args.column_sums_b;
    first_sum_ = batch * gemm.columns_of_b();
  }

  template <typename Acc>
  double value(Acc sum, std::int64_t column) const {
    if constexpr (std::is_integral_v<Acc>)  // wraps as the sums do
      if (sums_b_ != nullptr)
        sum = static_cast<Acc>(static_cast<std::uint32_t>(sum) -
                               zero_ * integer(sums_b_, first_sum_ + column));
    const double of_row = of_row_ * static_cast<double>(sum);
    if (of_columns_ == Scale::none) return of_row;
    const std::int64_t at = first_scale_ + (of_columns_ == Scale::tensor ? 0 : column);
    return of_row * load_element(fp32, scales_b_, at);
  }

 private:
  static std::uint32_t integer(const void* numbers, std::int64_t at) {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(load_element(s32, numbers, at)));
  }

  double of_row_ = 1;
  Scale of_columns_ = Scale::none;
  const void *scales_b_ = nullptr, *sums_b_ = nullptr;
  std::int64_t first_scale_ = 0, first_sum_ = 0;
  std::uint32_t zero_ = 0;
};

}  // namespace kiln
