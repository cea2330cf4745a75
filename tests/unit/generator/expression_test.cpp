// The language of expressions: what is read, what it means, how it is written, and what is refused.
#include "kiln/expression.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "cli/commands/random_expression.h"
#include "generator/expression/evaluate.h"
#include "generator/expression/halves.h"
#include "generator/expression/program.h"
#include "generator/families/cuda/wgmma/config.h"
#include "generator/problem/problem.h"
#include "generator/space/space.h"
#include "generator/space/summation.h"
#include "kiln/terms.hpp"

namespace kiln::expression_test {

std::string canonical(std::string_view text) {
  const auto parsed = Expression::parse(text);
  return parsed ? std::string(parsed->text()) : parsed.error().message;
}

/// With operands x0, x1, … and the indices m = 3, n = 5.
double value_of(std::string_view text, double acc, std::vector<double> operands = {}) {
  operands.resize(kExtraOperands);
  return evaluate(*Expression::parse(text).value().program(), {acc, operands, 3, 5});
}

TEST(Expressions, HaveOneTextWhateverTheirNames) {
  EXPECT_EQ(canonical("d=gelu(acc+b[n])+r[m,n]"), "d=gelu(acc+x0[n])+x1[m,n]");
  EXPECT_EQ(canonical("d=gelu(acc+bias[n])+old[m,n]"), "d=gelu(acc+x0[n])+x1[m,n]");
  EXPECT_EQ(canonical("y=relu(acc);d=y*y"), "t0=relu(acc);d=t0*t0");
  EXPECT_EQ(canonical("d=relu(acc)*relu(acc)"), "t0=relu(acc);d=t0*t0");
  EXPECT_EQ(canonical("unused=acc*b[m];y=acc;d=y"), "d=acc");
  EXPECT_EQ(canonical("d=((acc)-(2-c[]))"), "d=acc-(2-x0[])");
  EXPECT_EQ(canonical("d=acc-2-c[]"), "d=acc-2-x0[]");
  EXPECT_EQ(canonical("d=-(acc*2)/(acc+1)"), "d=-(acc*2)/(acc+1)");
  EXPECT_EQ(canonical("d=-acc*2"), "d=-acc*2");
  EXPECT_EQ(canonical("d=acc--2"), "d=acc--2");
  EXPECT_EQ(canonical("d=where(acc<=b[batch,m],acc,0.5)"), "d=where(acc<=x0[batch,m],acc,0.5)");
  EXPECT_EQ(canonical("d=acc*r[n,m]:bf16:ld=70"), "d=acc*x0[n,m]:bf16:ld=70");
  EXPECT_EQ(canonical("d=acc*1e30+m-n"), "d=acc*1e+30+m-n");
}

TEST(Expressions, MayHaveNoD) {
  EXPECT_EQ(canonical("l[m]=logsumexp(acc)"), "y0[m]=logsumexp(acc)");
  EXPECT_EQ(canonical("y=acc+b[n];z[m,n]=y;a[]=max(y)"), "t0=acc+x0[n];y0[m,n]=t0;y1[]=max(t0)");
  EXPECT_FALSE(Expression::parse("l[m]=logsumexp(acc)")->stores_d());
  EXPECT_TRUE(Expression::parse("d=acc;l[m]=logsumexp(acc)")->stores_d());
  EXPECT_TRUE(Expression().stores_d());
  EXPECT_EQ(terms::to_expression({{{"q", {Index::m}}, terms::acc(), Reduction::sum}})->text(),
            "y0[m]=sum(acc)");
}

TEST(Expressions, ReadWhatTheyReduce) {
  EXPECT_EQ(canonical("d=exp(acc-logsumexp[m](acc))"), "d=exp(acc-logsumexp[m](acc))");
  EXPECT_EQ(canonical("y=gelu(acc);s[m]=max(abs(y))/448;d=y/s[m]"),
            "t0=gelu(acc);t1=max[m](abs(t0))/448;d=t0/t1;y0[m]=t1");
  EXPECT_EQ(canonical("q[m]=sum(acc);d=acc-q[m]"), "d=acc-sum[m](acc);y0[m]=sum(acc)");
  EXPECT_EQ(canonical("q[batch,n]=sum(acc*b[m]);d=acc+q[batch,n]"),
            "t0=acc*x0[m];d=acc+sum[n](t0);y0[batch,n]=sum(t0)");
  EXPECT_EQ(canonical("q[m]=max(acc)-min(acc)"), "y0[m]=max[m](acc)-min[m](acc)");
  EXPECT_EQ(canonical("q[m]=max(sum(acc),2)"), "y0[m]=max(sum[m](acc),2)");
  for (const char* text : {"d=exp(acc-logsumexp[m](acc))", "t0=max[m](acc);d=t0*t0+acc;y0[m]=t0-1",
                           "d=acc-sum[m](acc);y0[m]=sum(acc)", "d=acc/(1+max[](abs(acc)))"})
    EXPECT_EQ(canonical(text), text);
  const auto across = expression::transposed(Expression::parse("d=acc-sum[m](acc)").value());
  EXPECT_EQ(across.text(), "d=acc-sum[n](acc)");
  const terms::Term total = terms::reduced(Reduction::logsumexp, terms::acc(), {Index::m});
  EXPECT_EQ(terms::to_expression(terms::exp(terms::acc() - total))->text(),
            "d=exp(acc-logsumexp[m](acc))");
}

TEST(Expressions, ReadScalarsOfTheHost) {
  EXPECT_EQ(canonical("d=acc*s[]:host+t[]:host:bf16*s[]"),
            "d=acc*x0[]:host+x1[]:bf16:host*x0[]:host");
  EXPECT_NE(canonical("d=acc*s[]:host"), canonical("d=acc*s[]"));
  for (const char* text :
       {"d=acc*x0[]:fp64:host", "d=acc/max[m](acc*x0[]:host)", "d=random(x0[]:host,m,n)*acc0-acc1"})
    EXPECT_EQ(canonical(text), text);
  const auto across = expression::transposed(Expression::parse("d=acc*s[]:host+b[n]").value());
  EXPECT_EQ(across.text(), "d=acc*x0[]:host+x1[m]");
  const terms::Term scalar = terms::operand({.name = "s", .index = {}, .dtype = {}, .host = true});
  EXPECT_EQ(terms::to_expression(terms::acc() * scalar)->text(), "d=acc*x0[]:host");

  const Expression x = Expression::parse("d=acc*s[]+b[n];q[]=max(acc)").value();
  std::vector<ExtraOperand> operands(x.operands().begin(), x.operands().end());
  operands[0].host = true;
  EXPECT_EQ(x.with_operands(operands)->text(), "d=acc*x0[]:host+x1[n];y0[]=max(acc)");
  operands[1].host = true;
  EXPECT_EQ(x.with_operands(operands).error().message,
            "operands[1] (b): host is of an operand without indices");
  ExtraOperand target = x.outputs()[0].target;
  target.host = true;
  EXPECT_EQ(x.with_outputs(std::array{target}).error().message,
            "outputs[0] (q): host is of what an expression reads");
}

TEST(Expressions, ReadBlocksAndNeighbours) {
  EXPECT_EQ(canonical("y=gelu(acc);s[m,n/128]=max(abs(y))/448;d=y/s[m,n/128]"),
            "t0=gelu(acc);t1=max[m,n/128](abs(t0))/448;d=t0/t1;y0[m,n/128]=t1");
  EXPECT_EQ(canonical("s[n/32,m]:bf16=sum(acc)"), "y0[n/32,m]:bf16=sum[m,n/32](acc)");
  EXPECT_EQ(canonical("d=pair(even(acc)*c[m,n/2],odd(acc))"),
            "d=where(n%2==0,even(acc)*x0[m,n/2],odd(acc))");
  EXPECT_EQ(canonical("d=even[m/2,n](acc)-odd[m,n/2](acc)"), "d=even[m/2,n](acc)-odd(acc)");
  // Both columns have the same.
  EXPECT_EQ(canonical("d=acc*odd(c[m,n/2])+even(even(acc))"), "d=acc*x0[m,n/2]+even(acc)");
  EXPECT_EQ(canonical("y=acc/sum[m](acc);s[m,n/4]=max(y);d=y/s[m,n/4]"),
            "t0=acc/sum[m](acc);t1=max[m,n/4](t0);d=t0/t1;y0[m,n/4]=t1");
  EXPECT_EQ(canonical("d=acc*b[n/3]+r[m/4,n]:fp16:ld=9-m%5*n/2"),
            "d=acc*x0[n/3]+x1[m/4,n]:fp16:ld=9-m%5*n/2");
  for (const char* text : {"t0=even(acc);d=t0*t0", "d=max[m/8,n](acc)", "d=acc*x0[batch,m,n/7]"})
    EXPECT_EQ(canonical(text), text);
  const auto across =
      expression::transposed(Expression::parse("d=even(acc)*c[m,n/2]-sum[m/4,n](acc)").value());
  EXPECT_EQ(across.text(), "d=even[m/2,n](acc)*x0[n,m/2]-sum[m,n/4](acc)");
  using namespace terms;
  const Term scale = reduced_of_blocks(Reduction::max, terms::abs(acc()), 32);
  EXPECT_EQ(to_expression(pair(even(acc()), acc() % 3 / scale)).value().text(),
            "d=where(n%2==0,even(acc),acc%3/max[m,n/32](abs(acc)))");
}

/// "product | behind": the outputs of the half that kernels compute, and what the step behind
/// reads.
std::string halves(std::string_view text) {
  const Expression parsed = Expression::parse(text).value();
  const expression::Halves& all = *parsed.program()->halves;
  const auto stored = [](const expression::Program& half) {
    std::string out = half.stores_d ? "d " : "";
    for (std::size_t i = 0; i < half.outputs.size(); ++i)
      if (half.results[i] != expression::kNotStored) out += half.outputs[i].target.name + " ";
    return out;
  };
  return fmt::format("{}| {}", stored(all.product), stored(all.behind));
}

TEST(Expressions, AreDividedWhereTheyReadWhatTheyReduce) {
  EXPECT_EQ(halves("d=exp(acc-logsumexp[m](acc))"), "line kept | d ");
  EXPECT_EQ(halves("y0[m,n]=acc;y1[m]=max(acc)/2;d=acc/y1[m]"), "y0 line kept | d y1 ");
  EXPECT_EQ(halves("d=acc;y0[m]=rsqrt(sum(acc))"), "d line | y0 ");
  // A reduction that is read and stored is reduced once.
  EXPECT_EQ(halves("y0[m]=sum(acc);d=acc-y0[m]"), "line kept | d y0 ");
  EXPECT_EQ(halves("d=max[m](acc)+b[n]"), "line | d ");
  EXPECT_EQ(halves("d=where(acc<0,max[m](acc),0)"), "line kept | d ");
  // Blocks are reduced by the step behind.
  EXPECT_EQ(halves("y=gelu(acc);y0[m,n/32]=max(y);d=y/y0[m,n/32]"), "kept | d y0 ");
  EXPECT_EQ(halves("d=acc;y0[m,n/32]=max(acc)"), "d kept | y0 ");
  EXPECT_EQ(halves("y=acc/sum[m](acc);d=y-even(y)"), "line kept | d ");
  // Of two values that are read the product is kept.
  EXPECT_EQ(halves("d=exp(acc)+tanh(acc)*max[m](acc)"), "line kept | d ");
}

TEST(Expressions, KeepCastsIn16Bits) {
  const auto kept = [](std::string_view text) {
    const expression::Halves& all = *Expression::parse(text).value().program()->halves;
    const std::optional<DType> narrow = all.product.outputs.back().target.dtype;
    EXPECT_EQ(narrow, all.behind.operands.at(all.first_block() - 1).dtype);
    return narrow ? std::string(name(*narrow)) : "values";
  };
  EXPECT_EQ(kept("y=bf16(acc+r[m,n]);d=y*rsqrt(sum[m](y*y))*g[n]"), "bf16");
  EXPECT_EQ(kept("d=fp16(acc)-max[m](acc)"), "fp16");
  EXPECT_EQ(kept("d=s8(acc)*max[m](acc)"), "values");
  EXPECT_EQ(kept("d=fp16(max[m](acc))*acc"), "values");
  EXPECT_EQ(kept("d=bf16(acc)-even(bf16(acc))"), "bf16");
  // Of two values that are read a cast is kept that both are made of.
  EXPECT_EQ(kept("y=bf16(acc);d=exp(y)+tanh(y)*max[m](y)"), "bf16");
  EXPECT_EQ(kept("y=fp16(acc+b[n]);z=bf16(y);d=exp(z)*max[m](z)+y"), "fp16");
  EXPECT_EQ(kept("y=bf16(acc);d=exp(y)+acc*max[m](y)"), "values");
  // Reductions read values: what they read is memory of its own then.
  const auto shared = [](std::string_view text) {
    const expression::Program& whole = *Expression::parse(text).value().program();
    return expression::shared_kept(whole.halves->product, 0).has_value();
  };
  EXPECT_TRUE(shared("d=exp(acc-logsumexp[m](acc))"));
  EXPECT_FALSE(shared("y=bf16(acc);d=exp(y-logsumexp[m](y))"));
}

TEST(Expressions, LeaveInDWhatIsKept) {
  const auto in_d = [](std::string_view text) {
    return expression::keeps_in_d(expression::of_product_in_d(Expression::parse(text).value()));
  };
  EXPECT_TRUE(in_d("d=exp(acc-logsumexp[m](acc))"));
  EXPECT_TRUE(in_d("d=silu(acc0)*acc1/max[m](acc1)"));
  // Kernels store D itself, or nothing of each element.
  EXPECT_FALSE(in_d("d=acc;y0[m,n/32]=max(acc)"));
  EXPECT_FALSE(in_d("d=max[m](acc)+b[n]"));
  EXPECT_FALSE(in_d("d=acc"));
}

TEST(Expressions, StoreBesideD) {
  EXPECT_EQ(canonical("y=acc+r[m,n];d=y;q[m]=sum(y*y)"), "t0=acc+x0[m,n];d=t0;y0[m]=sum(t0*t0)");
  EXPECT_EQ(canonical("s[n,m]:bf16:ld=70=acc;d=relu(acc)"), "d=relu(acc);y0[n,m]:bf16:ld=70=acc");
  EXPECT_EQ(canonical("a[]=max(max(acc,0));l[batch,n]=logsumexp(acc);d=0"),
            "d=0;y0[]=max(max(acc,0));y1[batch,n]=logsumexp(acc)");
  const Expression x = Expression::parse("d=acc;q[m]:fp16=min(acc*acc)").value();
  ASSERT_EQ(x.outputs().size(), 1u);
  EXPECT_EQ(x.outputs()[0].target.name, "q");
  EXPECT_EQ(x.outputs()[0].reduction, Reduction::min);
  EXPECT_EQ(expression::transposed(x).text(), "d=acc;y0[n]:fp16=min(acc*acc)");
  EXPECT_EQ(Expression::of_id(x.id())->outputs()[0].target.name, "y0");
  ExtraOperand target = x.outputs()[0].target;
  target.dtype = fp32;
  EXPECT_EQ(x.with_outputs(std::array{target}).value().text(), "d=acc;y0[m]:fp32=min(acc*acc)");
  target.index = {Index::n};
  EXPECT_EQ(x.with_outputs(std::array{target}).error().message,
            "outputs[0] (q): must have the indices of q");
}

TEST(Expressions, AreWrittenWithOperators) {
  using namespace terms;
  const Term b = operand({"b", {Index::n}}), r = operand({"r", {Index::m, Index::n}, bf16, 70});
  const Term y = gelu(acc() + b) * 2 - -r / 3;
  EXPECT_EQ(to_expression(y).value().text(),
            canonical("d=gelu(acc+b[n])*2-(-(r[m,n]:bf16:ld=70))/3"));
  const auto norm = to_expression(relu(y), {{{"q", {Index::m}}, y * y, Reduction::sum},
                                            {{"z", {Index::n, Index::m}, fp16}, y}});
  EXPECT_EQ(norm.value().text(),
            canonical("y=gelu(acc+b[n])*2-(-(r[m,n]:bf16:ld=70))/3;d=relu(y);q[m]=sum(y*y);"
                      "z[n,m]:fp16=y"));
  EXPECT_EQ(norm->operands()[1].name, "r");
  const Term kept = random(operand({"seed", {}}), row(), column());
  EXPECT_EQ(to_expression(where(kept < 0.1, 0, acc() / 0.9)).value().text(),
            canonical("d=where(random(seed[],m,n)<0.1,0,acc/0.9)"));
  // Each of twenty sums is of the one before it, twice.
  Term all = acc();
  for (int i = 0; i < 20; ++i) all = all + all;
  EXPECT_EQ(
      to_expression(all).value().text(), "t0=acc+acc;" + [] {
        std::string rest;
        for (int i = 1; i < 19; ++i) rest += fmt::format("t{}=t{}+t{};", i, i - 1, i - 1);
        return rest + "d=t18+t18";
      }());
  EXPECT_NE(to_expression(acc() * operand({"2x", {}})).error().message.find("column"),
            std::string::npos);
}

TEST(Expressions, AreEqualWhereTheirTextsAre) {
  const Expression x = Expression::parse("d=acc*s[m]").value();
  const Expression same = Expression::parse("d=acc*rows[m]").value();
  const Expression other = Expression::parse("d=acc*s[n]").value();
  EXPECT_EQ(x, same);
  EXPECT_EQ(x.id(), same.id());
  EXPECT_NE(x, other);
  EXPECT_EQ(x.operands()[0].name, "s");
  EXPECT_EQ(same.operands()[0].name, "rows");
  EXPECT_EQ(Expression::of_id(x.id())->operands()[0].name, "x0");
  EXPECT_FALSE(Expression::of_id(-1));
  EXPECT_FALSE(Expression::of_id(1 << 30));
  EXPECT_TRUE(Expression::of_id(0)->empty());
}

TEST(Expressions, AreComputedInTheirOrder) {
  EXPECT_EQ(value_of("d=acc-2-3", 10), 5);
  EXPECT_EQ(value_of("d=acc/2/5", 20), 2);
  EXPECT_EQ(value_of("d=2+acc*3", 4), 14);
  EXPECT_EQ(value_of("d=-acc*-3", 4), 12);
  EXPECT_EQ(value_of("d=m*10+n", 0), 35);
  EXPECT_EQ(value_of("y=acc+1;z=y*y;d=z-y", 2), 6);
  EXPECT_EQ(value_of("d=acc*a[m]-b[n]", 2, {5, 3}), 7);
  EXPECT_EQ(value_of("d=where(acc>1,7,8)", 2), 7);
  EXPECT_EQ(value_of("d=where(acc!=2,7,8)", 2), 8);
  EXPECT_EQ(value_of("d=clamp(acc,-1,1)", -3), -1);
  EXPECT_EQ(value_of("d=round(acc)", 2.5), 2);
  EXPECT_NEAR(value_of("d=gelu_erf(acc)", 1), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(value_of("d=gelu(acc)", 1), 0.8411919906082768, 1e-15);
  EXPECT_NEAR(value_of("d=silu(acc)", 1), 0.7310585786300049, 1e-15);
  EXPECT_EQ(value_of("d=random(7,m,n)", 0), value_of("d=random(acc,3,5)", 7));
  EXPECT_TRUE(std::isnan(value_of("d=max(acc,0)", std::nan(""))));
  EXPECT_TRUE(std::isnan(value_of("d=min(0,acc)", std::nan(""))));
}

TEST(Expressions, RandomNumbersAreSpreadEvenly) {
  const Expression x = Expression::parse("d=random(acc,m,n)").value();
  std::array<int, 16> slots{};
  double products = 0, last = 0;
  constexpr int kSide = 200;
  for (int m = 0; m < kSide; ++m)
    for (int n = 0; n < kSide; ++n) {
      const double drawn = evaluate(*x.program(), {1, {}, double(m), double(n)});
      ASSERT_GE(drawn, 0);
      ASSERT_LT(drawn, 1);
      ++slots.at(static_cast<std::size_t>(drawn * 16));
      products += (drawn - 0.5) * (last - 0.5);
      last = drawn;
    }
  constexpr double kEach = kSide * kSide / 16.0;
  for (const int count : slots) EXPECT_NEAR(count, kEach, 5 * std::sqrt(kEach));
  EXPECT_NEAR(products / (kSide * kSide), 0, 5.0 / 12 / kSide);
}

TEST(Expressions, ThatReadPairsAloneSayWhatNeighboursShow) {
  const auto alone = [](std::string_view text) {
    return expression::reads_pairs_alone(Expression::parse(text).value());
  };
  EXPECT_TRUE(alone("d=pair(even(acc),odd(acc*acc))"));
  EXPECT_FALSE(alone("d=acc"));
  EXPECT_FALSE(alone("d=even[m/2,n](acc)"));
  EXPECT_FALSE(alone("d=even(acc)+max[m](acc)"));
  EXPECT_FALSE(alone("d=even(acc)+max[m,n/2](acc)"));
  const Expression x = Expression::parse("d=even(acc*b[n])-odd(acc)").value();
  const expression::Program shown = expression::shown_to_neighbours(*x.program());
  ASSERT_EQ(shown.results.size(), 2u);
  const std::array<double, 1> b{7};
  const expression::Values values = expression::evaluated(shown, {3, b, 0, 0});
  EXPECT_EQ(values.at(shown.results[0]), 21);
  EXPECT_EQ(values.at(shown.results[1]), 3);
}

TEST(Expressions, TheirTextsAreReadAgain) {
  cli::Draw draw(7);
  for (int i = 0; i < 2000; ++i) {
    const std::string drawn =
        cli::random_expression(draw, i % 2 == 0 ? Order::row_major : Order::column_major);
    const auto once = Expression::parse(drawn);
    ASSERT_TRUE(once) << once.error().message;
    const auto again = Expression::parse(once->text());
    ASSERT_TRUE(again) << drawn << ": " << again.error().message;
    EXPECT_EQ(again->text(), once->text()) << drawn;
    EXPECT_EQ(*again, *once) << drawn;
  }
}

TEST(Expressions, OfTheTransposeExchangeTheIndices) {
  const Expression x = Expression::parse("d=acc*s[m]+r[m,n]:ld=9+b[batch,n]+m*2").value();
  EXPECT_EQ(expression::transposed(x).text(), "d=acc*x0[n]+x1[n,m]:ld=9+x2[batch,m]+n*2");
  EXPECT_EQ(expression::transposed(expression::transposed(x)), x);
}

TEST(Expressions, AProblemHasThemAsItsEpilogue) {
  const auto gemm = parse_gemm("fp16 N T 512 4096 4096 epilogue=d=gelu(acc+b[n])+r[m,n]");
  ASSERT_TRUE(gemm) << gemm.error().message;
  EXPECT_EQ(text(*gemm), "fp16 N T 512 4096 4096 epilogue=d=gelu(acc+x0[n])+x1[m,n]");
  EXPECT_EQ(parse_gemm(text(*gemm)).value(), *gemm);
  const Gemm column =
      Gemm::column_major(5, 7, 9).with_expression(Expression::parse("d=acc*s[m]+b[n]").value());
  EXPECT_EQ(Problem::of(column).value().gemm.epilogue.expression.text(), "d=acc*x0[n]+x1[m]");
}

TEST(Expressions, OrdersOfTheirSumsArePartOfTheOrderOfSummation) {
  const auto problem = [](std::string_view epilogue) {
    return Problem::of(
               parse_gemm(fmt::format("bf16 N T 512 512 512 align=16 epilogue={}", epilogue))
                   .value())
        .value();
  };
  const DeviceCaps device = caps_named("sm_90a").value();
  const CudaWgmma plain{.left = 128, .right = 128, .stages = 4, .warpgroups = 2};
  CudaWgmma swapped = plain;
  swapped.swap = true;
  const Problem reduced = problem("d=acc;q[m]=sum(acc)"), other = problem("d=acc");
  ASSERT_EQ(broken_rule(reduced, device, plain), "");
  ASSERT_EQ(broken_rule(reduced, device, swapped), "");
  EXPECT_EQ(summation(other, device, plain), summation(other, device, swapped));
  EXPECT_EQ(summation(reduced, device, plain), summation(other, device, plain) + " reduced=32x16");
  EXPECT_EQ(summation(reduced, device, swapped),
            summation(other, device, plain) + " reduced=16x32");
}

TEST(Expressions, WhatIsWrongIsNamedByItsColumn) {
  const auto expect = [](std::string_view text, std::string_view wanted) {
    EXPECT_EQ(canonical(text), fmt::format("epilogue = {}: {}", text, wanted));
  };
  expect("d=", "column 3: a name is missing");
  expect("d=acc+", "column 7: a name is missing");
  expect("y=acc", "column 6: no statement says what d is, or stores anything");
  expect("d=acc;d=acc", "column 7: d has a value already");
  expect("d=foo(acc)", "column 3: no function is called foo");
  expect("d=add(acc,1)", "column 3: no function is called add");
  expect("d=max(acc)", "column 3: max is of many elements: max[m], max[n] or max[] is missing");
  expect("d=exp(acc,2)", "column 10: exp has 1 argument: ')' is missing");
  expect("d=where(acc,1,2)",
         "column 12: where() has a comparison first: <, <=, >, >=, == or != is missing");
  expect("d=acc<2", "column 6: '<' is not expected here");
  expect("d=b", "column 3: b has no value");
  expect("d=acc+b[n]*b", "column 12: b is an operand: its indices are missing, b[…]");
  expect("d=acc+b[k]", "column 9: k: an index is batch, m or n");
  expect("d=acc+b[n,n]", "column 11: n indexes b twice");
  expect("d=acc+b[n,batch]", "column 11: batch is the first index");
  expect("d=acc+b[n]*b[m]", "column 12: b has other indices than before");
  expect("d=acc+b[n]:s8", "column 12: s8: a type of operands is fp32, fp64, fp16 or bf16");
  expect("d=acc+b[n]:bf16*b[n]:fp16", "column 17: b has another type, ld or memory than before");
  expect("d=acc+b[n]:ld=5", "column 12: ld is of an operand with the indices m and n");
  expect("d=acc+b[n]:host", "column 12: host is of an operand without indices");
  expect("q[]:host=max(acc)", "column 1: host is of what an expression reads");
  expect("d=acc*b[]+b[]:host", "column 11: b has another type, ld or memory than before");
  expect("q[]=max(acc);d=acc/q[]:host", "column 20: q is stored: the host does not have it");
  expect("d=acc+b[m,n]:ld=0", "column 17: ld must be a number, 1 or more");
  expect("d=acc*1x", "column 8: a number ends with a letter");
  expect("d=acc*1e999", "column 7: not a number that fp64 has");
  expect("d=(acc", "column 7: ')' is missing");
  expect("d=acc)", "column 6: ')' is not expected here");
  expect("acc=2", "column 1: acc has a meaning of its own");
  expect("relu=2", "column 1: relu has a meaning of its own");
  expect("d[m,n]=acc", "column 1: d has no indices: the problem says where D lies");
  expect("q[m]=acc", "column 6: q is of many elements: sum, max, min or logsumexp is missing");
  expect("q[m]=max(acc,2)",
         "column 6: q is of many elements: sum, max, min or logsumexp is missing");
  expect("q[m]=sum(acc)*b[n]",
         "column 6: q is of many elements: sum, max, min or logsumexp is missing");
  expect("q[m]=sum[n](acc)",
         "column 6: q is of many elements: sum, max, min or logsumexp is missing");
  expect("q[m]=b[m]", "column 6: q is made of nothing that is reduced");
  expect("q[m]=sum(acc);d=q", "column 17: q is stored: its indices are missing, q[…]");
  expect("q[m]=sum(acc);d=q[n]", "column 17: q has other indices or another type than before");
  expect("z[m,n]=acc;d=z[m,n]", "column 14: z is stored: an expression cannot read it");
  expect("d=sum[m](acc-max[m](acc))", "column 3: sum is of what is reduced already");
  expect("d=sum[m,n](acc)", "column 3: sum: sum[m], sum[n] or sum[] is missing");
  expect("d=sum[m]", "column 9: '(' is missing");
  expect("s[m,n/64]=acc",
         "column 11: s is of many elements: sum, max, min or logsumexp is missing");
  expect("s[n/64]=max(acc)",
         "column 1: blocks lie in one row or column: [m,n/128] has both indices");
  expect("d=max[m/2,n/2](acc)",
         "column 3: blocks lie in one row or column: [m,n/128] has both indices");
  expect("s[m,n/48]=max(acc)", "column 1: blocks are of 2, 4, … or 128 elements: not of 48");
  expect("s[m,n/256]=max(acc)", "column 1: blocks are of 2, 4, … or 128 elements: not of 256");
  expect("d=odd[m,n/4](acc)", "column 3: odd: is of pairs, odd[m,n/2]");
  expect("d=even(max[m,n/4](acc))+max[m,n/4](even(acc))",
         "column 25: max is of what is reduced already");
  expect("d=sum[m](even(acc))", "column 3: sum is of what is reduced already");
  expect("d=pair(acc)", "column 11: pair has 2 arguments: ',' is missing");
  expect("d=acc*c[m,n/0]", "column 13: a number of neighbours is missing, 1 or more");
  expect("d=acc*c[batch/2,m]", "column 9: batch: products of a batch share nothing");
  expect("d=c[m,n/2]*c[m,n]", "column 12: c has other indices than before");
  expect("pair=acc", "column 1: pair has a meaning of its own");
  expect("s[m,n/2]=sum(acc);d=acc-s[m,n]",
         "column 25: s has other indices or another type than before");
  expect("sum=acc", "column 1: sum has a meaning of its own");
  expect("d=acc-sum[n](acc);q[]=sum(acc)*0.5;c[n]=sum(acc)",
         "column 49: 5 values are stored or kept until all are reduced: at most 4 can be");
  std::string pairs = "d=0";
  for (int i = 0; i < 13; ++i) pairs += fmt::format("+even(acc*{})", i + 2);
  expect(pairs, fmt::format("column {}: 13 values are reduced and read: at most 12 can be",
                            pairs.size() + 1));
  expect("q[m]=sum(acc);q[n]=sum(acc)", "column 15: q is stored already");
  expect("d=sum(acc)", "column 3: sum is of many elements: sum[m], sum[n] or sum[] is missing");
  expect("a[m]=sum(1);b[m]=sum(1);c[m]=sum(1);e[m]=sum(1);f[m]=sum(1);d=1",
         "column 49: more than 4 outputs beside d");
  expect("d=a[]+b[]+c[]+e[]+f[]+g[]+h[]+i[]+j[]", "column 35: more than 8 operands");
}

TEST(Expressions, ThatAreTooLongAreRefused) {
  std::string nested(200, '(');
  EXPECT_NE(canonical("d=" + nested).find("nested deeper than 64"), std::string::npos);
  std::string minus(200, '-');
  EXPECT_NE(canonical("d=" + minus + "acc").find("nested deeper than 64"), std::string::npos);
  std::string sum = "d=acc";
  for (int i = 0; i < 60; ++i) sum += fmt::format("+{}", i);
  EXPECT_NE(canonical(sum).find("more than 96 values"), std::string::npos);
  // What is short may be long once written out, or deep: its text would not be read again.
  std::string uses = "d=r[batch,m,n]:bf16:ld=1000000";
  for (int i = 0; i < 40; ++i) uses += "+r[batch,m,n]";
  EXPECT_NE(canonical(uses).find("written out, epilogue = d=x0["), std::string::npos);
  std::string deep = "t0=acc;", doubled = "s[m]=max(acc);t0=acc/s[m];";
  for (int i = 1; i < 70; ++i) deep += fmt::format("t{}=exp(t{});", i, i - 1);
  for (int i = 1; i < 50; ++i) doubled += fmt::format("t{0}=t{1}*t{1};", i, i - 1);
  EXPECT_NE(canonical(deep + "d=t69").find("nested deeper than 64"), std::string::npos);
  EXPECT_TRUE(Expression::parse(doubled + "d=t49"));
  std::string horner = "acc";
  for (int i = 0; i < 40; ++i) horner = fmt::format("({}*2+1)", horner);
  EXPECT_TRUE(Expression::parse("d=" + horner));
  EXPECT_TRUE(Expression::parse("d=" + std::string(25, '-') + "acc"));
  EXPECT_NE(canonical(std::string(2000, 'a')).find("at most 1024"), std::string::npos);
}

TEST(Expressions, TakeOperandsOfOtherTypesAndLayouts) {
  const Expression x = Expression::parse("d=acc*r[m,n]+s[m]").value();
  std::vector<ExtraOperand> operands(x.operands().begin(), x.operands().end());
  const auto text_with = [&] {
    const auto changed = x.with_operands(operands);
    return changed ? std::string(changed->text()) : changed.error().message;
  };
  operands[0].dtype = bf16, operands[0].ld = 40;
  std::swap(operands[0].index[0], operands[0].index[1]);
  EXPECT_EQ(text_with(), "d=acc*x0[n,m]:bf16:ld=40+x1[m]");
  operands[1].ld = 3;
  EXPECT_EQ(text_with(), "operands[1] (s): ld = 3: must be 0, or positive where it has m and n");
  operands[1].ld = 0, operands[1].dtype = fp8_e4m3;
  EXPECT_EQ(text_with(), "operands[1] (s): dtype = fp8_e4m3: must be fp32, fp64, fp16 or bf16");
  operands[1].dtype = {}, operands[1].index = {Index::n};
  EXPECT_EQ(text_with(), "operands[1] (s): must have the indices of s");
  operands.pop_back();
  EXPECT_EQ(text_with(), "operands = 1: the expression has 2");
}

TEST(Expressions, AProblemRefusesWhatCannotBeBesideThem) {
  const auto refusal = [](std::string_view keys) {
    const auto gemm = parse_gemm(fmt::format("fp16 N T 8 16 32 epilogue=d=acc*2 {}", keys));
    return gemm ? std::string("taken") : gemm.error().message;
  };
  const auto wanted = [](std::string_view what) {
    return fmt::format("epilogue = d=acc*2: there is no {} beside it", what);
  };
  EXPECT_EQ(refusal("gate=silu"), wanted("gate"));
  EXPECT_EQ(refusal("amax=1"), wanted("amax"));
  EXPECT_EQ(refusal("out=fp8_e4m3 scale_d=tensor"), wanted("scale_d"));
  EXPECT_EQ(refusal(""), "taken");
  EXPECT_EQ(refusal("packed_b=1"), "taken");
  EXPECT_EQ(refusal("out=fp8_e4m3"), "taken");
  EXPECT_EQ(refusal("out=s8"), "taken");
  EXPECT_EQ(refusal("out=u8"), "d.dtype = u8: fp16 gives one of: fp16 bf16 fp32");
  EXPECT_EQ(refusal("out=fp8_e5m2"), "d.dtype = fp8_e5m2: fp16 gives one of: fp16 bf16 fp32");
  for (const char* text :
       {"fp16 N T 8 16 32 out=fp8_e4m3", "fp64 N T 8 16 32 out=s8 epilogue=d=acc*2",
        "fp64 N T 8 16 32 out=fp8_e4m3 epilogue=d=acc*2"})
    EXPECT_FALSE(parse_gemm(text)) << text;
  const auto blocks = [](std::string_view key) {
    const auto gemm = parse_gemm(fmt::format("fp16 N T 8 16 32 epilogue=d=even[{}](acc)", key));
    return gemm ? std::string("taken") : gemm.error().message;
  };
  EXPECT_EQ(blocks("m,n/2"), "taken");
  EXPECT_EQ(blocks("m/2,n"),
            "epilogue = d=even[m/2,n](acc): D is row-major: blocks are of neighbours along n");
  const Gemm column = Gemm::column_major(5, 7, 9);
  const auto across = Expression::parse("d=even[m/2,n](acc)").value();
  EXPECT_EQ(Problem::of(column.with_expression(across)).value().gemm.epilogue.expression.text(),
            "d=even(acc)");
  const auto short_lines = parse_gemm("fp16 N T 8 16 32 epilogue=d=acc*r[m,n]:ld=15");
  ASSERT_FALSE(short_lines);
  EXPECT_EQ(short_lines.error().message,
            "epilogue = d=acc*x0[m,n]:ld=15: ld of x0 = 15: must be at least 16");
}

TEST(Expressions, BesideGroupsSayWhatCannotBe) {
  const auto refusal = [](std::string_view keys, std::string_view epilogue) {
    const auto gemm =
        parse_gemm(fmt::format("fp16 N T 8 16 32 groups=2 {} epilogue={}", keys, epilogue));
    return gemm ? std::string("taken") : gemm.error().message;
  };
  const auto expect = [&](std::string_view keys, std::string_view epilogue, std::string_view text,
                          std::string_view why) {
    EXPECT_EQ(refusal(keys, epilogue), fmt::format("epilogue = {}: {}", text, why));
  };
  for (const char* epilogue : {"d=acc*b[batch,n]+r[m,n]", "d=acc;q[m]=sum(acc)", "z[m,n]=acc",
                               "s[m,n/8]=max(abs(acc));d=acc/s[m,n/8]", "d=acc-sum[m](acc)*m"})
    EXPECT_EQ(refusal("grouped=rows", epilogue), "taken") << epilogue;
  EXPECT_EQ(refusal("grouped=masked", "d=acc*b[batch,n]+r[batch,m,n]+t[m,n];q[batch,m]=sum(acc)"),
            "taken");
  EXPECT_EQ(refusal("grouped=k", "d=acc*b[batch,n];s[batch,n]=sum(acc);a[batch]=max(acc)"),
            "taken");
  EXPECT_EQ(refusal("grouped=rows", "d=acc+r[n,m]:ld=9"), "taken");
  EXPECT_EQ(refusal("grouped=rows scatter=add", "d=acc+r[m,n]:fp16"), "taken");

  expect("grouped=rows", "d=acc*s[batch,m]", "d=acc*x0[batch,m]",
         "x0 has the indices batch and m: grouping = rows: rows of all groups are those of one D");
  expect("grouped=rows", "d=acc;s[n]=sum(acc)", "d=acc;y0[n]=sum(acc)",
         "y0 lacks the index m: grouping = rows: how many rows a group has is not known before");
  expect("grouped=masked", "d=acc;a[batch]=sum(acc)", "d=acc;y0[batch]=sum(acc)",
         "y0 lacks the index m: grouping = masked: how many rows a group has is not known before");
  expect("grouped=masked", "d=acc-max[n](acc)", "d=acc-max[n](acc)",
         "it reduces along m: grouping = masked: how many rows a group has is not known before");
  expect("grouped=rows", "d=acc*c[m/2,n]", "d=acc*x0[m/2,n]",
         "x0 is shared by 2 rows: grouping = rows: a group may begin at any of them");
  expect("grouped=rows", "d=acc*c[n,m]", "d=acc*x0[n,m]",
         "x0 has lines along m: grouping = rows: needs ld");
  expect("grouped=rows scatter=add", "d=acc+r[m,n]", "d=acc+x0[m,n]",
         "x0 needs a type: scatter = add");
  expect("grouped=rows scatter=rows", "q[m]=sum(acc)", "y0[m]=sum(acc)",
         "it has no d: scatter = rows: must be none");
  expect("grouped=rows scatter=weighted out=fp8_e4m3", "d=acc*2", "d=acc*2",
         "d.dtype = fp8_e4m3: scatter = weighted: codes are not added");
  expect("grouped=list", "d=acc*2", "d=acc*2", "there is no list beside it");
  expect("grouped=masked", "d=acc;q[m]=sum(acc)", "d=acc;y0[m]=sum(acc)",
         "y0 needs the index batch: batch = 2");
}

}  // namespace kiln::expression_test
