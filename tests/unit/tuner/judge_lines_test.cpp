// Expressions that read what they reduce: the judge accepts what plain loops make of them, and none
// of the mistakes that kernels are likely to make.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "support/line_expressions.h"
#include "tuner/verify/judge.h"
#include "tuner/verify/reduced_lines.h"
#include "tuner/verify/view.h"

namespace kiln::judge_lines_test {

using test::LineExpression;
using test::PlainOperand;
using test::PlainProduct;
using test::PlainStore;
using testing::HasSubstr;

constexpr Run kRuns[] = {{}, {.alpha = 0.5, .beta = -1.5, .c = Run::C::separate}};

Gemm problem(const LineExpression& e, Order order = Order::row_major, DType type = fp32) {
  const Gemm plain = order == Order::row_major ? Gemm::row_major(20, 24, 18, type)
                                               : Gemm::column_major(20, 24, 18, type);
  return plain.batched(2).with_expression(Expression::parse(e.text).value());
}

/// Inputs and what is stored: all of it is poisoned before.
struct Bed {
  Gemm gemm;
  DataSet set;
  std::vector<std::byte> d, line;

  Bed(const Gemm& g, Data data)
      : gemm(g),
        set(DataSet::make(g, {.data = data, .seed = 3}).value()),
        d(static_cast<std::size_t>(span_bytes(g, Operand::d))),
        line(static_cast<std::size_t>(
            g.epilogue.expression.outputs().empty() ? 0 : span_bytes(g, Operand::y0))) {}

  std::optional<Failure> judged(const Run& run, const PlainStore& stored) {
    poison(gemm.d.dtype, d);
    if (!line.empty()) poison(dtype_of(gemm, Operand::y0), line);
    Operands call;
    set.bind(call);
    call.d = d.data(), call.outputs[0] = line.data();
    call.alpha = run.alpha, call.beta = run.beta;
    store_plainly(gemm, call, stored);
    return judge_values(set, run, Outputs::of(call));
  }
};

class JudgeLines : public testing::TestWithParam<LineExpression> {};

TEST_P(JudgeLines, AcceptsWhatPlainLoopsMake) {
  for (const Order order : {Order::row_major, Order::column_major})
    for (const DType type : {fp32, bf16, fp64})
      for (const Data data : {Data::exact, Data::uniform}) {
        const Gemm gemm = problem(GetParam(), order, type);
        ASSERT_TRUE(Problem::of(gemm)) << text(gemm);
        Bed bed(gemm, data);
        for (const kiln::Run& run : kRuns) {
          const auto failure = bed.judged(run, right_store(GetParam()));
          EXPECT_FALSE(failure) << failure->detail;
        }
      }
}

/// What is wrong with a value by 1 % or is not there, of the element or the line at (i, j).
TEST_P(JudgeLines, RefusesAWrongElement) {
  const auto right = right_store(GetParam());
  for (const Order order : {Order::row_major, Order::column_major})
    for (const Data data : {Data::exact, Data::uniform}) {
      const Gemm gemm = problem(GetParam(), order);
      Bed bed(gemm, data);
      for (int output = gemm.epilogue.expression.outputs().empty() ? -1 : 0; output >= -1; --output)
        for (const bool unwritten : {false, true}) {
          bool spoilt = false;
          const auto failure = bed.judged({}, [&](const PlainProduct& acc, const PlainOperand& g,
                                                  int to, std::int64_t i, std::int64_t j) {
            auto x = right(acc, g, to, i, j);
            // Of small ones 1 % is less than the roundings of what they are differences of.
            if (to != output || spoilt || std::fabs(*x) < 1e-3) return x;
            spoilt = true;
            x = *x * 1.01;
            return unwritten ? std::nullopt : x;
          });
          EXPECT_TRUE(spoilt && failure) << text(gemm) << " output " << output;
          if (failure && unwritten) {
            EXPECT_THAT(failure->detail, HasSubstr("never written"));
          }
        }
    }
}

TEST_P(JudgeLines, RefusesTheNeighboursLine) {
  const LineExpression& e = GetParam();
  int planted = 0;
  for (const Order order : {Order::row_major, Order::column_major})
    for (const Data data : {Data::exact, Data::uniform}) {
      Bed bed(problem(e, order), data);
      bool spoilt = false;
      const auto failure = bed.judged({}, [&](const PlainProduct& acc, const PlainOperand& g,
                                              int output, std::int64_t i, std::int64_t j) {
        if (output == 0) return std::optional(e.line(acc, i, j));
        const double own = e.d(acc, g, i, j, i, j);
        if (spoilt || i + 1 >= acc.m || j + 1 >= acc.n) return std::optional(own);
        const double other = e.d(acc, g, i, j, i + 1, j + 1);
        spoilt = std::fabs(other - own) > 0.01 * std::fabs(own) + 1e-3;
        return std::optional(spoilt ? other : own);
      });
      EXPECT_EQ(failure.has_value(), spoilt) << e.text;
      planted += spoilt;
    }
  EXPECT_EQ(planted > 0, e.reads_lines()) << e.text;
}

TEST_P(JudgeLines, ExpectsLittleOfMostElements) {
  for (const Order order : {Order::row_major, Order::column_major}) {
    Bed bed(problem(GetParam(), order), Data::uniform);
    const Scaling scaling = scaling_of(bed.set, {});
    const LinesOfBatches reduced = reduced_lines(bed.set, 0, scaling);
    Operands inputs;
    bed.set.bind(inputs);
    const auto& program = *bed.gemm.epilogue.expression.program();
    std::vector<int> wanted{kValueOfD};
    for (const std::uint8_t result : program.results) wanted.push_back(result);
    for (const int value : wanted) {
      int narrow = 0, all = 0;
      for (const KnownLines& known : known_lines(bed.set, 0)) {
        TermReader terms(bed.gemm, inputs, known.batch(), known.along(),
                         lines_of(reduced, known.batch()));
        for_each_expected(bed.gemm, scaling, known, terms, value,
                          [&](std::int64_t, std::int64_t, double x, double error) {
                            narrow += error <= 1e-3 * (1e-2 + std::fabs(x));
                            ++all;
                            return true;
                          });
      }
      EXPECT_EQ(all, 2 * 20 * 24);
      EXPECT_GT(narrow, all * 9 / 10) << GetParam().text << " value " << value;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Expressions, JudgeLines, testing::ValuesIn(test::line_expressions()));

TEST(JudgeLinesTogether, AScaleThatIsNotDividedIsRefused) {
  const LineExpression& e = test::line_expressions()[2];
  for (const Data data : {Data::exact, Data::uniform}) {
    Bed bed(problem(e), data);
    const auto failure = bed.judged({}, [&](const PlainProduct& acc, const PlainOperand& g,
                                            int output, std::int64_t i, std::int64_t j) {
      const double x = *right_store(e)(acc, g, output, i, j);
      return std::optional(output == 0 ? x * 448 : x);
    });
    ASSERT_TRUE(failure);
    EXPECT_THAT(failure->detail, HasSubstr("y0"));
  }
}

TEST(JudgeLinesTogether, NaNStaysInItsLine) {
  const LineExpression& e = test::line_expressions()[0];
  const Gemm gemm = problem(e);
  DataSet set = DataSet::make(gemm, {.data = Data::uniform, .seed = 3, .nonfinite = true}).value();
  std::vector<std::byte> d(static_cast<std::size_t>(span_bytes(gemm, Operand::d)));
  Operands call;
  set.bind(call);
  call.d = d.data();
  std::int64_t numbers = 0;
  const auto judged = [&](std::int64_t spoilt) {
    numbers = 0;
    test::store_plainly(
        gemm, call,
        [&](const PlainProduct& acc, const PlainOperand& g, int output, std::int64_t i,
            std::int64_t j) {
          const double x = *right_store(e)(acc, g, output, i, j);
          numbers += !std::isnan(x);
          return std::optional(numbers == spoilt && !std::isnan(x) ? std::nan("") : x);
        });
    return judge_values(set, {}, Outputs::of(call));
  };
  const auto failure = judged(0);
  EXPECT_FALSE(failure) << failure->detail;
  if (numbers > 0) {
    EXPECT_TRUE(judged(numbers));
  }
}

/// Of a problem whose whole is too dear, rows that are known are judged with what they reduce.
TEST(JudgeLinesTogether, OfSampledRowsAllElementsAreKnown) {
  const LineExpression& e = test::line_expressions()[0];
  const Gemm gemm =
      Gemm::row_major(64, 64, 40000).with_expression(Expression::parse(e.text).value());
  ASSERT_FALSE(DataSet::whole_is_cheap(gemm));
  Bed bed(gemm, Data::uniform);
  const auto with_wrong_row = [&](std::int64_t row) {
    return bed.judged({}, [&](const PlainProduct& acc, const PlainOperand& g, int, std::int64_t i,
                              std::int64_t j) {
      return std::optional(e.d(acc, g, i, j, i == row ? i + 1 : i, j));
    });
  };
  const auto failure = with_wrong_row(-1);
  EXPECT_FALSE(failure) << failure->detail;
  EXPECT_TRUE(with_wrong_row(1)) << "the first rows are always known";
}

TEST(ReducedLines, AreKnownWhereAllElementsAre) {
  const Gemm gemm = Gemm::row_major(5, 7, 3).with_expression(
      Expression::parse("d=acc-sum[m](acc)-max[n](acc)-min[](acc)").value());
  const DataSet set = DataSet::make(gemm, {.data = Data::uniform, .seed = 3}).value();
  Operands inputs;
  set.bind(inputs);
  const auto of = [&](Lines::Along along, std::vector<std::int64_t> index) {
    return products(gemm, inputs.a, inputs.b, {along, 0, std::move(index)});
  };
  const Products rows = of(Lines::Along::rows, {1, 4}), columns = of(Lines::Along::columns, {6});
  const KnownLines known[] = {{gemm, rows}, {gemm, columns}};
  const std::vector<ExpectedLines> some = reduced_lines(gemm, inputs, {}, known, 0);
  ASSERT_EQ(some.size(), 3u);
  const auto known_of = [](const ExpectedLines& lines) {
    std::vector<int> all;
    for (std::size_t i = 0; i < lines.error.size(); ++i)
      if (std::isfinite(lines.error[i])) all.push_back(static_cast<int>(i));
    return all;
  };
  EXPECT_THAT(known_of(some[0]), testing::ElementsAre(1, 4));
  EXPECT_THAT(known_of(some[1]), testing::ElementsAre(6));
  EXPECT_THAT(known_of(some[2]), testing::IsEmpty());
  const PlainProduct acc(gemm, inputs, 0);
  EXPECT_NEAR(some[0].value[4], acc.sum(4, test::kEvery), 1e-12);
  EXPECT_NEAR(some[1].value[6], acc.most(test::kEvery, 6), 1e-12);
  const Products whole = of(Lines::Along::rows, {0, 1, 2, 3, 4});
  const KnownLines all(gemm, whole);
  const std::vector<ExpectedLines> every = reduced_lines(gemm, inputs, {}, {&all, 1}, 0);
  for (const ExpectedLines& lines : every) EXPECT_EQ(known_of(lines).size(), lines.error.size());
  EXPECT_NEAR(every[2].value[0], acc.least(test::kEvery, test::kEvery), 1e-12);
}

TEST(Reference, ComputesExpressionsThatReadWhatTheyReduce) {
  for (const LineExpression& e : test::line_expressions())
    for (const Order order : {Order::row_major, Order::column_major}) {
      Bed bed(problem(e, order, fp64), Data::uniform);
      Operands call;
      bed.set.bind(call);
      call.d = bed.d.data(), call.outputs[0] = bed.line.data();
      call.alpha = 0.5, call.beta = -1.5;
      store_plainly(bed.gemm, call, right_store(e));
      std::vector<std::byte> d(bed.d.size());
      call.d = d.data();
      ASSERT_TRUE(reference_gemm(bed.gemm, call)) << e.text;
      for (std::int64_t i = 0; i < span(bed.gemm, Operand::d); ++i) {
        const double want = load_element(fp64, bed.d.data(), i);
        ASSERT_NEAR(load_element(fp64, d.data(), i), want, 1e-12 * (1 + std::fabs(want))) << e.text;
      }
    }
}

}  // namespace kiln::judge_lines_test
