// Calls of cuBLAS and cuBLASLt as problems of kiln: what each argument and attribute means, and
// what is left to the library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fakes/cublas.h"
#include "hooks/cublas/call.h"

namespace kiln::hooks {

/// In place of the library's.
const LtGetters& lt_getters() {
  static const LtGetters all{cublasLtMatmulDescGetAttribute, cublasLtMatrixLayoutGetAttribute};
  return all;
}

}  // namespace kiln::hooks

namespace kiln::cublas_call_test {

using hooks::Call;
using hooks::CublasCall;
using hooks::LtCall;
using hooks::read_call;
using test::FakeAttributes;

alignas(64) std::byte memory[256];
const float kOne = 1, kHalf = 0.5f;

/// D^T, of 30×20 row-major, is B^T times A^T as cuBLAS takes them.
CublasCall bf16_call() {
  return {CUBLAS_OP_T,
          CUBLAS_OP_N,
          20,
          30,
          40,
          &kOne,
          memory,
          CUDA_R_16BF,
          48,
          memory + 64,
          CUDA_R_16BF,
          56,
          &kHalf,
          memory + 128,
          CUDA_R_16BF,
          24,
          CUBLAS_COMPUTE_32F};
}

TEST(CublasCall, IsAColumnMajorProduct) {
  const auto call = read_call(bf16_call(), CUBLAS_DEFAULT_MATH);
  ASSERT_TRUE(call);
  EXPECT_EQ(text(call->gemm), "bf16 T N 20 30 40 lda=48 ldb=56 ldc=24 ldd=24 order=column");
  const Operands& o = call->operands;
  EXPECT_EQ(o.a, memory);
  EXPECT_EQ(o.b, memory + 64);
  EXPECT_EQ(o.c, memory + 128);
  EXPECT_EQ(o.d, memory + 128);
  EXPECT_EQ(o.alpha, 1.0);
  EXPECT_EQ(o.beta, 0.5);
}

TEST(CublasCall, BatchesHaveStrides) {
  CublasCall from = bf16_call();
  from.batch = 3, from.stride_a = 5000, from.stride_b = 6000, from.stride_c = 7000;
  const auto call = read_call(from, CUBLAS_DEFAULT_MATH);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->gemm.batch, 3);
  EXPECT_EQ(call->gemm.a.batch_stride, 5000);
  EXPECT_EQ(call->gemm.b.batch_stride, 6000);
  EXPECT_EQ(call->gemm.d.batch_stride, 7000);
  from.stride_b = 0;  // one B for all, which kiln would take for a tight one
  EXPECT_FALSE(read_call(from, CUBLAS_DEFAULT_MATH));
}

TEST(CublasCall, TypesFollowTheComputation) {
  const auto types = [](cudaDataType_t in, cudaDataType_t out, cublasComputeType_t compute,
                        cublasMath_t mode = CUBLAS_DEFAULT_MATH) -> std::string {
    static const double one = 1;
    static const std::int32_t whole = 1;
    static const std::uint16_t half = 0x3c00;
    CublasCall from = bf16_call();
    from.type_a = from.type_b = in, from.type_c = out, from.compute = compute;
    if (compute == CUBLAS_COMPUTE_64F) from.alpha = from.beta = &one;
    if (compute == CUBLAS_COMPUTE_32I) from.alpha = from.beta = &whole;
    if (compute == CUBLAS_COMPUTE_16F) from.alpha = from.beta = &half;
    const auto call = read_call(from, mode);
    if (!call) return "refused";
    EXPECT_EQ(call->operands.alpha, 1.0);
    const std::string line = text(call->gemm);
    return line.substr(0, line.find(' ')) + '>' + std::string(info(call->gemm.d.dtype).name);
  };
  EXPECT_EQ(types(CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F), "fp32>fp32");
  EXPECT_EQ(types(CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUBLAS_TF32_TENSOR_OP_MATH),
            "tf32>fp32");
  EXPECT_EQ(types(CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32), "tf32>fp32");
  EXPECT_EQ(types(CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F), "fp64>fp64");
  EXPECT_EQ(types(CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_16F), "fp16>fp16");
  EXPECT_EQ(types(CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F), "fp16>fp32");
  EXPECT_EQ(types(CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I), "int8>s32");
  EXPECT_EQ(types(CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F,
                  CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
            "bf16>bf16");
  // Modes that promise how the library computes, and types that kiln does not have.
  EXPECT_EQ(types(CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_PEDANTIC), "refused");
  EXPECT_EQ(types(CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUBLAS_PEDANTIC_MATH), "refused");
  EXPECT_EQ(types(CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_EMULATED_16BFX9), "refused");
  EXPECT_EQ(types(CUDA_C_32F, CUDA_C_32F, CUBLAS_COMPUTE_32F), "refused");
}

TEST(CublasCall, AddressesThatAreNotAlignedAreSaid) {
  CublasCall from = bf16_call();
  from.b = memory + 4;
  EXPECT_EQ(read_call(from, CUBLAS_DEFAULT_MATH)->gemm.alignment, 4);
  from.lda = 41;  // a pitch says itself how aligned lines are
  EXPECT_EQ(read_call(from, CUBLAS_DEFAULT_MATH)->gemm.alignment, 4);
  from.b = memory + 1;  // of no bf16
  EXPECT_FALSE(read_call(from, CUBLAS_DEFAULT_MATH));
}

TEST(CublasCall, WhatHasNoWorkIsTheLibrarys) {
  const float zero = 0;
  for (const auto change : std::initializer_list<void (*)(CublasCall&)>{
           [](CublasCall& c) { c.m = 0; }, [](CublasCall& c) { c.k = -1; },
           [](CublasCall& c) { c.ldc = 0; }, [](CublasCall& c) { c.batch = 0; },
           [](CublasCall& c) { c.alpha = nullptr; },
           [](CublasCall& c) { c.transpose_a = static_cast<cublasOperation_t>(7); }}) {
    CublasCall from = bf16_call();
    change(from);
    EXPECT_FALSE(read_call(from, CUBLAS_DEFAULT_MATH));
  }
  CublasCall from = bf16_call();
  from.alpha = &zero;
  EXPECT_FALSE(read_call(from, CUBLAS_DEFAULT_MATH));
}

class LtMatmul : public ::testing::Test {
 protected:
  LtMatmul() {
    d_.set<std::int32_t>(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, CUBLAS_COMPUTE_32F);
    d_.set<std::int32_t>(CUBLASLT_MATMUL_DESC_SCALE_TYPE, CUDA_R_32F);
    d_.set<std::int32_t>(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    layout(a_, 40, 20, 48), layout(b_, 40, 30, 56), layout(c_, 20, 30, 24),
        layout(out_, 20, 30, 32);
  }
  static void layout(FakeAttributes& of, std::uint64_t rows, std::uint64_t columns,
                     std::int64_t ld) {
    of.set<std::uint32_t>(CUBLASLT_MATRIX_LAYOUT_TYPE, CUDA_R_16BF);
    of.set<std::int32_t>(CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_COL);
    of.set<std::uint64_t>(CUBLASLT_MATRIX_LAYOUT_ROWS, rows);
    of.set<std::uint64_t>(CUBLASLT_MATRIX_LAYOUT_COLS, columns);
    of.set<std::int64_t>(CUBLASLT_MATRIX_LAYOUT_LD, ld);
    of.set<std::int32_t>(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1);
    of.set<std::int64_t>(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 0);
  }
  std::optional<Call> call() {
    const auto at = [](FakeAttributes& x) { return reinterpret_cast<cublasLtMatrixLayout_t>(&x); };
    return read_call(LtCall{reinterpret_cast<cublasLtMatmulDesc_t>(&d_), &kOne, memory, at(a_),
                            memory + 64, at(b_), &kHalf, memory + 128, at(c_), memory + 192,
                            at(out_)});
  }
  FakeAttributes d_, a_, b_, c_, out_;
};

TEST_F(LtMatmul, IsWhatItsDescriptorsSay) {
  const auto made = call();
  ASSERT_TRUE(made);
  EXPECT_EQ(text(made->gemm), "bf16 T N 20 30 40 lda=48 ldb=56 ldc=24 ldd=32 order=column");
  EXPECT_EQ(made->operands.c, memory + 128);
  EXPECT_EQ(made->operands.d, memory + 192);
  EXPECT_EQ(made->operands.beta, 0.5);
}

TEST_F(LtMatmul, RowMajorMatricesAreSaid) {
  layout(b_, 40, 30, 32);
  b_.set<std::int32_t>(CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_ROW);
  const auto made = call();
  ASSERT_TRUE(made);
  EXPECT_EQ(made->gemm.b.order, Order::row_major);
  EXPECT_TRUE(validate(made->gemm));
}

TEST_F(LtMatmul, EpiloguesAreKilns) {
  d_.set<std::int32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_GELU);
  EXPECT_EQ(call()->gemm.epilogue.activation, Activation::gelu_tanh);
  d_.set<std::int32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU);
  EXPECT_EQ(call()->gemm.epilogue.activation, Activation::relu);
  d_.set<std::int32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU_BIAS);
  EXPECT_FALSE(call()) << "without a pointer";
  d_.set<const void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, memory + 32);
  d_.set<std::int32_t>(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
  const auto made = call();
  ASSERT_TRUE(made);
  EXPECT_EQ(made->gemm.epilogue.bias, Bias::per_row);
  EXPECT_EQ(made->gemm.epilogue.activation, Activation::relu);
  EXPECT_EQ(made->operands.bias, memory + 32);
  EXPECT_FALSE(made->gemm.epilogue.bias_as_d);
  for (const std::int32_t of_d : {-1, std::int32_t{CUDA_R_16BF}}) {
    d_.set<std::int32_t>(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, of_d);
    ASSERT_TRUE(call());
    EXPECT_TRUE(call()->gemm.epilogue.bias_as_d);
    EXPECT_TRUE(validate(call()->gemm));
  }
  d_.set<std::int32_t>(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16F);
  EXPECT_FALSE(call()) << "of another type than D, bf16";
  for (const auto other :
       {CUBLASLT_EPILOGUE_RELU_AUX, CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_DGELU}) {
    d_.set<std::int32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, other);
    EXPECT_FALSE(call()) << other;
  }
}

TEST_F(LtMatmul, EightBitFloatsSayWhetherFastAccumulationIsAllowed) {
  for (FakeAttributes* input : {&a_, &b_})
    input->set<std::uint32_t>(CUBLASLT_MATRIX_LAYOUT_TYPE, CUDA_R_8F_E4M3);
  ASSERT_TRUE(call());
  EXPECT_EQ(call()->gemm.numerics, Numerics::ieee);
  d_.set<std::int8_t>(CUBLASLT_MATMUL_DESC_FAST_ACCUM, 1);
  ASSERT_TRUE(call());
  EXPECT_EQ(call()->gemm.a.dtype, fp8_e4m3);
  EXPECT_EQ(call()->gemm.numerics, Numerics::fast);
  d_.set<const void*>(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, memory + 48);
  d_.set<const void*>(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, memory + 64);
  d_.set<std::int32_t>(CUBLASLT_MATMUL_DESC_B_SCALE_MODE,
                       CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
  const auto scaled = call();
  ASSERT_TRUE(scaled);
  EXPECT_EQ(scaled->gemm.a.q.scale, Scale::tensor);
  EXPECT_EQ(scaled->gemm.b.q.scale, Scale::line);
  EXPECT_EQ(scaled->operands.scale_a, memory + 48);
  EXPECT_EQ(scaled->operands.scale_b, memory + 64);
  d_.set<std::int32_t>(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0);
  EXPECT_FALSE(call());
}

// Weights with a scale for each square, activations with one for each 128 elements of a row.
TEST_F(LtMatmul, ScalesOfBlocksAreThoseOfKilnsOrders) {
  layout(a_, 512, 20, 512), layout(b_, 512, 32, 512), layout(c_, 20, 32, 24),
      layout(out_, 20, 32, 32);
  for (FakeAttributes* input : {&a_, &b_})
    input->set<std::uint32_t>(CUBLASLT_MATRIX_LAYOUT_TYPE, CUDA_R_8F_E4M3);
  d_.set<const void*>(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, memory + 48);
  d_.set<const void*>(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, memory + 64);
  const auto modes = [&](cublasLtMatmulMatrixScale_t a, cublasLtMatmulMatrixScale_t b) {
    d_.set<std::int32_t>(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, a);
    d_.set<std::int32_t>(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, b);
  };
  modes(CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
  const auto made = call();
  ASSERT_TRUE(made);
  EXPECT_EQ(text(made->gemm),
            "fp8 T N 20 32 512 lda=512 ldb=512 ldc=24 ldd=32 order=column scale=128x128:1x128 "
            "scale_order=lines:blocks_4");
  EXPECT_TRUE(validate(made->gemm));
  EXPECT_EQ(made->operands.scale_a, memory + 48);
  EXPECT_EQ(made->operands.scale_b, memory + 64);
  modes(CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
  EXPECT_EQ(call()->gemm.a.q.order, ScaleOrder::blocks_4);
  d_.set<const void*>(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, memory + 56);
  EXPECT_EQ(call()->gemm.alignment, 8);
  layout(b_, 512, 30, 512), layout(c_, 20, 30, 24), layout(out_, 20, 30, 32);
  b_.set<std::uint32_t>(CUBLASLT_MATRIX_LAYOUT_TYPE, CUDA_R_8F_E4M3);
  EXPECT_FALSE(call()) << "its rows of scales are padded";
  layout(a_, 640, 20, 640), layout(b_, 640, 32, 640), layout(c_, 20, 32, 24),
      layout(out_, 20, 32, 32);
  for (FakeAttributes* input : {&a_, &b_})
    input->set<std::uint32_t>(CUBLASLT_MATRIX_LAYOUT_TYPE, CUDA_R_8F_E4M3);
  EXPECT_TRUE(call());
  modes(CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
  EXPECT_FALSE(call()) << "five squares along k are padded";
  // Neither along k.
  layout(a_, 20, 512, 24), layout(b_, 512, 32, 512);
  for (FakeAttributes* input : {&a_, &b_})
    input->set<std::uint32_t>(CUBLASLT_MATRIX_LAYOUT_TYPE, CUDA_R_8F_E4M3);
  d_.unset(CUBLASLT_MATMUL_DESC_TRANSA);
  EXPECT_FALSE(call());
}

TEST_F(LtMatmul, WhatKilnDoesNotComputeIsTheLibrarys) {
  // Counters of parts of D, for who computes while another copies, and a description of emulation:
  // some headers have no names for them.
  const auto attribute_29 = static_cast<cublasLtMatmulDescAttributes_t>(29),
             attribute_30 = static_cast<cublasLtMatmulDescAttributes_t>(30),
             attribute_36 = static_cast<cublasLtMatmulDescAttributes_t>(36),
             attribute_38 = static_cast<cublasLtMatmulDescAttributes_t>(38);
  for (const auto pointer :
       {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
        CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER,
        CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, attribute_29, attribute_30, attribute_36,
        attribute_38}) {
    d_.set<const void*>(pointer, memory);
    EXPECT_FALSE(call()) << pointer;
    d_.unset(pointer);
  }
  for (const auto& [attribute, value] :
       {std::pair{CUBLASLT_MATMUL_DESC_POINTER_MODE, 1},
        {CUBLASLT_MATMUL_DESC_FILL_MODE, int(CUBLAS_FILL_MODE_LOWER)},
        {CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, 64},
        {CUBLASLT_MATMUL_DESC_TRANSC, int(CUBLAS_OP_T)}}) {
    d_.set<std::int32_t>(attribute, value);
    EXPECT_FALSE(call()) << attribute;
    d_.unset(attribute);
  }
  EXPECT_TRUE(call());
  b_.set<std::int32_t>(CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_COL32);
  EXPECT_FALSE(call());
  layout(b_, 40, 31, 56);
  EXPECT_FALSE(call()) << "sizes that do not fit";
  layout(b_, 40, 30, 56);
  b_.set<std::int32_t>(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 2);
  EXPECT_FALSE(call()) << "one A for several B";
}

}  // namespace kiln::cublas_call_test
