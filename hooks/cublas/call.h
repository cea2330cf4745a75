// A call of cuBLAS or cuBLASLt as a problem of kiln. What cannot be said as one is passed on.
#pragma once

#include <cstdint>
#include <optional>

#include "hooks/cublas/real_library.h"
#include "kiln/kiln.hpp"

namespace kiln::hooks {

/// Everything but the stream and the device.
struct Call {
  Gemm gemm;
  Operands operands;
};

/// The arguments that all functions of cuBLAS for products have: column-major matrices, C is D.
/// Strides in elements.
struct CublasCall {
  cublasOperation_t transpose_a, transpose_b;
  std::int64_t m, n, k;
  const void* alpha;
  const void* a;
  cudaDataType_t type_a;
  std::int64_t lda;
  const void* b;
  cudaDataType_t type_b;
  std::int64_t ldb;
  const void* beta;
  void* c;
  cudaDataType_t type_c;
  std::int64_t ldc;
  cublasComputeType_t compute;
  std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
};

/// Nothing: kiln has no such problem. alpha and beta are read: they must be in host memory.
std::optional<Call> read_call(const CublasCall& call, cublasMath_t math_mode);

/// The same of a cublasLtMatmul().
struct LtCall {
  cublasLtMatmulDesc_t description;
  const void *alpha, *a;
  cublasLtMatrixLayout_t layout_a;
  const void* b;
  cublasLtMatrixLayout_t layout_b;
  const void *beta, *c;
  cublasLtMatrixLayout_t layout_c;
  void* d;
  cublasLtMatrixLayout_t layout_d;
};
std::optional<Call> read_call(const LtCall& call);

}  // namespace kiln::hooks
