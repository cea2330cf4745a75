// Expressions with blocks, pairs and elements that neighbours share: the judge accepts what plain
// loops make of them, and none of the mistakes that kernels are likely to make.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "support/block_expressions.h"
#include "tuner/verify/judge.h"
#include "tuner/verify/reduced_lines.h"
#include "tuner/verify/view.h"

namespace kiln::judge_blocks_test {

using test::BlockExpression;
using test::Slip;
using testing::HasSubstr;

constexpr Run kRuns[] = {{}, {.alpha = 0.5, .beta = -1.5, .c = Run::C::separate}};

/// Inputs and what is stored: all of it is poisoned before.
struct Bed {
  Gemm gemm;
  DataSet set;
  std::vector<std::byte> d;
  std::vector<std::vector<std::byte>> outputs;

  Bed(const Gemm& g, const DataRecipe& recipe)
      : gemm(g),
        set(DataSet::make(g, recipe).value()),
        d(static_cast<std::size_t>(span_bytes(g, Operand::d))) {
    for (std::size_t i = 0; i < g.epilogue.expression.outputs().size(); ++i)
      outputs.emplace_back(static_cast<std::size_t>(span_bytes(g, extra_output(i))));
  }
  Bed(const Gemm& g, Data data) : Bed(g, DataRecipe{.data = data, .seed = 3}) {}

  Operands call(const Run& run = {}) {
    Operands call;
    set.bind(call);
    call.d = d.data();
    for (std::size_t i = 0; i < outputs.size(); ++i) call.outputs[i] = outputs[i].data();
    call.alpha = run.alpha, call.beta = run.beta;
    return call;
  }
  Operands poisoned(const Run& run = {}) {
    poison(gemm.d.dtype, d);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      poison(dtype_of(gemm, extra_output(i)), outputs[i]);
    return call(run);
  }
  std::optional<Failure> judged(const BlockExpression& e, Slip slip, const Run& run = {}) {
    const Operands stored = poisoned(run);
    test::store_blocks(gemm, stored, e, slip);
    return judge_values(set, run, Outputs::of(stored));
  }
  bool differs(const BlockExpression& e, Slip slip) {
    bool any = false;
    for (int output = -1; output < static_cast<int>(outputs.size()); ++output)
      any |= test::differs(e, gemm, call(), output, slip);
    return any;
  }
};

class JudgeBlocks : public testing::TestWithParam<BlockExpression> {};

TEST_P(JudgeBlocks, AcceptsWhatPlainLoopsMake) {
  for (const DType type : {fp32, bf16, fp64})
    for (const Data data : {Data::exact, Data::uniform}) {
      const Gemm gemm = problem_of(GetParam(), type);
      ASSERT_TRUE(Problem::of(gemm)) << text(gemm);
      Bed bed(gemm, data);
      for (const kiln::Run& run : kRuns) {
        const auto failure = bed.judged(GetParam(), Slip::none, run);
        EXPECT_FALSE(failure) << failure->detail;
      }
    }
}

TEST_P(JudgeBlocks, RefusesEachMistake) {
  for (const Slip slip : GetParam().slips) {
    int planted = 0;
    for (const Data data : {Data::exact, Data::uniform}) {
      Bed bed(problem_of(GetParam()), data);
      const bool differs = bed.differs(GetParam(), slip);
      if (!differs) continue;
      EXPECT_TRUE(bed.judged(GetParam(), slip)) << GetParam().text << " slip " << int(slip);
      ++planted;
    }
    EXPECT_GT(planted, 0) << GetParam().text << " slip " << int(slip);
  }
}

/// Each value that is stored may be wrong alone.
TEST_P(JudgeBlocks, RefusesAWrongElement) {
  for (const Data data : {Data::exact, Data::uniform}) {
    Bed bed(problem_of(GetParam()), data);
    for (int output = -1; output < static_cast<int>(bed.outputs.size()); ++output)
      for (const bool last : {false, true}) {
        const Operands stored = bed.poisoned();
        test::store_blocks(bed.gemm, stored, GetParam(), Slip::none);
        const Operand which =
            output < 0 ? Operand::d : extra_output(static_cast<std::size_t>(output));
        void* const memory =
            output < 0 ? stored.d : stored.outputs[static_cast<std::size_t>(output)];
        const DType type = dtype_of(bed.gemm, which);
        // The first and the last one of which 2 % are more than roundings.
        std::int64_t at = -1;
        for (std::int64_t i = 0; i < span(bed.gemm, which); ++i)
          if (std::fabs(load_element(type, memory, i)) > 1e-3 && (last || at < 0)) at = i;
        ASSERT_GE(at, 0);
        store_element(type, memory, at, load_element(type, memory, at) * 1.02);
        EXPECT_TRUE(judge_values(bed.set, {}, Outputs::of(stored)))
            << text(bed.gemm) << " output " << output << " element " << at;
      }
  }
}

/// One row, one column and few elements of A and B are NaN or infinite: what is made of others
/// stays a number, and what is made of them does not become one.
TEST_P(JudgeBlocks, KeepsNaNInItsBlock) {
  const BlockExpression& e = GetParam();
  Bed bed(problem_of(e), {.data = Data::uniform, .seed = 3, .nonfinite = true});
  const Operands stored = bed.poisoned();
  const auto judged = [&] { return judge_values(bed.set, {}, Outputs::of(stored)); };
  test::store_blocks(bed.gemm, stored, e, Slip::none);
  const auto failure = judged();
  ASSERT_FALSE(failure) << failure->detail;
  int numbers = 0, nans = 0;
  for (std::int64_t at = 0; at < span(bed.gemm, Operand::d); ++at) {
    const double own = load_element(fp32, stored.d, at);
    const bool nan = std::isnan(own);
    int& seen = nan ? nans : numbers;
    // Of many a NaN is one of the things that infinities may give.
    if (seen++ % 50 != 0 || std::isinf(own)) continue;
    store_element(fp32, stored.d, at, nan ? 1 : std::nan(""));
    if (!nan) {
      EXPECT_TRUE(judged()) << e.text << " element " << at;
    }
    store_element(fp32, stored.d, at, own);
  }
  EXPECT_GT(numbers, 50) << e.text;
  EXPECT_GT(nans, 5) << e.text;
}

TEST_P(JudgeBlocks, ExpectsLittleOfMostElements) {
  Bed bed(problem_of(GetParam()), Data::uniform);
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
    EXPECT_EQ(all, 2 * bed.gemm.m * bed.gemm.n);
    EXPECT_GT(narrow, all * 9 / 10) << GetParam().text << " value " << value;
  }
}

TEST_P(JudgeBlocks, TheReferenceComputesThem) {
  Bed bed(problem_of(GetParam(), fp64), Data::uniform);
  const Operands plain = bed.poisoned(kRuns[1]);
  test::store_blocks(bed.gemm, plain, GetParam(), Slip::none);
  std::vector<std::byte> d(bed.d.size());
  Operands call = plain;
  call.d = d.data();
  ASSERT_TRUE(reference_gemm(bed.gemm, call)) << GetParam().text;
  for (std::int64_t i = 0; i < span(bed.gemm, Operand::d); ++i) {
    const double want = load_element(fp64, bed.d.data(), i);
    ASSERT_NEAR(load_element(fp64, d.data(), i), want, 1e-11 * (1 + std::fabs(want)))
        << GetParam().text << " element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Expressions, JudgeBlocks, testing::ValuesIn(test::block_expressions()));

/// Of a problem whose whole is too dear: lines along the blocks are known, whatever else is.
TEST(JudgeBlocksTogether, OfSampledLinesBlocksAreKnown) {
  const auto refuses = [](BlockExpression e, std::int64_t m, std::int64_t n,
                          const std::vector<Slip>& slips) {
    e.m = m, e.n = n;
    Gemm gemm = problem_of(e).batched(1);
    gemm.k = 20000;
    ASSERT_TRUE(Problem::of(gemm)) << text(gemm);
    ASSERT_FALSE(DataSet::whole_is_cheap(gemm));
    Bed bed(gemm, Data::uniform);
    const auto failure = bed.judged(e, Slip::none);
    EXPECT_FALSE(failure) << failure->detail;
    for (const Slip slip : slips) EXPECT_TRUE(bed.judged(e, slip)) << text(gemm);
  };
  const auto& all = test::block_expressions();
  refuses(all[0], 24, 301, {Slip::half_block, Slip::next_line});
  refuses(all[1], 301, 24, {Slip::half_block, Slip::next_line});
  // All rows are known, which hold no block.
  refuses(all[1], 17, 500, {Slip::next_line});
}

TEST(JudgeBlocksTogether, ARunKnowsTheBlocksOfWhichItHasAll) {
  const Gemm gemm = Gemm::row_major(3, 301, 5).with_expression(
      Expression::parse("d=max[m,n/128](acc)+odd(acc)").value());
  const DataSet set = DataSet::make(gemm, {.data = Data::uniform, .seed = 3}).value();
  Operands inputs;
  set.bind(inputs);
  const Products row = products(gemm, inputs.a, inputs.b, {Lines::Along::rows, 0, {1}});
  TermReader terms(gemm, inputs, 0, Lines::Along::rows);
  const auto known = [&](std::int64_t first, std::int64_t count) {
    std::vector<double> value(static_cast<std::size_t>(count)), error(value.size());
    expect(gemm, {}, terms.read(row, 0, first, count), value, error);
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < count; ++i)
      if (std::isfinite(error[static_cast<std::size_t>(i)])) all.push_back(first + i);
    return all.empty() ? std::pair<std::int64_t, std::int64_t>{-1, -1}
                       : std::pair{all.front(), all.back()};
  };
  using Ends = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(known(0, 301), (Ends{0, 300}));
  EXPECT_EQ(known(64, 128), (Ends{-1, -1}));
  EXPECT_EQ(known(64, 200), (Ends{128, 255}));
  EXPECT_EQ(known(256, 45), (Ends{256, 300}));
  EXPECT_EQ(known(256, 44), (Ends{-1, -1}));
}

TEST(JudgeBlocksTogether, AFailureNamesTheBlock) {
  const BlockExpression& e = test::block_expressions()[0];
  Bed bed(problem_of(e), Data::uniform);
  const Operands stored = bed.poisoned();
  test::store_blocks(bed.gemm, stored, e, Slip::none);
  const std::int64_t batch = e.m * 3, at = batch + 4 * 3 + 2;
  store_element(fp32, stored.outputs[0], at, load_element(fp32, stored.outputs[0], at) * 2);
  const auto failure = judge_values(bed.set, {}, Outputs::of(stored));
  ASSERT_TRUE(failure);
  EXPECT_THAT(failure->detail, HasSubstr("y0 of batch 1 block from row 4 column 256: got"));
}

/// Several values are reduced of blocks of several sizes, beside whole lines, in one program.
TEST(JudgeBlocksTogether, BlocksOfAllSizesAreReadTogether) {
  const BlockExpression e{
      "d=acc-max[m,n/2](acc)-max[m,n/4](acc)-max[m,n/16](acc)-sum[m](acc)+even(acc)-odd(acc)"
      "+min[m,n/64](acc)-max[](acc)",
      Order::row_major,
      11,
      77,
      [](const test::PlainProduct& acc, const test::PlainOperands&, Slip slip) {
        return test::PlainBatch{
            test::plain_d(acc,
                          [&](std::int64_t i, std::int64_t j) {
                            const auto most = [&](std::int64_t size) {
                              const auto b = test::block_at(i, acc.m, j, acc.n, size, slip);
                              return test::largest_of(
                                  b.first, b.end, [&](std::int64_t c) { return acc(b.line, c); });
                            };
                            const auto b = test::block_at(i, acc.m, j, acc.n, 64, slip);
                            const double least = test::smallest_of(
                                b.first, b.end, [&](std::int64_t c) { return acc(b.line, c); });
                            const std::int64_t pair = j / 2 * 2;
                            const double even = acc(i, pair),
                                         odd = pair + 1 < acc.n ? acc(i, pair + 1) : even;
                            return acc(i, j) - most(2) - most(4) - most(16) -
                                   acc.sum(i, test::kEvery) + even - odd + least -
                                   acc.most(test::kEvery, test::kEvery);
                          }),
            {}};
      },
      {Slip::short_block}};
  for (const Data data : {Data::exact, Data::uniform}) {
    Bed bed(problem_of(e), data);
    const auto failure = bed.judged(e, Slip::none);
    EXPECT_FALSE(failure) << failure->detail;
    EXPECT_TRUE(bed.judged(e, Slip::short_block));
  }
}

TEST(Views, ReadWhatNeighboursShare) {
  const Gemm gemm = Gemm::row_major(5, 7, 3).batched(2).with_expression(
      Expression::parse("d=acc*c[batch,m/2,n/3]:ld=4+b[n/3]").value());
  std::vector<float> c(static_cast<std::size_t>(span(gemm, Operand::x0)));
  std::iota(c.begin(), c.end(), 0.0F);
  EXPECT_EQ(c.size(), 2u * 4 * 3 - 1);
  const MatrixView view = view_of(gemm, Operand::x0, c.data(), 1);
  std::vector<double> some(6);
  load_block(view, 3, 2, 2, 3, some.data());
  EXPECT_THAT(some, testing::ElementsAre(12 + 4, 12 + 5, 12 + 5, 12 + 8, 12 + 9, 12 + 9));
  load_block(view.transposed(), 2, 3, 3, 2, some.data());
  EXPECT_THAT(some, testing::ElementsAre(12 + 4, 12 + 8, 12 + 5, 12 + 9, 12 + 5, 12 + 9));
  const float b[] = {1, 2, 3};
  load_block(view_of(gemm, Operand::x1, b, 0), 0, 2, 4, 3, some.data());
  EXPECT_THAT(some, testing::ElementsAre(2, 2, 3, 2, 2, 3));
}

}  // namespace kiln::judge_blocks_test
