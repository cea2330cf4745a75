// No field of a problem is forgotten: each one reaches the text, the C structs, other libraries'
// predicate and the problems that `kiln verify` draws.
#include "generator/problem/fields.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "cli/random_gemm.h"
#include "engine/c_values.h"
#include "generator/problem/device_caps.h"
#include "generator/problem/operands.h"
#include "templates/cpu/common/abi.h"
#include "templates/cuda/common/abi.h"

namespace kiln::fields_test {

/// Gives `field` the value after the one it has; the first after the last of an enum.
template <typename T>
void change(T& field) {
  if constexpr (std::is_same_v<T, bool>)
    field = !field;
  else if constexpr (std::is_enum_v<T>)
    field = static_cast<T>((static_cast<std::size_t>(field) + 1) % EnumNames<T>::names.size());
  else
    field += 1;
}

/// Calls `f(name, problem)` with copies of `base` that differ from it in one field.
template <typename F>
void for_each_changed(const Gemm& base, F f) {
  for (std::size_t i = 0; i < kGemmFieldCount; ++i) {
    Gemm changed = base;
    for_each_gemm_field(changed, [&](std::string_view name, auto& field) {
      if (name == kGemmFieldNames[i]) change(field);
    });
    ASSERT_NE(changed, base) << kGemmFieldNames[i];
    f(kGemmFieldNames[i], changed);
  }
}

/// By field, whether it differs.
std::array<bool, kGemmFieldCount> differing(const Gemm& x, const Gemm& y) {
  const auto of_x = gemm_fields(x), of_y = gemm_fields(y);
  return [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    return std::array{std::get<kIndex>(of_x) != std::get<kIndex>(of_y)...};
  }
  (std::make_index_sequence<kGemmFieldCount>{});
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
      Gemm::row_major(32, 64, 128, bf16).grouped(2, Grouping::masked, 8),
      Gemm::row_major(32, 64, 128, bf16).with_weights(s4, Scale::line_64),
      Gemm::row_major(32, 64, 128, bf16).quantised(s8, Scale::tensor),
      Gemm::row_major(32, 64, 128, s8).output(bf16).scaled(Scale::line),
      Gemm::row_major(32, 64, 128, bf16).grouped(2, Grouping::rows).gathered(16).scattered(48)};
  for (const Gemm& base : bases)
    for_each_changed(base, [&](std::string_view name, const Gemm& changed) {
      if (!validate(changed)) return;
      EXPECT_NE(text(changed), text(base)) << name;
      const auto read = parse_gemm(text(changed));
      ASSERT_TRUE(read) << name << ": " << read.error().message;
      EXPECT_EQ(*read, changed) << name;
    });
}

TEST(Fields, OnlyProductsThatOtherLibrariesComputeArePlain) {
  const Gemm base = Gemm::row_major(3, 5, 7).batched(2);
  EXPECT_TRUE(is_plain_product(base));
  for_each_changed(base, [](std::string_view name, const Gemm& changed) {
    const bool beyond = name == "bias" || name == "activation" || name == "residual" ||
                        name == "scale_a" || name == "scale_b" || name == "bias_as_d" ||
                        name == "gate" || name == "gate_order" || name == "scale_type" ||
                        name == "zero" || name == "grouping" || name == "expected_rows" ||
                        name == "scale_d" || name == "zero_a" || name == "gather" ||
                        name == "scatter" || name == "rows_of_a" || name == "rows_of_d" ||
                        name == "amax_d" || name.starts_with("scale_order");
    EXPECT_EQ(is_plain_product(changed), !beyond) << name;
  });
}

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
          .gather = KILN_GATHER_ROWS,
          .scatter = KILN_SCATTER_ROWS,
          .rows_of_a = 5,
          .rows_of_d = 6,
          .amax_d = 1,
          .scale_order_a = KILN_SCALE_ORDER_BLOCKS,
          .scale_order_b = KILN_SCALE_ORDER_BLOCKS_4};
}

TEST(Fields, EachIsReadFromTheCStruct) {
  const auto matrix = [](DType dtype, std::int64_t ld) {
    return Matrix{dtype, Order::column_major, true, ld, ld + 1};
  };
  Gemm expected;
  expected.m = 11, expected.n = 12, expected.k = 13, expected.batch = 14;
  expected.a = matrix(fp64, 20), expected.b = matrix(fp16, 30);
  expected.c = matrix(bf16, 40), expected.d = matrix(s8, 50);
  expected.accumulator = s32;
  expected.epilogue = {Bias::per_column, Activation::silu,      true, true,
                       Gate::silu,       GateOrder::interleaved};
  expected.alignment = 16;
  expected.b_packed = true;
  expected.scale_a = Scale::line_128, expected.scale_b = Scale::mx_32;
  expected.numerics = Numerics::fast;
  expected.scale_type = fp16, expected.zero = Zero::floating;
  expected.grouping = Grouping::masked;
  expected.expected_rows = 3;
  expected.scale_d = Scale::line;
  expected.zero_a = Scale::tensor;
  expected.gather = Gather::rows, expected.scatter = Scatter::rows;
  expected.rows_of_a = 5, expected.rows_of_d = 6;
  expected.amax_d = true;
  expected.scale_order_a = ScaleOrder::blocks, expected.scale_order_b = ScaleOrder::blocks_4;
  const kiln_gemm_desc desc = full_desc();
  const auto read = gemm_of(&desc);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, expected);
  // The problem above leaves no field at its default, or it would show nothing.
  for (std::size_t i = 0; i < kGemmFieldCount; ++i)
    EXPECT_TRUE(differing(*read, Gemm{})[i]) << kGemmFieldNames[i];
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
    const std::string_view name = kGemmFieldNames[f];
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
