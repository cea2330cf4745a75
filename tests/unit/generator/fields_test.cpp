// No field of a problem is forgotten: each one reaches the text, the C structs, other libraries'
// predicate and the problems that `kiln verify` draws.
#include "generator/problem/fields.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

#include "cli/commands/random_gemm.h"
#include "engine/c_values.h"
#include "generator/problem/device_caps.h"
#include "generator/problem/operands.h"
#include "support/fields.h"
#include "templates/cpu/common/abi.h"
#include "templates/cuda/common/abi.h"

namespace kiln::fields_test {

/// By field, whether it differs.
std::array<bool, kGemmFieldCount> differing(const Gemm& x, const Gemm& y) {
  std::array<bool, kGemmFieldCount> differs{};
  for (std::size_t i = 0; i < kGemmFieldCount; ++i)
    differs[i] = kGemmFields[i].get(x) != kGemmFields[i].get(y);
  return differs;
}

TEST(Fields, AProblemIsItsValues) {
  for (const Gemm& base : test::bases_of_fields())
    for (const GemmField& field : kGemmFields)
      if (const auto changed = test::with_next_value(base, field)) {
        EXPECT_EQ(gemm_of(values_of(*changed)).value(), *changed) << field.name;
      }
}

TEST(Fields, WhatAProblemCannotSayIsRefusedByName) {
  const auto refused = [](std::string_view name, std::int64_t value) {
    FieldValues values = values_of(Gemm::row_major(3, 5, 7));
    for (std::size_t i = 0; i < kGemmFieldCount; ++i)
      if (kGemmFields[i].name == name) values[i] = value;
    const auto gemm = gemm_of(values);
    return gemm ? std::string("taken") : gemm.error().message;
  };
  EXPECT_EQ(refused("rows_of_a", 4), "rows_of_a = 4: must be 0 without a list of rows");
  EXPECT_EQ(refused("rows_of_d", 4), "rows_of_d = 4: must be 0 without a list of rows");
  EXPECT_EQ(refused("gather", 1), "gather = rows: must be none without groups of rows");
  EXPECT_EQ(refused("scatter", 3), "scatter = weighted: must be none without groups of rows");
  EXPECT_EQ(refused("expected_rows", -1), "expected_rows = -1: must be 0 without masked groups");
  EXPECT_EQ(refused("gate_order", 1),
            "epilogue.gate_order = interleaved: must be stacked without a gate");
  EXPECT_EQ(refused("zero_a", 2), "zero_a = 1x128: must be none, line or tensor");
  EXPECT_EQ(refused("zero", 3), "zero = 3: no such kind of zero points");
  EXPECT_EQ(refused("a_dtype", 99), "a.dtype = 99: no such type");
  const Gemm plain = Gemm::row_major(4, 6, 8, bf16);
  EXPECT_EQ(validate(plain.with_gate(Gate{})).error().message, "epilogue.gate = 7: no such gate");
  EXPECT_EQ(validate(plain.grouped(2, Grouping::rows).scattered(0, Scatter{})).error().message,
            "scatter = 4: no such kind of scatter");
}

TEST(Fields, EachChangesTheTextOrIsRefused) {
  const Gemm bases[] = {
      Gemm::row_major(32, 64, 128).batched(2),
      Gemm::column_major(32, 64, 128, bf16),
      Gemm::row_major(32, 64, 128, fp16).with_bias(Bias::per_row),
      Gemm::row_major(32, 64, 128, fp8_e4m3).scaled(Scale::line),
      Gemm::row_major(32, 64, 128, fp8_e4m3).scaled(Scale::line_128),
      Gemm::row_major(32, 64, 128, fp8_e4m3),
      Gemm::row_major(32, 64, 128, bf16).with_gate(Gate::silu),
      Gemm::row_major(32, 64, 128, bf16).grouped(2, MaskedGroups{8}),
      Gemm::row_major(32, 64, 128, bf16).with_weights(s4, Scale::line_64),
      Gemm::row_major(32, 64, 128, bf16).quantised(s8, Scale::tensor),
      Gemm::row_major(32, 64, 128, s8).output(bf16).scaled(Scale::line),
      Gemm::row_major(32, 64, 128, bf16).grouped(2, Grouping::rows).gathered(16).scattered(48)};
  for (const Gemm& base : bases)
    for (const GemmField& field : kGemmFields) {
      const auto changed = test::with_next_value(base, field);
      if (!changed || !validate(*changed)) continue;
      EXPECT_NE(text(*changed), text(base)) << field.name;
      const auto read = parse_gemm(text(*changed));
      ASSERT_TRUE(read) << field.name << ": " << read.error().message;
      EXPECT_EQ(*read, *changed) << field.name;
    }
}

TEST(Fields, OnlyProductsThatOtherLibrariesComputeArePlain) {
  const std::set<std::string_view> plain{"m",           "n",         "k",        "batch",
                                         "accumulator", "alignment", "b_packed", "numerics"};
  EXPECT_TRUE(is_plain_product(Gemm::row_major(3, 5, 7).batched(2)));
  for (const Gemm& base : test::bases_of_fields())
    for (const GemmField& field : kGemmFields)
      if (const auto changed = test::with_next_value(base, field)) {
        const bool matrix = field.name[1] == '_' && field.name != "b_packed";
        const bool beyond = !plain.contains(field.name) && !matrix;
        if (field.get(*changed) != 0 && beyond) {
          EXPECT_FALSE(is_plain_product(*changed)) << field.name;
        }
        if (!beyond && base == test::bases_of_fields().front()) {
          EXPECT_TRUE(is_plain_product(*changed)) << field.name;
        }
      }
}

Expression doubled() { return Expression::parse("d=acc*2").value(); }

/// Every field has a value of its own, which is not its default.
kiln_gemm_desc full_desc() {
  const auto matrix = [](int dtype, std::int64_t ld) {
    return kiln_matrix{.dtype = static_cast<kiln_dtype>(dtype),
                       .order = KILN_COLUMN_MAJOR,
                       .transposed = 1,
                       .ld = ld,
                       .batch_stride = ld + 1};
  };
  return {.size = sizeof(kiln_gemm_desc),
          .m = 11,
          .n = 12,
          .k = 13,
          .batch = 14,
          .a = matrix(1, 20),
          .b = matrix(2, 30),
          .c = matrix(3, 40),
          .d = matrix(4, 50),
          .accumulator = KILN_S32,
          .bias = KILN_BIAS_PER_COLUMN,
          .activation = KILN_SILU,
          .residual = 1,
          .alignment = 16,
          .b_packed = 1,
          .scale_a = KILN_SCALE_LINE_128,
          .scale_b = KILN_SCALE_MX_32,
          .bias_as_d = 1,
          .numerics = KILN_NUMERICS_FAST,
          .gate = KILN_GATE_SILU,
          .gate_order = KILN_GATE_INTERLEAVED,
          .scale_type = KILN_FP16,
          .zero = KILN_ZERO_FLOATING,
          .grouping = KILN_GROUPING_MASKED,
          .expected_rows = 3,
          .scale_d = KILN_SCALE_LINE,
          .zero_a = KILN_SCALE_TENSOR,
          .amax_d = 1,
          .scale_order_a = KILN_SCALE_ORDER_BLOCKS,
          .scale_order_b = KILN_SCALE_ORDER_BLOCKS_4,
          .expression = static_cast<int>(doubled().id())};
}

TEST(Fields, EachIsReadFromTheCStruct) {
  const auto matrix = [](DType dtype, std::int64_t ld) {
    return ScaledMatrix{{dtype, Order::column_major, true, ld, ld + 1}, {}};
  };
  Gemm expected;
  expected.m = 11, expected.n = 12, expected.k = 13, expected.batch = 14;
  expected.a = matrix(fp64, 20), expected.b = matrix(fp16, 30);
  expected.c = matrix(bf16, 40), expected.d = matrix(s8, 50);
  expected.accumulator = s32;
  expected.epilogue = {
      Bias::per_column, Activation::silu, true, true, Gated{Gate::silu, GateOrder::interleaved},
      doubled()};
  expected.alignment = 16;
  expected.b_packed = true;
  expected.a.q = {Scale::line_128, ScaleOrder::blocks, fp32, Zero::tensor};
  expected.b.q = {Scale::mx_32, ScaleOrder::blocks_4, fp16, Zero::floating};
  expected.d.q.scale = Scale::line;
  expected.numerics = Numerics::fast;
  expected.groups = MaskedGroups{3};
  expected.amax_d = true;
  const kiln_gemm_desc desc = full_desc();
  const auto read = gemm_of(&desc);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, expected);
  kiln_gemm_desc indexed = desc;
  indexed.grouping = KILN_GROUPING_ROWS, indexed.expected_rows = 0;
  indexed.gather = KILN_GATHER_ROWS, indexed.scatter = KILN_SCATTER_ADD;
  indexed.rows_of_a = 5, indexed.rows_of_d = 6;
  const auto by_index = gemm_of(&indexed);
  ASSERT_TRUE(by_index) << by_index.error().message;
  expected.groups = GroupsOfRows{Gathered{5}, Scattered{Scatter::add, 6}};
  EXPECT_EQ(*by_index, expected);
  // The problems above leave no field at its default, or they would show nothing.
  for (std::size_t i = 0; i < kGemmFieldCount; ++i)
    EXPECT_TRUE(differing(*read, Gemm{})[i] || differing(*by_index, Gemm{})[i])
        << kGemmFields[i].name;
}

TEST(Fields, EachIsDrawnForVerification) {
  const DeviceCaps devices[] = {DeviceCaps{}, caps_named("sm_90a").value()};
  std::array<bool, kGemmFieldCount> drawn{};
  for (const DeviceCaps& caps : devices) {
    cli::Draw draw(1);
    for (int i = 0; i < 2000; ++i) {
      const auto set = differing(cli::random_gemm(draw, caps, 1 << 20), Gemm{});
      for (std::size_t f = 0; f < kGemmFieldCount; ++f) drawn[f] = drawn[f] || set[f];
    }
  }
  for (std::size_t f = 0; f < kGemmFieldCount; ++f) {
    const std::string_view name = kGemmFields[f].name;
    const bool refused = name == "c_transposed" || name == "d_transposed";
    EXPECT_EQ(drawn[f], !refused) << name;
  }
}

/// Pointers that differ from each other, alpha and beta.
Operands some_operands(std::array<float, kOperandCount>& memory) {
  Operands operands{.alpha = 2, .beta = 3};
  for_each_operand([&](auto which) { pointer<which>(operands) = &memory[index_of(which)]; });
  return operands;
}

template <typename Args>
void expect_bound(bool swapped) {
  std::array<float, kOperandCount> memory{};
  const Operands operands = some_operands(memory);
  Args args{};
  bind_operands(args, operands, swapped);
  for (const Operand which : kOperands) {
    const Operand from = swapped ? row_of(which).swapped : which;
    EXPECT_EQ(pointer(args, which), &memory[index_of(from)]) << name(which);
  }
  EXPECT_EQ(args.alpha, 2);
  EXPECT_EQ(args.beta, 3);
  Operands back;
  bind_operands(back, args, swapped);
  for (const Operand which : kOperands) EXPECT_EQ(pointer(back, which), pointer(operands, which));
}

TEST(Operands, AreBoundToEveryKindOfArguments) {
  for (const bool swapped : {false, true}) {
    expect_bound<KilnArgs>(swapped);
    expect_bound<KilnGpuArgs>(swapped);
    expect_bound<Operands>(swapped);
  }
  EXPECT_EQ(row_of(Operand::a).swapped, Operand::b);
  EXPECT_EQ(row_of(Operand::scale_b).swapped, Operand::scale_a);
}

TEST(Operands, OfTheCStructAreAllCopied) {
  std::array<float, kOperandCount> memory{};
  kiln_operands given;
  kiln_operands_init(&given);
  for_each_operand([&](auto which) { pointer<which>(given) = &memory[index_of(which)]; });
  given.alpha = 4, given.beta = 5, given.threads = 6, given.workspace_bytes = 7;
  given.stream = &memory[0], given.workspace = &memory[1];
  const auto read = operands_of(&given);
  ASSERT_TRUE(read);
  for (const Operand which : kOperands)
    EXPECT_EQ(pointer(*read, which), &memory[index_of(which)]) << name(which);
  EXPECT_EQ(read->alpha, 4);
  EXPECT_EQ(read->beta, 5);
  EXPECT_EQ(read->threads, 6);
  EXPECT_EQ(read->workspace_bytes, 7);
  EXPECT_EQ(read->stream, &memory[0]);
  EXPECT_EQ(read->workspace, &memory[1]);
}

}  // namespace kiln::fields_test
