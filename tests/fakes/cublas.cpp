#include "fakes/cublas.h"

#include <sstream>

namespace {

using kiln::test::FakeAttributes;
using kiln::test::FakeHandle;

std::string& noted() {
  static std::string all;
  return all;
}

/// The library's answer to a negative m, which is the first number of every product.
template <typename... Arguments>
cublasStatus_t note(const char* name, std::int64_t m, const Arguments&... arguments) {
  std::ostringstream line;
  line << name << ' ' << m;
  ((line << ' ' << arguments), ...);
  noted() += line.str() + '\n';
  return m < 0 ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

const FakeHandle& of(cublasHandle_t handle) { return *reinterpret_cast<const FakeHandle*>(handle); }

}  // namespace

extern "C" {

const char* fake_cublas_calls() {
  static std::string given;
  given = std::exchange(noted(), {});
  return given.c_str();
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  *stream = of(handle).stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  *mode = of(handle).pointers;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  *mode = of(handle).math;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetSmCountTarget(cublasHandle_t handle, int* count) {
  *count = of(handle).multiprocessors;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t from,
                                              cublasLtMatmulDescAttributes_t which, void* to,
                                              std::size_t bytes, std::size_t* written) {
  return reinterpret_cast<const FakeAttributes*>(from)->get(which, to, bytes, written);
}
cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t from,
                                                cublasLtMatrixLayoutAttribute_t which, void* to,
                                                std::size_t bytes, std::size_t* written) {
  return reinterpret_cast<const FakeAttributes*>(from)->get(which, to, bytes, written);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t layout_a,
                              const void* b, cublasLtMatrixLayout_t layout_b, const void* beta,
                              const void* c, cublasLtMatrixLayout_t layout_c, void* d,
                              cublasLtMatrixLayout_t layout_d,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t bytes, cudaStream_t stream) {
  return note("cublasLtMatmul", 0, handle, description, alpha, a, layout_a, b, layout_b, beta, c,
              layout_c, d, layout_d, algorithm, workspace, bytes, stream);
}

#define FAKE_PLAIN(NAME, INT, T)                                                                \
  cublasStatus_t NAME(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, INT m, \
                      INT n, INT k, const T* alpha, const T* a, INT lda, const T* b, INT ldb,   \
                      const T* beta, T* c, INT ldc) {                                           \
    return note(#NAME, m, handle, ta, tb, n, k, alpha, a, lda, b, ldb, beta, c, ldc);           \
  }
#define FAKE_BATCHED(NAME, INT, T)                                                               \
  cublasStatus_t NAME(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, INT m,  \
                      INT n, INT k, const T* alpha, const T* a, INT lda, long long stride_a,     \
                      const T* b, INT ldb, long long stride_b, const T* beta, T* c, INT ldc,     \
                      long long stride_c, INT batch) {                                           \
    return note(#NAME, m, handle, ta, tb, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, \
                c, ldc, stride_c, batch);                                                        \
  }
#define FAKE_EX(NAME, INT)                                                                      \
  cublasStatus_t NAME(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, INT m, \
                      INT n, INT k, const void* alpha, const void* a, cudaDataType type_a,      \
                      INT lda, const void* b, cudaDataType type_b, INT ldb, const void* beta,   \
                      void* c, cudaDataType type_c, INT ldc, cublasComputeType_t compute,       \
                      cublasGemmAlgo_t algorithm) {                                             \
    return note(#NAME, m, handle, ta, tb, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, c, \
                type_c, ldc, compute, algorithm);                                               \
  }
#define FAKE_BATCHED_EX(NAME, INT)                                                                 \
  cublasStatus_t NAME(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, INT m,    \
                      INT n, INT k, const void* alpha, const void* a, cudaDataType type_a,         \
                      INT lda, long long stride_a, const void* b, cudaDataType type_b, INT ldb,    \
                      long long stride_b, const void* beta, void* c, cudaDataType type_c, INT ldc, \
                      long long stride_c, INT batch, cublasComputeType_t compute,                  \
                      cublasGemmAlgo_t algorithm) {                                                \
    return note(#NAME, m, handle, ta, tb, n, k, alpha, a, type_a, lda, stride_a, b, type_b, ldb,   \
                stride_b, beta, c, type_c, ldc, stride_c, batch, compute, algorithm);              \
  }
#define FAKE_BOTH(KIND, NAME, ...)           \
  KIND(NAME, int __VA_OPT__(, ) __VA_ARGS__) \
  KIND(NAME##_64, std::int64_t __VA_OPT__(, ) __VA_ARGS__)

FAKE_BOTH(FAKE_PLAIN, cublasSgemm_v2, float)
FAKE_BOTH(FAKE_PLAIN, cublasDgemm_v2, double)
FAKE_BOTH(FAKE_PLAIN, cublasHgemm, __half)
FAKE_BOTH(FAKE_BATCHED, cublasSgemmStridedBatched, float)
FAKE_BOTH(FAKE_BATCHED, cublasDgemmStridedBatched, double)
FAKE_BOTH(FAKE_BATCHED, cublasHgemmStridedBatched, __half)
FAKE_BOTH(FAKE_EX, cublasGemmEx)
FAKE_BOTH(FAKE_BATCHED_EX, cublasGemmStridedBatchedEx)

}  // extern "C"
