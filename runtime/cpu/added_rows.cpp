#include "runtime/cpu/added_rows.h"

#include <algorithm>

#include "generator/problem/extent.h"
#include "kiln/numeric.hpp"
#include "runtime/cpu/thread_pool.h"
#include "runtime/workspace.h"

namespace kiln {

Status AddedRows::redirect(KilnArgs& to) {
  constexpr std::int64_t kUnit = 64;
  const Gemm product = in_order(gemm_);
  const std::int64_t unit = std::max<std::int64_t>(kUnit, gemm_.alignment);
  const std::int64_t bytes =
      (gemm_.m * line_bytes(product, Operand::d) + kUnit - 1) / kUnit * kUnit;
  const std::int64_t lists = 4 * (rows_of_d(gemm_) + gemm_.m);
  const Result<void*> memory = product_space(bytes + lists + unit);
  if (!memory) return tl::unexpected(memory.error());
  const auto address = reinterpret_cast<std::uintptr_t>(*memory);
  const auto step = static_cast<std::uintptr_t>(unit);
  product_ = static_cast<std::byte*>(*memory) + ((address + step - 1) / step * step - address);
  first_ = reinterpret_cast<std::int32_t*>(product_ + bytes);
  next_ = first_ + rows_of_d(gemm_);
  to.d = product_;
  to.ldd = to.ldc = gemm_.n;
  to.c = nullptr;
  to.beta = 0;
  return {};
}

void AddedRows::link() {
  const std::int64_t rows = rows_of_d(gemm_);
  std::fill_n(first_, rows, -1);
  for (std::int64_t i = rows_in_groups(gemm_, call_.groups) - 1; i >= 0; --i) {
    const std::int64_t row = row_to_add_to(call_.index_d, i, rows);
    if (row < 0) continue;
    next_[i] = first_[row];
    first_[row] = static_cast<std::int32_t>(i);
  }
}

void AddedRows::add(int threads) {
  link();
  const std::int64_t rows = rows_of_d(gemm_);
  auto share = [&](int thread, int all) {
    const std::int64_t begin = rows * thread / all, end = rows * (thread + 1) / all;
    if (gemm_.d.dtype == DType::fp64)
      add_to<double>(begin, end);
    else
      add_to<float>(begin, end);
  };
  if (threads > 1)
    parallel(threads, share);
  else
    share(0, 1);
}

template <typename Real>
void AddedRows::add_to(std::int64_t begin, std::int64_t end) const {
  constexpr std::int64_t kColumns = 1024;
  alignas(64) Real sums[kColumns];
  const auto* const product = reinterpret_cast<const Real*>(product_);
  for (std::int64_t row = begin; row < end; ++row)
    for (std::int64_t j = 0; j < gemm_.n; j += kColumns) {
      const std::int64_t count = std::min(kColumns, gemm_.n - j);
      std::fill_n(sums, count, Real(0));
      for (std::int32_t i = first_[row]; i >= 0; i = next_[i])
        add_elements(gemm_, call_, i, product + i * gemm_.n + j, count, sums);
      store_sums(gemm_, call_, row, j, count, sums);
    }
}

template <typename Real>
void store_sums(const Gemm& gemm, const KilnArgs& call, std::int64_t row, std::int64_t column,
                std::int64_t count, Real* sums) {
  const DType type = gemm.d.dtype;
  if (const auto beta = static_cast<Real>(call.beta); beta != 0)
    for (std::int64_t j = 0; j < count; ++j)
      sums[j] += beta * static_cast<Real>(load_element(type, call.c, row * call.ldc + column + j));
  const std::int64_t at = row * call.ldd + column;
  const auto store = [&]<typename Stored>(Stored* to, auto&& rounded) {
    for (std::int64_t j = 0; j < count; ++j) to[at + j] = rounded(sums[j]);
  };
  switch (type) {
    case DType::fp32:
      return store(static_cast<float*>(call.d), [](Real x) { return static_cast<float>(x); });
    case DType::bf16:
      return store(static_cast<std::uint16_t*>(call.d),
                   [](Real x) { return float_to_bf16(static_cast<float>(x)); });
    case DType::fp16:
      return store(static_cast<std::uint16_t*>(call.d),
                   [](Real x) { return float_to_fp16(static_cast<float>(x)); });
    default:
      for (std::int64_t j = 0; j < count; ++j) store_element(type, call.d, at + j, sums[j]);
  }
}
template void store_sums(const Gemm&, const KilnArgs&, std::int64_t, std::int64_t, std::int64_t,
                         float*);
template void store_sums(const Gemm&, const KilnArgs&, std::int64_t, std::int64_t, std::int64_t,
                         double*);

}  // namespace kiln
