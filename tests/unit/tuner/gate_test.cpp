// Gated products as problems: their text, what is refused, sizes of operands, the reference by
// hand.
#include "generator/problem/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generator/problem/extent.h"
#include "generator/problem/problem.h"
#include "kiln/engine.hpp"
#include "tuner/verify/reference.h"

namespace kiln::gate_test {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Gate, IsWrittenAndReadAsText) {
  const Gemm g = parse_gemm("bf16 N T 16 14336 4096 gate=silu").value();
  EXPECT_EQ(g.epilogue.gate, (Gated{Gate::silu, GateOrder::stacked}));
  EXPECT_EQ(text(g), "bf16 N T 16 14336 4096 gate=silu");
  const Gemm other = parse_gemm("fp16 N T 3 5 7 gate=gelu_erf:interleaved").value();
  EXPECT_EQ(other.epilogue.gate, (Gated{Gate::gelu_erf, GateOrder::interleaved}));
  EXPECT_EQ(text(other), "fp16 N T 3 5 7 gate=gelu_erf:interleaved");
  const auto wrong = parse_gemm("bf16 N T 3 5 7 gate=swish");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("gate = \"swish\""));
}

TEST(Gate, DoublesBAndItsBias) {
  const Gemm g = Gemm::row_major(4, 6, 8).with_bias(Bias::per_column).with_gate(Gate::relu);
  EXPECT_EQ(g.columns_of_b(), 12);
  EXPECT_EQ(g.ldb(), 12);
  EXPECT_EQ(span(g, Operand::b), 8 * 12);
  EXPECT_EQ(span(g, Operand::bias), 12);
  EXPECT_EQ(span(g, Operand::d), 4 * 6);
  EXPECT_EQ(g.flops(), 2.0 * 4 * 12 * 8);
  EXPECT_FALSE(present(g, Operand::c));
}

TEST(Gate, RefusesWhatItDoesNotKnow) {
  const Gemm g = Gemm::row_major(4, 6, 8, bf16).with_gate(Gate::silu);
  const auto refusal = [](const Gemm& gemm) {
    const Status status = validate(gemm);
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(refusal(g), "");
  EXPECT_THAT(refusal(g.with_activation(Activation::relu)), HasSubstr("activation = relu"));
  EXPECT_THAT(refusal(g.with_packed_b()), HasSubstr("b_packed = true"));
  EXPECT_THAT(refusal(Gemm::column_major(4, 6, 8).with_gate(Gate::silu)), HasSubstr("d.order"));
  EXPECT_THAT(refusal(Gemm::row_major(4, 6, 8, s8).with_gate(Gate::silu)),
              HasSubstr("d.dtype = s32"));
  Gemm large = g;
  large.n = std::int64_t{1} << 62;
  EXPECT_THAT(refusal(large), HasSubstr("does not fit 64 bits"));
}

TEST(Gate, KeepsDInRowsWhereItHasOneColumn) {
  EXPECT_FALSE(Problem::of(Gemm::row_major(5, 1, 3).with_gate(Gate::relu)).value().swapped);
}

TEST(Gate, TakesTheProductOfBothFactors) {
  // [2,2] · [2,4]: columns 1 and 2 of A, their sum, their difference.
  const float a[] = {1, 2, 3, -4}, b[] = {1, 0, 1, 1, 0, 1, 1, -1}, bias[] = {0, 1, 0, 10};
  float d[4] = {};
  const Gemm g = Gemm::row_major(2, 2, 2).with_gate(Gate::relu);
  ASSERT_TRUE(reference_gemm(g, {.a = a, .b = b, .d = d}));
  // relu of columns 1 and 2, times the sum and the difference.
  EXPECT_THAT(d, ElementsAre(1 * 3, 2 * -1, 3 * -1, 0 * 7));
  const Gemm biased = g.with_bias(Bias::per_column);
  ASSERT_TRUE(reference_gemm(biased, {.a = a, .b = b, .d = d, .bias = bias}));
  EXPECT_THAT(d, ElementsAre(1 * 3, 3 * 9, 3 * -1, 0 * 17));
  const Gemm pairs = g.with_gate(Gate::relu, GateOrder::interleaved);
  ASSERT_TRUE(reference_gemm(pairs, {.a = a, .b = b, .d = d}));
  EXPECT_THAT(d, ElementsAre(1 * 2, 3 * -1, 3 * -4, 0 * 7));
}

TEST(Gate, HasNoC) {
  float x[16] = {};
  auto engine = Engine::open({.database = ":memory:"});
  ASSERT_TRUE(engine) << engine.error().message;
  const Gemm g = Gemm::row_major(2, 2, 2).with_gate(Gate::silu);
  float d[4] = {};
  const Status status = engine->gemm(g, {.a = x, .b = x, .c = x, .d = d, .beta = 1.0});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::bad_input);
  EXPECT_THAT(status.error().message, HasSubstr("beta = 1: fp32 N N 2 2 2 gate=silu has no C"));
}

}  // namespace kiln::gate_test
