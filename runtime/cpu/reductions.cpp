#include "runtime/cpu/reductions.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "generator/expression/program.h"
#include "generator/problem/extent.h"
#include "kiln/numeric.hpp"
#include "runtime/cpu/thread_pool.h"
#include "runtime/workspace.h"

namespace kiln {
namespace {

/// Elements of a line that are reduced beside one another, each lane a chain of its own.
constexpr std::int64_t kLanes = 32;

struct Sum {
  template <typename Real>
  static Real of_none() {
    return 0;
  }
  template <typename Real>
  static Real of_two(Real x, Real y) {
    return x + y;
  }
};
struct Largest {
  template <typename Real>
  static Real of_none() {
    return -std::numeric_limits<Real>::infinity();
  }
  template <typename Real>
  static Real of_two(Real x, Real y) {
    return x > y || x != x ? x : y;
  }
};
struct Smallest {
  template <typename Real>
  static Real of_none() {
    return std::numeric_limits<Real>::infinity();
  }
  template <typename Real>
  static Real of_two(Real x, Real y) {
    return x < y || x != x ? x : y;
  }
};

/// Elements `step` apart, for each of `width` neighbouring lines, whose first elements are
/// neighbours; `term(value, line)` of each.
template <typename R, typename Real, typename Term>
void over_lines(const Real* values, std::int64_t count, std::int64_t step, std::int64_t width,
                Real* out, Term&& term) {
  constexpr std::int64_t kChains = 8;
  std::array<std::array<Real, kLanes>, kChains> chain;
  for (auto& each : chain) each.fill(R::template of_none<Real>());
  for (std::int64_t i = 0; i < count; ++i) {
    auto& own = chain[static_cast<std::size_t>(i % kChains)];
    for (std::int64_t j = 0; j < width; ++j)
      own[static_cast<std::size_t>(j)] =
          R::of_two(own[static_cast<std::size_t>(j)], term(values[i * step + j], j));
  }
  for (std::int64_t j = 0; j < width; ++j) {
    Real all = R::template of_none<Real>();
    for (const auto& each : chain) all = R::of_two(all, each[static_cast<std::size_t>(j)]);
    out[j] = all;
  }
}

/// Neighbouring elements of one line.
template <typename R, typename Real, typename Term>
Real over_line(const Real* values, std::int64_t count, Term&& term) {
  std::array<Real, kLanes> lane;
  lane.fill(R::template of_none<Real>());
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t l = 0; l < kLanes; ++l)
      lane[static_cast<std::size_t>(l)] =
          R::of_two(lane[static_cast<std::size_t>(l)], term(values[i + l]));
  for (std::int64_t l = 0; i + l < count; ++l)
    lane[static_cast<std::size_t>(l)] =
        R::of_two(lane[static_cast<std::size_t>(l)], term(values[i + l]));
  Real all = R::template of_none<Real>();
  for (const Real x : lane) all = R::of_two(all, x);
  return all;
}

/// Of what e^x are taken as shares: 0 where the largest is no number.
template <typename Real>
Real base_of(Real largest) {
  return std::isfinite(largest) ? largest : Real(0);
}
template <typename Real>
Real logarithm(Real largest, Real sum) {
  return std::isfinite(largest) ? largest + std::log(sum) : largest;
}

using Four = float __attribute__((vector_size(16)));
using FourBits = std::int32_t __attribute__((vector_size(16)));

/// e^x for x up to 0, to some roundoffs: the library's took 2 ns an element. What is below the
/// normal numbers is e^-87.
Four exponential(Four x) {
  constexpr float kRounder = 0x1.8p23F;
  const Four least = Four{} - 87.0F;
  const Four y = x < least ? least : x;  // NaN stays NaN
  const Four rounded = y * 1.44269504F + kRounder, n = rounded - kRounder;
  const Four r = y - n * 0.693359375F + n * 2.12194440e-4F;  // ln 2 in two parts
  Four p = 1.0F / 5040 * r + 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r * r + r + 1.0F;
  const FourBits whole =
      std::bit_cast<FourBits>(rounded) - std::bit_cast<FourBits>(Four{} + kRounder);
  return p * std::bit_cast<Four>((whole + 127) << 23);
}

double largest_of(const double* values, std::int64_t count) {
  return over_line<Largest>(values, count, [](double x) { return x; });
}
float largest_of(const float* values, std::int64_t count) {
  std::array<Four, kLanes / 4> lanes;
  lanes.fill(Four{} - std::numeric_limits<float>::infinity());
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      Four x;
      std::memcpy(&x, values + i + 4 * l, sizeof x);
      lanes[l] = (lanes[l] > x) | (lanes[l] != lanes[l]) ? lanes[l] : x;
    }
  float all = over_line<Largest>(values + i, count - i, [](float x) { return x; });
  for (const Four& four : lanes)
    for (int l = 0; l < 4; ++l) all = Largest::of_two(all, four[l]);
  return all;
}

/// Of e^(x - base).
double sum_of_exponentials(const double* values, std::int64_t count, double base) {
  return over_line<Sum>(values, count, [base](double x) { return std::exp(x - base); });
}
float sum_of_exponentials(const float* values, std::int64_t count, float base) {
  std::array<Four, kLanes / 4> lanes{};
  const auto take = [&](const float* from) {
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      Four x;
      std::memcpy(&x, from + 4 * l, sizeof x);
      lanes[l] += exponential(x - base);
    }
  };
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) take(values + i);
  std::array<float, kLanes> sums{};
  std::memcpy(sums.data(), lanes.data(), sizeof sums);
  for (std::int64_t l = 0; i + l < count; ++l)
    sums[static_cast<std::size_t>(l)] += exponential(Four{} + (values[i + l] - base))[0];
  float all = 0;
  for (const float x : sums) all += x;
  return all;
}

template <typename Real>
Real reduced(Reduction how, const Real* values, std::int64_t count) {
  const auto same = [](Real x) { return x; };
  switch (how) {
    case Reduction::sum:
      return over_line<Sum>(values, count, same);
    case Reduction::max:
      return largest_of(values, count);
    case Reduction::min:
      return over_line<Smallest>(values, count, same);
    default:
      break;
  }
  const Real largest = largest_of(values, count), base = base_of(largest);
  return logarithm(largest, sum_of_exponentials(values, count, base));
}

/// Of `width` neighbouring columns, at most kLanes.
template <typename Real>
void reduced_columns(Reduction how, const Real* values, std::int64_t count, std::int64_t step,
                     std::int64_t width, Real* out) {
  const auto same = [](Real x, std::int64_t) { return x; };
  switch (how) {
    case Reduction::sum:
      return over_lines<Sum>(values, count, step, width, out, same);
    case Reduction::max:
      return over_lines<Largest>(values, count, step, width, out, same);
    case Reduction::min:
      return over_lines<Smallest>(values, count, step, width, out, same);
    default:
      break;
  }
  std::array<Real, kLanes> base{}, sum{};
  over_lines<Largest>(values, count, step, width, out, same);
  for (std::int64_t j = 0; j < width; ++j) base[static_cast<std::size_t>(j)] = base_of(out[j]);
  over_lines<Sum>(values, count, step, width, sum.data(), [&](Real x, std::int64_t j) {
    return std::exp(x - base[static_cast<std::size_t>(j)]);
  });
  for (std::int64_t j = 0; j < width; ++j)
    out[j] = logarithm(out[j], sum[static_cast<std::size_t>(j)]);
}

}  // namespace

Status Reductions::redirect(KilnArgs& to) {
  constexpr std::int64_t kUnit = 64;
  const std::int64_t bytes =
      (gemm_.batch * gemm_.m * gemm_.n * size_of(type_of_values(gemm_)) + kUnit - 1) / kUnit *
      kUnit;
  std::int64_t all = 0;
  for (const Operand which : kBesideD) all += reduction_of(gemm_, which) != Reduction::none;
  // Kernels of CPUs store a D in any case.
  const bool stores_d = gemm_.epilogue.expression.stores_d();
  const std::int64_t d_bytes = stores_d ? 0 : span_bytes(gemm_, Operand::d);
  const Result<void*> memory = product_space(all * bytes + d_bytes);
  if (!memory) return tl::unexpected(memory.error());
  auto* next = static_cast<std::byte*>(*memory);
  for (const Operand which : kBesideD) {
    if (reduction_of(gemm_, which) == Reduction::none) continue;
    to.outputs[index_of_extra(which)] = values_[index_of_extra(which)] = next;
    next += bytes;
  }
  if (!stores_d) to.d = next;
  return {};
}

template <typename Real>
void Reductions::reduce_output(Operand which, int threads) const {
  const std::size_t i = index_of_extra(which);
  const Reduction how = reduction_of(gemm_, which);
  const ExtraOutput& output = gemm_.epilogue.expression.outputs()[i];
  auto* const values = static_cast<Real*>(values_[i]);
  const DType type = dtype_of(gemm_, which);
  const std::int64_t m = gemm_.m, n = gemm_.n;
  const auto store = [&](std::int64_t batch, std::int64_t at, Real x) {
    store_element(type, call_.outputs[i], batch * call_.reduced_stride[i] + at, x);
  };
  const bool columns = expression::has_index(output.target, Index::n);
  const bool all = expression::reduces_all(output);
  // Rows, or 32 columns, of one batch after the other. What becomes of all is made of rows'.
  const std::int64_t lines = columns ? (n + kLanes - 1) / kLanes : m, work = gemm_.batch * lines;
  auto share = [&](int thread, int count) {
    for (std::int64_t any = work * thread / count; any < work * (thread + 1) / count; ++any) {
      const std::int64_t batch = any / lines, line = any % lines;
      Real* const of_batch = values + batch * m * n;
      if (columns) {
        const std::int64_t first = line * kLanes, width = std::min(kLanes, n - first);
        std::array<Real, kLanes> out{};
        reduced_columns(how, of_batch + first, m, n, width, out.data());
        for (std::int64_t j = 0; j < width; ++j)
          store(batch, first + j, out[static_cast<std::size_t>(j)]);
        continue;
      }
      const Real x = reduced(how, of_batch + line * n, n);
      if (all)
        of_batch[line * n] = x;
      else
        store(batch, line, x);
    }
  };
  if (threads > 1)
    parallel(threads, share);
  else
    share(0, 1);
  if (!all) return;
  std::vector<Real> rows(static_cast<std::size_t>(m));
  for (std::int64_t batch = 0; batch < gemm_.batch; ++batch) {
    for (std::int64_t row = 0; row < m; ++row)
      rows[static_cast<std::size_t>(row)] = values[(batch * m + row) * n];
    store(batch, 0, reduced(how, rows.data(), m));
  }
}

void Reductions::reduce(int threads) {
  for (const Operand which : kBesideD) {
    if (reduction_of(gemm_, which) == Reduction::none) continue;
    if (type_of_values(gemm_) == DType::fp64)
      reduce_output<double>(which, threads);
    else
      reduce_output<float>(which, threads);
  }
}

}  // namespace kiln
