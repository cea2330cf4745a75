// Gates that are written as expressions: their text, what a problem makes of them, what is refused,
// and what is kept of both products until all is reduced.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "generator/expression/evaluate.h"
#include "generator/expression/halves.h"
#include "generator/problem/gate.h"
#include "generator/problem/problem.h"
#include "kiln/engine.hpp"
#include "kiln/terms.hpp"
#include "tuner/verify/reference.h"

namespace kiln::gate_expressions_test {

using testing::ElementsAre;
using testing::HasSubstr;

std::string canonical(std::string_view text) {
  const auto parsed = Expression::parse(text);
  return parsed ? std::string(parsed->text()) : parsed.error().message;
}

std::string refusal(const Gemm& gemm) {
  const Status status = validate(gemm);
  return status ? std::string() : status.error().message;
}

TEST(GateExpressions, NameBothProducts) {
  EXPECT_EQ(canonical("d=silu(acc0)*acc1"), "d=silu(acc0)*acc1");
  EXPECT_EQ(canonical("y=acc1;d=acc0*y+y"), "d=acc0*acc1+acc1");
  EXPECT_TRUE(Expression::parse("d=acc1")->of_gate());
  EXPECT_TRUE(Expression::parse("d=b[n];q[m]=sum(acc0)")->of_gate());
  EXPECT_FALSE(Expression::parse("d=acc")->of_gate());
  EXPECT_FALSE(Expression::parse("y=acc0;d=b[n]")->of_gate()) << "what nothing is made of";
  EXPECT_FALSE(Expression().of_gate());
  using namespace terms;
  EXPECT_EQ(to_expression(silu(acc0()) * acc1())->text(), "d=silu(acc0)*acc1");
  EXPECT_NE(Expression::parse("d=acc0").value(), Expression::parse("d=acc1").value());
}

TEST(GateExpressions, AreRefusedWithTheColumn) {
  EXPECT_THAT(canonical("d=acc0*acc"),
              HasSubstr("column 8: acc beside acc0: there is one product"));
  EXPECT_THAT(canonical("y=acc;d=acc1"), HasSubstr("column 9: acc1 beside acc"));
  EXPECT_THAT(canonical("acc0=2;d=acc1"), HasSubstr("column 1: acc0 has a meaning of its own"));
  EXPECT_THAT(canonical("d=acc1[n]"), HasSubstr("column 3: acc1 has a meaning of its own"));
  EXPECT_THAT(canonical("d=acc2"), HasSubstr("column 3: acc2 has no value"));
}

TEST(GateExpressions, MakeAGateOfTheProblem) {
  const Gemm g = parse_gemm("bf16 N T 512 14336 4096 epilogue=d=silu(acc0)*acc1").value();
  EXPECT_EQ(g.epilogue.gate, (Gated{Gate::expression, GateOrder::stacked}));
  EXPECT_EQ(g.columns_of_b(), 2 * 14336);
  EXPECT_FALSE(present(g, Operand::c));
  EXPECT_EQ(text(g), "bf16 N T 512 14336 4096 epilogue=d=silu(acc0)*acc1");
  const std::string pairs = "bf16 N T 5 6 7 epilogue=d=acc0-acc1 gate=expression:interleaved";
  const Gemm other = parse_gemm(pairs).value();
  EXPECT_EQ(other.epilogue.gate, (Gated{Gate::expression, GateOrder::interleaved}));
  EXPECT_EQ(text(other), pairs);
  EXPECT_EQ(parse_gemm("bf16 N T 5 6 7 epilogue=d=acc0 gate=expression").value(),
            parse_gemm("bf16 N T 5 6 7 epilogue=d=acc0").value());
  const Expression product = Expression::parse("d=acc0*acc1").value();
  const Gemm plain = Gemm::row_major(5, 6, 7);
  EXPECT_EQ(plain.with_expression(product).epilogue.gate, (Gated{Gate::expression}));
  EXPECT_EQ(plain.with_gate(Gate::expression, GateOrder::interleaved)
                .with_expression(product)
                .epilogue.gate->order,
            GateOrder::interleaved);
  EXPECT_EQ(plain.with_expression(product).with_expression({}), plain);
}

TEST(GateExpressions, AgreeWithTheGate) {
  const Expression product = Expression::parse("d=acc0*acc1").value();
  const Gemm plain = Gemm::row_major(5, 6, 7);
  EXPECT_EQ(refusal(plain.with_expression(product)), "");
  EXPECT_THAT(
      refusal(plain.with_gate(Gate::expression)),
      HasSubstr("epilogue.gate = expression: epilogue = none: names neither acc0 nor acc1"));
  Gemm wrong = plain.with_gate(Gate::expression);
  wrong.epilogue.expression = Expression::parse("d=acc").value();
  EXPECT_THAT(refusal(wrong), HasSubstr("epilogue = d=acc: names neither acc0 nor acc1"));
  wrong.epilogue.expression = product;
  wrong.epilogue.gate.reset();
  EXPECT_THAT(refusal(wrong), HasSubstr("epilogue = d=acc0*acc1: epilogue.gate = none: must be"));
  EXPECT_THAT(refusal(plain.with_gate(Gate::silu).with_expression(product)),
              HasSubstr("there is no gate beside it"));
  EXPECT_THAT(refusal(Gemm::column_major(5, 6, 7).with_expression(product)),
              HasSubstr("epilogue.gate = expression: d.order = column: must be row"));
  EXPECT_EQ(refusal(plain.output(fp8_e4m3).with_expression(product)), "");
  EXPECT_THAT(refusal(Gemm::row_major(5, 6, 7, s8).with_expression(product)),
              HasSubstr("d.dtype = s32"));
}

/// How many values of each element wait for what is reduced.
std::size_t kept_of(const char* text) {
  return expression::halves_in(Expression::parse(text).value())->kept;
}

TEST(GateExpressions, KeepAsFewValuesAsSuffice) {
  EXPECT_EQ(kept_of("y=silu(acc0)*acc1;d=y/max[m](abs(y))"), 1u);
  EXPECT_EQ(kept_of("d=exp(acc0-max[m](acc0))"), 1u);
  EXPECT_EQ(kept_of("d=acc0/max[m](acc1)+relu(acc0)"), 1u) << "both are made of acc0";
  EXPECT_EQ(kept_of("d=exp(acc0-max[m](acc0))*acc1"), 2u);
  EXPECT_EQ(kept_of("s=max[m](acc0);d=(acc0+acc1)*s+acc0*(acc1-s)+acc1"), 2u);
  EXPECT_EQ(kept_of("d=exp(acc-max[m](acc))*relu(acc)"), 1u);
  EXPECT_THAT(canonical("s[m]=max(acc0);t[n]=max(acc1);d=acc0/s[m]+acc1/t[n]"),
              HasSubstr("6 values are stored or kept until all are reduced: at most 4 can be"));
}

TEST(GateExpressions, AreComputedByHand) {
  // [2,2] · [2,4]: columns 1 and 2 of A, their sum, their difference.
  const float a[] = {1, 2, 3, -4}, b[] = {1, 0, 1, 1, 0, 1, 1, -1}, bias[] = {10, 20};
  float d[4] = {};
  const Gemm plain = Gemm::row_major(2, 2, 2);
  const auto computed = [&](const char* text, GateOrder order) {
    const Gemm g =
        plain.with_gate(Gate::expression, order).with_expression(Expression::parse(text).value());
    Operands operands{.a = a, .b = b, .d = d};
    operands.extra[0] = bias;
    const Status status = reference_gemm(g, operands);
    EXPECT_TRUE(status) << status.error().message;
  };
  computed("d=relu(acc0)*acc1", GateOrder::stacked);
  EXPECT_THAT(d, ElementsAre(1 * 3, 2 * -1, 3 * -1, 0 * 7));
  computed("d=acc1-acc0*b[n]", GateOrder::stacked);
  EXPECT_THAT(d, ElementsAre(3 - 10, -1 - 40, -1 - 30, 7 + 80));
  computed("d=acc1-acc0*b[n]", GateOrder::interleaved);
  EXPECT_THAT(d, ElementsAre(2 - 10, -1 - 60, -4 - 30, 7 + 20));
  computed("d=acc1/max[m](acc0)", GateOrder::stacked);
  EXPECT_THAT(d, ElementsAre(1.5F, -0.5F, -1 / 3.0F, 7 / 3.0F));
}

}  // namespace kiln::gate_expressions_test
