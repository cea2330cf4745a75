// Expressions that read what they reduce, and what plain loops make of them: they share nothing
// with the reference in tuner/ but the element conversions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <ostream>
#include <string_view>
#include <vector>

#include "generator/problem/extent.h"
#include "kiln/engine.hpp"
#include "kiln/numeric.hpp"
#include "support/naive_gemm.h"

namespace kiln::test {

inline constexpr std::int64_t kEvery = -1;

/// One batch of alpha * op(A) * op(B) + beta * C.
struct PlainProduct {
  std::int64_t m, n;
  std::vector<double> x;

  PlainProduct(const Gemm& g, const Operands& in, std::int64_t batch)
      : m(g.m), n(g.n), x(static_cast<std::size_t>(g.m * g.n)) {
    std::vector<double> b(static_cast<std::size_t>(g.k * g.n));
    for (std::int64_t p = 0; p < g.k; ++p)
      for (std::int64_t j = 0; j < n; ++j)
        b[static_cast<std::size_t>(p * n + j)] =
            load_element(g.b.dtype, in.b, batch * g.stride_b() + offset(g.b, g.ldb(), p, j));
    for (std::int64_t i = 0; i < m; ++i) {
      double* const row = &x[static_cast<std::size_t>(i * n)];
      for (std::int64_t p = 0; p < g.k; ++p) {
        const double a =
            load_element(g.a.dtype, in.a, batch * g.stride_a() + offset(g.a, g.lda(), i, p));
        for (std::int64_t j = 0; j < n; ++j) row[j] += a * b[static_cast<std::size_t>(p * n + j)];
      }
      for (std::int64_t j = 0; j < n; ++j) {
        row[j] *= in.alpha;
        if (in.beta != 0.0)
          row[j] += in.beta * load_element(g.c.dtype, in.c,
                                           batch * g.stride_c() + offset(g.c, g.ldc(), i, j));
      }
    }
  }

  static constexpr double kMost = std::numeric_limits<double>::infinity();
  /// NaN where one is.
  static double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

  double operator()(std::int64_t i, std::int64_t j) const {
    return x[static_cast<std::size_t>(i * n + j)];
  }
  /// Of row i, or of every one, and of column j, or of every one.
  template <typename F, typename Fold>
  double folded(std::int64_t i, std::int64_t j, double first, F&& f, Fold&& fold) const {
    double all = first;
    for (std::int64_t r = i == kEvery ? 0 : i; r < (i == kEvery ? m : i + 1); ++r)
      for (std::int64_t c = j == kEvery ? 0 : j; c < (j == kEvery ? n : j + 1); ++c)
        all = fold(all, f((*this)(r, c)));
    return all;
  }
  template <typename F>
  double sum(std::int64_t i, std::int64_t j, F&& f) const {
    return folded(i, j, 0, f, [](double a, double b) { return a + b; });
  }
  double sum(std::int64_t i, std::int64_t j) const {
    return sum(i, j, [](double v) { return v; });
  }
  double squares(std::int64_t i, std::int64_t j) const {
    return sum(i, j, [](double v) { return v * v; });
  }
  double largest(std::int64_t i, std::int64_t j) const {
    return folded(
        i, j, 0, [](double v) { return std::fabs(v); }, larger);
  }
  double least(std::int64_t i, std::int64_t j) const {
    return -folded(
        i, j, -kMost, [](double v) { return -v; }, larger);
  }
  double most(std::int64_t i, std::int64_t j) const {
    return folded(
        i, j, -kMost, [](double v) { return v; }, larger);
  }
  double logsumexp(std::int64_t i, std::int64_t j) const {
    const double top = most(i, j);
    if (std::isinf(top)) return top;
    return top + std::log(sum(i, j, [top](double v) { return std::exp(v - top); }));
  }
};

/// An element of the first operand: g[n] or the like.
using PlainOperand = std::function<double(std::int64_t)>;

struct LineExpression {
  const char* text;
  /// Of element (i, j) with what is reduced of row r and of column c: r = i and c = j.
  double (*d)(const PlainProduct& acc, const PlainOperand& g, std::int64_t i, std::int64_t j,
              std::int64_t r, std::int64_t c);
  /// The one output, if there is one.
  double (*line)(const PlainProduct& acc, std::int64_t i, std::int64_t j) = nullptr;
  /// Whether neighbours' elements of D are made of different lines.
  bool reads_lines() const {
    const std::string_view all(text);
    return all.find("[](") == all.npos && !all.ends_with(";d=acc");
  }
  friend void PrintTo(const LineExpression& e, std::ostream* out) { *out << e.text; }
};

/// Of batches: every output has the index batch. A column of D has 20 elements.
inline const std::vector<LineExpression>& line_expressions() {
  using A = const PlainProduct&;
  using G = const PlainOperand&;
  using I = std::int64_t;
  constexpr auto itself = [](A acc, G, I i, I j, I, I) { return acc(i, j); };
  static const std::vector<LineExpression> all = {
      {"d=exp(acc-logsumexp[m](acc))",
       [](A acc, G, I i, I j, I r, I) { return std::exp(acc(i, j) - acc.logsumexp(r, kEvery)); }},
      {"d=exp(acc-logsumexp[n](acc))",
       [](A acc, G, I i, I j, I, I c) { return std::exp(acc(i, j) - acc.logsumexp(kEvery, c)); }},
      {"s[batch,m]=max(abs(acc))/448;d=acc/s[batch,m]",
       [](A acc, G, I i, I j, I r, I) { return acc(i, j) / (acc.largest(r, kEvery) / 448); },
       [](A acc, I i, I) { return acc.largest(i, kEvery) / 448; }},
      {"s[batch,n]:bf16=max(abs(acc));d=acc/s[batch,n]",
       [](A acc, G, I i, I j, I, I c) { return acc(i, j) / acc.largest(kEvery, c); },
       [](A acc, I, I j) { return acc.largest(kEvery, j); }},
      {"q[batch,m]=rsqrt(sum(acc*acc)/4096+1e-5);d=acc*q[batch,m]*g[n]",
       [](A acc, G g, I i, I j, I r, I) {
         return acc(i, j) / std::sqrt(acc.squares(r, kEvery) / 4096 + 1e-5) * g(j);
       },
       [](A acc, I i, I) { return 1 / std::sqrt(acc.squares(i, kEvery) / 4096 + 1e-5); }},
      {"d=acc-sum[n](acc)/20",
       [](A acc, G, I i, I j, I, I c) { return acc(i, j) - acc.sum(kEvery, c) / 20; }},
      {"d=acc/max[](abs(acc))",
       [](A acc, G, I i, I j, I, I) { return acc(i, j) / acc.largest(kEvery, kEvery); }},
      {"v[batch,m]=sum(acc*acc)-sum(acc)*sum(acc);d=acc", itself,
       [](A acc, I i, I) {
         return acc.squares(i, kEvery) - acc.sum(i, kEvery) * acc.sum(i, kEvery);
       }},
      {"t[batch,n]:fp16=min(acc)*2+1;d=acc", itself,
       [](A acc, I, I j) { return acc.least(kEvery, j) * 2 + 1; }},
      {"a[batch]=max(acc)-min(acc);d=acc", itself,
       [](A acc, I, I) { return acc.most(kEvery, kEvery) - acc.least(kEvery, kEvery); }},
  };
  return all;
}

/// What a kernel stores of D (output -1) or of the output (0) at an element; nothing: it does not.
using PlainStore = std::function<std::optional<double>(
    const PlainProduct& acc, const PlainOperand& g, int output, std::int64_t i, std::int64_t j)>;

/// Rounds what it says to D and the output of `to`, in every batch.
inline void store_plainly(const Gemm& g, const Operands& in, const PlainStore& stored) {
  const PlainOperand operand = [&](std::int64_t at) {
    return load_element(g.d.dtype == fp64 ? fp64 : fp32, in.extra[0], at);
  };
  for (std::int64_t batch = 0; batch < g.batch; ++batch) {
    const PlainProduct acc(g, in, batch);
    for (std::int64_t i = 0; i < g.m; ++i)
      for (std::int64_t j = 0; j < g.n; ++j)
        if (const auto x = stored(acc, operand, -1, i, j))
          store_element(g.d.dtype, in.d, batch * g.stride_d() + offset(g.d, g.ldd(), i, j), *x);
    if (g.epilogue.expression.outputs().empty()) continue;
    const ExtraOperand& target = g.epilogue.expression.outputs()[0].target;
    const bool m = std::ranges::count(target.index, Index::m) > 0,
               n = std::ranges::count(target.index, Index::n) > 0;
    const std::int64_t lines = m ? g.m : n ? g.n : 1;
    const DType type = target.dtype.value_or(g.d.dtype == fp64 ? fp64 : fp32);
    for (std::int64_t line = 0; line < lines; ++line)
      if (const auto x = stored(acc, operand, 0, m ? line : 0, n ? line : 0))
        store_element(type, in.outputs[0], batch * lines + line, *x);
  }
}

/// The right ones.
inline PlainStore right_store(const LineExpression& e) {
  return [&e](const PlainProduct& acc, const PlainOperand& g, int output, std::int64_t i,
              std::int64_t j) {
    return std::optional(output == 0 ? e.line(acc, i, j) : e.d(acc, g, i, j, i, j));
  };
}

}  // namespace kiln::test
