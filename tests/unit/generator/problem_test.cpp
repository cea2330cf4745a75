#include "generator/problem/problem.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "generator/problem/extent.h"

namespace kiln::problem_test {

/// Where element (row, column) of op(X) lies, straight from the words of the problem.
std::int64_t at(const Matrix& m, std::int64_t ld, std::int64_t row, std::int64_t column) {
  if (m.transposed) std::swap(row, column);
  return m.order == Order::row_major ? row * ld + column : column * ld + row;
}

struct Data {
  std::vector<long> a, b, c, d, bias, residual;
};

/// Integer arithmetic, so that any wrong index shows as a wrong number.
void multiply(const Gemm& g, Data& x) {
  const long alpha = 3, beta = 5;
  for (std::int64_t batch = 0; batch < g.batch; ++batch)
    for (std::int64_t i = 0; i < g.m; ++i)
      for (std::int64_t j = 0; j < g.n; ++j) {
        long sum = 0;
        for (std::int64_t p = 0; p < g.k; ++p)
          sum += x.a[batch * g.stride_a() + at(g.a, g.lda(), i, p)] *
                 x.b[batch * g.stride_b() + at(g.b, g.ldb(), p, j)];
        const std::int64_t out = batch * g.stride_d() + at(g.d, g.ldd(), i, j);
        long value = alpha * sum + beta * x.c[batch * g.stride_c() + at(g.c, g.ldc(), i, j)];
        if (g.epilogue.bias == Bias::per_row) value += x.bias[i];
        if (g.epilogue.bias == Bias::per_column) value += x.bias[j];
        x.d[out] = value + (g.epilogue.residual ? x.residual[out] : 0);
      }
}

/// The canonical product as the kernels read it: only row-major D and the two k-major flags.
void multiply_canonical(const Problem& problem, const Data& caller, std::vector<long>& d) {
  const Gemm& g = problem.gemm;
  const std::vector<long>& a = problem.swapped ? caller.b : caller.a;
  const std::vector<long>& b = problem.swapped ? caller.a : caller.b;
  const long alpha = 3, beta = 5;
  for (std::int64_t batch = 0; batch < g.batch; ++batch)
    for (std::int64_t i = 0; i < g.m; ++i)
      for (std::int64_t j = 0; j < g.n; ++j) {
        long sum = 0;
        for (std::int64_t p = 0; p < g.k; ++p)
          sum +=
              a[batch * g.a.batch_stride + (problem.a_k_major ? i * g.a.ld + p : p * g.a.ld + i)] *
              b[batch * g.b.batch_stride + (problem.b_k_major ? j * g.b.ld + p : p * g.b.ld + j)];
        const std::int64_t out = batch * g.d.batch_stride + i * g.d.ld + j;
        long value = alpha * sum + beta * caller.c[batch * g.c.batch_stride + i * g.c.ld + j];
        if (g.epilogue.bias == Bias::per_row) value += caller.bias[i];
        if (g.epilogue.bias == Bias::per_column) value += caller.bias[j];
        d[out] = value + (g.epilogue.residual ? caller.residual[out] : 0);
      }
}

Data random_data(const Gemm& g, std::mt19937& random) {
  const auto filled = [&random](std::int64_t count) {
    std::vector<long> values(static_cast<std::size_t>(count));
    for (long& v : values) v = static_cast<long>(random() % 2001) - 1000;
    return values;
  };
  return {.a = filled(span(g, Operand::a)),
          .b = filled(span(g, Operand::b)),
          .c = filled(span(g, Operand::c)),
          .d = filled(span(g, Operand::d)),
          .bias = filled(std::max(g.m, g.n)),
          .residual = filled(span(g, Operand::d))};
}

/// Bit i of `layout`: orders of A, B and D, transposes of A and B.
Gemm with_layout(Gemm g, int layout) {
  const auto order = [layout](int bit) {
    return (layout >> bit & 1) != 0 ? Order::column_major : Order::row_major;
  };
  g.a.order = order(0);
  g.b.order = order(1);
  g.c.order = g.d.order = order(2);
  g.a.transposed = (layout >> 3 & 1) != 0;
  g.b.transposed = (layout >> 4 & 1) != 0;
  return g;
}

TEST(Problem, EveryLayoutComputesTheSameProduct) {
  std::mt19937 random(11);
  for (int layout = 0; layout < 32; ++layout)
    for (int variant = 0; variant < 24; ++variant) {
      Gemm g = with_layout(Gemm::row_major(3, 4, 5), layout);
      g = g.batched(1 + variant % 2);
      g.epilogue.bias = static_cast<Bias>(variant % 3);
      g.epilogue.residual = variant % 4 >= 2;
      if (variant >= 12) {  // loose pitches, all different
        g.a.ld = 7, g.b.ld = 8, g.c.ld = 9, g.d.ld = 10;
        g.a.batch_stride = 61, g.b.batch_stride = 62, g.c.batch_stride = 63, g.d.batch_stride = 64;
      }
      ASSERT_TRUE(validate(g)) << text(g) << ": " << validate(g).error().message;
      Data data = random_data(g, random);
      std::vector<long> out = data.d;
      multiply(g, data);
      multiply_canonical(Problem::of(g).value(), data, out);
      EXPECT_EQ(out, data.d) << text(g);
    }
}

TEST(Problem, IsAValidProblemThatStaysAsItIs) {
  for (int layout = 0; layout < 32; ++layout) {
    const Gemm g = with_layout(Gemm::row_major(3, 4, 5, u8), layout).batched(2);
    const Problem once = Problem::of(g).value();
    ASSERT_TRUE(validate(once.gemm)) << text(g) << ": " << validate(once.gemm).error().message;
    EXPECT_EQ(once.gemm.a.order, Order::row_major);
    EXPECT_EQ(once.gemm.b.order, Order::row_major);
    EXPECT_EQ(once.gemm.d.order, Order::row_major);
    Problem twice = Problem::of(once.gemm).value();
    EXPECT_FALSE(twice.swapped);
    twice.swapped = once.swapped;
    twice.given = once.given;
    EXPECT_EQ(twice, once) << text(g);
    EXPECT_EQ(once.gemm.a.dtype, once.swapped ? s8 : u8);
  }
}

TEST(Problem, NothingIsLeftToDerive) {
  const Problem empty = Problem::of(Gemm::row_major(0, 4, 0)).value();
  for (const Matrix* m : empty.gemm.matrices()) {
    EXPECT_GE(m->ld, 1);
    EXPECT_GE(m->batch_stride, 1);
  }
  Gemm single = Gemm::row_major(3, 4, 5);
  const Problem tight = Problem::of(single).value();
  single.a.batch_stride = 1000;
  EXPECT_EQ(Problem::of(single).value().gemm, tight.gemm) << "one batch has no stride";
}

}  // namespace kiln::problem_test
