// Expressions of intervals: whatever a right kernel computes lies within, and what it cannot
// compute does not.
#include "tuner/verify/interval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cli/commands/random_expression.h"
#include "generator/expression/evaluate.h"

namespace kiln::interval_test {

using expression::Program;
using namespace intervals;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const Precision kFp32 = precision_of(fp32, 0);

Interval number(double x) { return exactly(x, kFp32); }

Interval of(const Program& program, const Interval (&products)[2],
            const std::vector<double>& operands, const Interval* reduced = nullptr) {
  const std::vector<ExpressionStep> steps = steps_of(program);
  return expression_interval(steps.data(), program.d, kFp32, products, operands.data(), reduced, 3,
                             5);
}

Interval of(const Program& program, const Interval& acc, const std::vector<double>& operands,
            const Interval* reduced = nullptr) {
  return of(program, {acc, acc}, operands, reduced);
}

Interval of(std::string_view text, const Interval& acc, std::vector<double> operands = {},
            const Interval* reduced = nullptr) {
  operands.resize(kExtraOperands);
  return of(*Expression::parse(text).value().program(), acc, operands, reduced);
}

/// Every value rounded to fp32, as a kernel has it.
double in_fp32(const Program& program, double acc, const std::vector<double>& operands,
               const std::vector<double>& reduced) {
  std::vector<double> x(program.values.size());
  std::size_t lines = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const expression::Value& v = program.values[i];
    double value = 0;
    if (v.op == expression::Op::acc) value = acc;
    if (v.op == expression::Op::operand) value = operands[v.which];
    if (v.op == expression::Op::number) value = v.number;
    if (v.op == expression::Op::index) value = static_cast<Index>(v.which) == Index::m ? 3 : 5;
    if (v.op == expression::Op::call)
      value = expression::function_value(v.which, x[v.of[0]], x[v.of[1]], x[v.of[2]]);
    if (v.op == expression::Op::reduced) value = reduced.at(lines++);
    x[i] = static_cast<float>(value);
  }
  return x[program.d];
}

bool holds(const Interval& all, double x) {
  return std::isnan(x) ? all.nan : all.low <= x && x <= all.high;
}

TEST(Intervals, HoldWhatIsComputedInFp32) {
  cli::Draw draw(11);
  int narrow = 0, all = 0;
  for (int i = 0; i < 3000; ++i) {
    const Expression drawn = Expression::parse(cli::random_expression(draw)).value();
    std::vector<double> operands;
    for (std::size_t o = 0; o < kExtraOperands; ++o)
      operands.push_back(static_cast<float>(double(draw.between(-1000, 1000)) / 700));
    const double acc = static_cast<float>(double(draw.between(-4000, 4000)) / 300);
    std::vector<double> reduced;
    std::vector<Interval> lines;
    for (std::size_t r = 0; r < expression::kMostReduced; ++r) {
      reduced.push_back(static_cast<float>(double(draw.between(-1000, 1000)) / 300));
      lines.push_back(number(reduced.back()));
    }
    const Interval within_all = of(*drawn.program(), number(acc), operands, lines.data());
    const double got = in_fp32(*drawn.program(), acc, operands, reduced);
    EXPECT_TRUE(holds(within_all, got)) << drawn.text() << ": " << got << " is not in "
                                        << within_all.low << " … " << within_all.high;
    ++all;
    narrow += within_all.high - within_all.low <= 1e-3 * (1 + std::fabs(got));
  }
  EXPECT_GT(narrow, all * 9 / 10);  // else they would say nothing
}

TEST(Intervals, AreNoWiderThanRoundings) {
  const auto width = [](const Interval& x) { return x.high - x.low; };
  EXPECT_EQ(width(of("d=relu(acc)", number(3))), 0);
  EXPECT_LE(width(of("d=acc*3", number(3))), 9 * 0x1p-22);
  EXPECT_LE(width(of("d=gelu(acc)", number(3))), 3 * 0x1p-18);
  EXPECT_LE(width(of("d=exp(acc)", number(1))), 3 * 0x1p-19);
  // A function that falls and rises is least within.
  const Interval valley = of("d=silu(acc)", {-2, -1, false});
  EXPECT_LT(valley.low, -0.27846);
  EXPECT_GT(valley.low, -0.27847);
}

TEST(Intervals, OfWholeNumbersAreExact) {
  const auto is_one = [](const Interval& x, double value) {
    return x.low == value && x.high == value && !x.nan;
  };
  EXPECT_TRUE(is_one(of("d=acc*3-n+1", number(7)), 17));
  EXPECT_TRUE(is_one(of("d=(m*4+n+acc)%7", number(1)), 4));
  const auto is_anything = [](const Interval& x) {
    return x.nan && x.low == -kInfinity && x.high == kInfinity;
  };
  EXPECT_FALSE(is_one(of("d=acc*3", number(8388608)), 25165824)) << "fp32 has no odd neighbours";
  EXPECT_FALSE(is_one(of("d=acc*4", number(0.5)), 2)) << "0.5 may be a rounded number";
  EXPECT_TRUE(is_anything(of("d=acc%0", number(1))));
  EXPECT_TRUE(is_anything(of("d=acc%7", number(-1))));
  EXPECT_TRUE(is_anything(of("d=acc%7", number(2.5))));
  EXPECT_TRUE(is_anything(of("d=acc%7", {2, 3, false})));
  EXPECT_TRUE(is_anything(of("d=acc%7", number(std::nan("")))));
  EXPECT_TRUE(is_anything(of("d=acc%7", number(16777217))));
}

TEST(Intervals, OfCastsAreThoseOfTheirEnds) {
  const auto is = [](const Interval& x, double low, double high, bool nan) {
    return x.low == low && x.high == high && x.nan == nan;
  };
  EXPECT_TRUE(is(of("d=bf16(acc)", {1.001, 1.003, false}), 1, 1, false));
  EXPECT_TRUE(is(of("d=bf16(acc)", {1.003, 1.005, false}), 1, 1.0078125, false));
  EXPECT_TRUE(is(of("d=bf16(acc)", {1e-40, 3.4e38, true}), 0x1p-133, kInfinity, true));
  EXPECT_TRUE(is(of("d=fp16(acc)", {-65519, 65520, false}), -65504, kInfinity, false));
  EXPECT_TRUE(is(of("d=fp8_e4m3(acc)", {-kInfinity, 1, true}), -448, 1, true));
  EXPECT_TRUE(is(of("d=s8(acc)", {3.4, 1e9, true}), 0, 127, false)) << "a NaN is 0";
  EXPECT_TRUE(is(of("d=s8(acc)", number(std::nan(""))), 0, 0, false));
  EXPECT_TRUE(is(of("d=bf16(acc)", number(std::nan(""))), kInfinity, -kInfinity, true));
  EXPECT_TRUE(is(of("d=acc-bf16(acc)", number(3)), 0, 0, false));
}

TEST(Intervals, OfOperandsOfFp64AreWhatFp32MakesOfThem) {
  const Interval third = of("d=c[]", number(0), {1.0 / 3});
  EXPECT_LE(third.low, double(1.0F / 3));
  EXPECT_GE(third.high, double(1.0F / 3));
  EXPECT_LT(third.high - third.low, 1e-7);
  const Interval whole = of("d=c[]", number(0), {3});
  EXPECT_EQ(whole.low, whole.high);
}

TEST(Intervals, KnowWhereNaNMayBe) {
  EXPECT_TRUE(of("d=log(acc)", {-1, 1, false}).nan);
  EXPECT_FALSE(of("d=log(acc)", {0.5, 1, false}).nan);
  const Interval never = of("d=sqrt(acc)", {-2, -1, false});
  EXPECT_TRUE(never.nan && never.low > never.high);
  EXPECT_TRUE(of("d=acc/c[]", {1, 2, false}, {0}).nan);
  EXPECT_TRUE(of("d=acc-acc*c[]", number(kInfinity), {1}).nan);
  EXPECT_FALSE(of("d=relu(acc)", number(kInfinity)).nan);
  const Interval end = of("d=tanh(acc)", number(kInfinity));
  EXPECT_TRUE(!end.nan && end.low <= 1 && end.high >= 1 && end.low > 0.99);
  const Interval passed = of("d=max(acc,0)", number(std::nan("")));
  EXPECT_TRUE(passed.nan && passed.low > passed.high);
  // A NaN that is compared is on no side.
  const Interval chosen = of("d=where(acc>0,1,2)", number(std::nan("")));
  EXPECT_EQ(chosen.low, 2);
  EXPECT_EQ(chosen.high, 2);
  EXPECT_FALSE(chosen.nan);
}

TEST(Intervals, KnowWhereFp32Ends) {
  EXPECT_EQ(of("d=exp(acc)", number(100)).high, kInfinity);
  EXPECT_EQ(of("d=acc*acc", number(1e30)).high, kInfinity);
  EXPECT_LT(of("d=acc*acc", number(1e18)).high, kInfinity);
  EXPECT_LE(of("d=sigmoid(acc)", number(-95)).low, 0);  // 1 / (1 + infinity)
}

TEST(Intervals, ReadWhatIsReducedInTheOrderOfTheProgram) {
  const Interval lines[] = {{2, 4, false}, {16, 16, false}};
  const Interval all = of("d=(acc-sum[m](acc))*max[n](acc)", number(10), {}, lines);
  EXPECT_NEAR(all.low, 96, 1e-4);
  EXPECT_NEAR(all.high, 128, 1e-4);
  const Interval unknown = of("d=acc-sum[m](acc)", number(10));
  EXPECT_TRUE(unknown.nan && unknown.low == -kInfinity && unknown.high == kInfinity);
  const Interval nan[] = {number(std::nan(""))};
  const Interval never = of("d=acc-sum[m](acc)", number(10), {}, nan);
  EXPECT_TRUE(never.nan && never.low > never.high);
}

TEST(Intervals, OfReducedLinesAreWhatElementsAllow) {
  const auto interval = [](int how, std::vector<ExpectedReduction> elements) {
    ReducedElements all = no_elements(how, kFp32);
    for (const auto& [value, error] : elements) take_in(all, value, error, kFp32);
    return interval_of(expected_of(all, kFp32), kFp32);
  };
  const Interval whole = interval(reduce_sum, {{3, 0}, {-5, 0}});
  EXPECT_TRUE(whole.low == -2 && whole.high == -2 && !whole.nan);
  const Interval most = interval(reduce_max, {{3, 0.5}, {2, 2}, {-9, 0}});
  EXPECT_TRUE(most.low == 2 && most.high == 4 && !most.nan);
  const auto is_anything = [](const Interval& x) {
    return x.nan && x.low == -kInfinity && x.high == kInfinity;
  };
  EXPECT_TRUE(is_anything(interval(reduce_sum, {{1, 0}, {2, kInfinity}})));
  EXPECT_TRUE(is_anything(interval(reduce_sum, {{1, 0}, {std::nan(""), kInfinity}})))
      << "it may be NaN, and need not be";
  EXPECT_TRUE(is_anything(interval(reduce_max, {{3e38, 1e38}})));
  const Interval nan = interval(reduce_min, {{1, 0}, {std::nan(""), 0}});
  EXPECT_TRUE(nan.nan && nan.low > nan.high);
  const Interval infinite = interval(reduce_max, {{1, 0}, {kInfinity, 0}});
  EXPECT_TRUE(infinite.low == kInfinity && infinite.high == kInfinity && !infinite.nan);
}

TEST(Intervals, AComparisonMayGoEitherWay) {
  const Interval either = of("d=where(acc>=1,10,20)", {0.9, 1.1, false});
  EXPECT_EQ(either.low, 10);
  EXPECT_EQ(either.high, 20);
  const Interval one = of("d=where(acc>=1,10,20)", {1, 1.1, false});
  EXPECT_EQ(one.high, 10);
  const Interval equal = of("d=where(acc==1,10,20)", {0.5, 1.5, false});
  EXPECT_EQ(equal.low, 10);
  EXPECT_EQ(equal.high, 20);
}

}  // namespace kiln::interval_test
