// The same rows in problems of other heights: contents of a tall problem, any of its rows as a
// problem of their own, and whether both runs left the same bits in D.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "generator/problem/extent.h"
#include "kiln/engine.hpp"
#include "support/naive_gemm.h"
#include "tuner/verify/data.h"

namespace kiln::test {

using Run = std::function<Status(const Operands&)>;

/// The problem with another m, tight.
inline Gemm with_rows(Gemm gemm, std::int64_t m) {
  gemm.m = m;
  for (Matrix* matrix : gemm.matrices()) matrix->ld = matrix->batch_stride = 0;
  return gemm;
}

/// Inputs of one problem, and D.
class Rows {
 public:
  /// Uniform contents for every operand. Those of A and D are whole bytes, and A's scales, if any,
  /// belong to one row each.
  explicit Rows(const Gemm& gemm, std::uint64_t seed = 1) : gemm_(gemm) {
    for (const Operand which : kAll) {
      at(which).resize(static_cast<std::size_t>(span_bytes(gemm, which)) + 64);
      if (which != Operand::d) fill(gemm, which, Data::uniform, seed, aligned(which));
    }
  }

  /// Rows `first` and on of this problem as one of `gemm.m` rows, which has the same other fields.
  Rows part(const Gemm& gemm, std::int64_t first) const {
    Rows out(gemm);
    for (const Operand which : kAll)
      if (which != Operand::d && present(gemm_, which)) out.copy(which, *this, first);
    return out;
  }

  /// D of a run with an alpha and a beta whose products are rounded.
  Status run(const Run& kernel) {
    Operands operands{.a = aligned(Operand::a),
                      .b = aligned(Operand::b),
                      .c = aligned(Operand::c),
                      .d = aligned(Operand::d),
                      .bias = aligned(Operand::bias),
                      .residual = aligned(Operand::residual),
                      .alpha = 0.7,
                      .beta = 0.3};
    operands.scale_a = aligned(Operand::scale_a);
    operands.scale_b = aligned(Operand::scale_b);
    if (present(gemm_, Operand::zero_b)) operands.zero_b = aligned(Operand::zero_b);
    if (present(gemm_, Operand::zero_a)) operands.zero_a = aligned(Operand::zero_a);
    if (present(gemm_, Operand::column_sums_b))
      operands.column_sums_b = aligned(Operand::column_sums_b);
    if (!present(gemm_, Operand::bias)) operands.bias = nullptr;
    if (!present(gemm_, Operand::residual)) operands.residual = nullptr;
    if (gemm_.a.q.scale == Scale::none) operands.scale_a = nullptr;
    if (gemm_.b.q.scale == Scale::none) operands.scale_b = nullptr;
    return kernel(operands);
  }

  /// Where D differs from rows `first` and on of `tall`'s, as a sentence.
  std::optional<std::string> difference(const Rows& tall, std::int64_t first) const {
    const auto size = static_cast<std::size_t>(size_of(gemm_.d.dtype));
    for (std::int64_t batch = 0; batch < gemm_.batch; ++batch)
      for (std::int64_t i = 0; i < gemm_.m; ++i)
        for (std::int64_t j = 0; j < gemm_.n; ++j)
          if (std::memcmp(element(Operand::d, batch, i, j),
                          tall.element(Operand::d, batch, first + i, j), size) != 0)
            return fmt::format("batch {}, row {} (row {} of {}), column {}", batch, i, first + i,
                               tall.gemm_.m, j);
    return std::nullopt;
  }

 private:
  static constexpr Operand kAll[] = {Operand::a,
                                     Operand::b,
                                     Operand::c,
                                     Operand::d,
                                     Operand::bias,
                                     Operand::residual,
                                     Operand::scale_a,
                                     Operand::scale_b,
                                     Operand::zero_b,
                                     Operand::zero_a,
                                     Operand::column_sums_b};

  std::vector<std::byte>& at(Operand which) { return bytes_[static_cast<std::size_t>(which)]; }
  const std::vector<std::byte>& at(Operand which) const {
    return bytes_[static_cast<std::size_t>(which)];
  }
  std::byte* aligned(Operand which) {
    auto address = reinterpret_cast<std::uintptr_t>(at(which).data());
    return reinterpret_cast<std::byte*>((address + 63) / 64 * 64);
  }

  /// Of a matrix: element (i, j) of op(A) or D's shape; of a vector or of scales: element j of line
  /// i.
  const std::byte* element(Operand which, std::int64_t batch, std::int64_t i,
                           std::int64_t j) const {
    auto* self = const_cast<Rows*>(this);
    std::int64_t at = batch * batch_stride(gemm_, which);
    if (row_of(which).matrix)
      at += offset(matrix(gemm_, which), leading_dimension(gemm_, which), i, j);
    else
      at += i * columns(which) + j;
    return self->aligned(which) + at * size_of(dtype_of(gemm_, which));
  }
  std::byte* element(Operand which, std::int64_t batch, std::int64_t i, std::int64_t j) {
    return const_cast<std::byte*>(std::as_const(*this).element(which, batch, i, j));
  }

  std::int64_t columns(Operand which) const {
    if (which == Operand::a) return gemm_.k;
    if (which == Operand::bias || which == Operand::zero_a) return 1;
    if (which == Operand::scale_a) {
      const int along = scale_block(scale_of(gemm_, which)).along;
      return along == 0 ? 1 : (gemm_.k + along - 1) / along;
    }
    return gemm_.n;
  }

  static bool is_factor(Operand which) {
    return which == Operand::scale_a || which == Operand::zero_a;
  }

  void copy(Operand which, const Rows& tall, std::int64_t first) {
    const bool by_rows = which != Operand::b && which != Operand::scale_b &&
                         which != Operand::zero_b && which != Operand::column_sums_b &&
                         !(is_factor(which) && scale_of(gemm_, which) == Scale::tensor) &&
                         !(which == Operand::bias && gemm_.epilogue.bias != Bias::per_row);
    if (!by_rows) {  // the same in both problems, which are tight
      std::memcpy(aligned(which), const_cast<Rows&>(tall).aligned(which),
                  static_cast<std::size_t>(span_bytes(gemm_, which)));
      return;
    }
    const auto size = static_cast<std::size_t>(size_of(dtype_of(gemm_, which)));
    const std::int64_t batches = which == Operand::bias ? 1 : gemm_.batch;
    for (std::int64_t batch = 0; batch < batches; ++batch)
      for (std::int64_t i = 0; i < gemm_.m; ++i)
        for (std::int64_t j = 0; j < columns(which); ++j)
          std::memcpy(element(which, batch, i, j), tall.element(which, batch, first + i, j), size);
  }

  Gemm gemm_;
  std::vector<std::byte> bytes_[16];
};

}  // namespace kiln::test
