// The functions of cuBLAS and cuBLASLt that kiln computes itself where it is faster. Everything
// else about a call, wrong arguments too, is the library's.
#include <cstdint>

#include "hooks/common/once.h"
#include "hooks/cublas/call.h"
#include "hooks/cublas/real_library.h"
#include "hooks/cublas/served.h"

namespace kiln::hooks {
namespace {

/// A function of the library, found at its first call.
using Real = Once<void*>;

/// Calls the library's own function, whose arguments are `arguments` exactly.
template <typename Find, typename... Arguments>
cublasStatus_t pass_on(Real& real, Find find, const char* name, Arguments... arguments) {
  void* const function = real.get([&] { return find(name); });
  const PassingOn guard;
  return reinterpret_cast<cublasStatus_t (*)(Arguments...)>(function)(arguments...);
}

/// What the handle says about its calls.
struct Settings {
  cudaStream_t stream = nullptr;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
};

/// Nothing: alpha and beta are in device memory, or only some of the multiprocessors may be used.
std::optional<Settings> settings_of(cublasHandle_t handle) {
  const Getters& get = getters();
  Settings settings;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
  int multiprocessors = 0;
  if (handle == nullptr || get.pointer_mode(handle, &pointers) != CUBLAS_STATUS_SUCCESS ||
      pointers != CUBLAS_POINTER_MODE_HOST ||
      get.sm_count_target(handle, &multiprocessors) != CUBLAS_STATUS_SUCCESS ||
      multiprocessors != 0 || get.stream(handle, &settings.stream) != CUBLAS_STATUS_SUCCESS ||
      get.math_mode(handle, &settings.math_mode) != CUBLAS_STATUS_SUCCESS)
    return std::nullopt;
  return settings;
}

bool served(cublasHandle_t handle, const CublasCall& from) {
  if (PassingOn::now()) return false;
  const auto settings = settings_of(handle);
  if (!settings) return false;
  const auto call = read_call(from, settings->math_mode);
  return call && serve(*call, settings->stream);
}

}  // namespace
}  // namespace kiln::hooks

using kiln::hooks::cublas_function;
using kiln::hooks::pass_on;
using kiln::hooks::Real;
using kiln::hooks::served;

#define KILN_HOOK extern "C" [[gnu::visibility("default")]] cublasStatus_t CUBLASWINAPI

/// Functions whose matrices have one type.
#define KILN_PLAIN(NAME, INT, T, TYPE, COMPUTE)                                                    \
  KILN_HOOK NAME(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, INT m, INT n,  \
                 INT k, const T* alpha, const T* a, INT lda, const T* b, INT ldb, const T* beta,   \
                 T* c, INT ldc) {                                                                  \
    if (served(handle,                                                                             \
               {ta, tb, m, n, k, alpha, a, TYPE, lda, b, TYPE, ldb, beta, c, TYPE, ldc, COMPUTE})) \
      return CUBLAS_STATUS_SUCCESS;                                                                \
    static Real real;                                                                              \
    return pass_on(real, cublas_function, #NAME, handle, ta, tb, m, n, k, alpha, a, lda, b, ldb,   \
                   beta, c, ldc);                                                                  \
  }

#define KILN_BATCHED(NAME, INT, T, TYPE, COMPUTE)                                                  \
  KILN_HOOK NAME(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, INT m, INT n,  \
                 INT k, const T* alpha, const T* a, INT lda, long long stride_a, const T* b,       \
                 INT ldb, long long stride_b, const T* beta, T* c, INT ldc, long long stride_c,    \
                 INT batch) {                                                                      \
    if (served(handle,                                                                             \
               {ta,  tb,   m, n,    k,   alpha,   a,     TYPE,     lda,      b,       TYPE,        \
                ldb, beta, c, TYPE, ldc, COMPUTE, batch, stride_a, stride_b, stride_c}))           \
      return CUBLAS_STATUS_SUCCESS;                                                                \
    static Real real;                                                                              \
    return pass_on(real, cublas_function, #NAME, handle, ta, tb, m, n, k, alpha, a, lda, stride_a, \
                   b, ldb, stride_b, beta, c, ldc, stride_c, batch);                               \
  }

#define KILN_EX(NAME, INT)                                                                        \
  KILN_HOOK NAME(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, INT m, INT n, \
                 INT k, const void* alpha, const void* a, cudaDataType type_a, INT lda,           \
                 const void* b, cudaDataType type_b, INT ldb, const void* beta, void* c,          \
                 cudaDataType type_c, INT ldc, cublasComputeType_t compute,                       \
                 cublasGemmAlgo_t algorithm) {                                                    \
    if (served(handle, {ta, tb, m, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, c, type_c,  \
                        ldc, compute}))                                                           \
      return CUBLAS_STATUS_SUCCESS;                                                               \
    static Real real;                                                                             \
    return pass_on(real, cublas_function, #NAME, handle, ta, tb, m, n, k, alpha, a, type_a, lda,  \
                   b, type_b, ldb, beta, c, type_c, ldc, compute, algorithm);                     \
  }

#define KILN_BATCHED_EX(NAME, INT)                                                                \
  KILN_HOOK NAME(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, INT m, INT n, \
                 INT k, const void* alpha, const void* a, cudaDataType type_a, INT lda,           \
                 long long stride_a, const void* b, cudaDataType type_b, INT ldb,                 \
                 long long stride_b, const void* beta, void* c, cudaDataType type_c, INT ldc,     \
                 long long stride_c, INT batch, cublasComputeType_t compute,                      \
                 cublasGemmAlgo_t algorithm) {                                                    \
    if (served(handle,                                                                            \
               {ta,  tb,   m, n,      k,   alpha,   a,     type_a,   lda,      b,       type_b,   \
                ldb, beta, c, type_c, ldc, compute, batch, stride_a, stride_b, stride_c}))        \
      return CUBLAS_STATUS_SUCCESS;                                                               \
    static Real real;                                                                             \
    return pass_on(real, cublas_function, #NAME, handle, ta, tb, m, n, k, alpha, a, type_a, lda,  \
                   stride_a, b, type_b, ldb, stride_b, beta, c, type_c, ldc, stride_c, batch,     \
                   compute, algorithm);                                                           \
  }

#define KILN_BOTH(KIND, NAME, ...)           \
  KIND(NAME, int __VA_OPT__(, ) __VA_ARGS__) \
  KIND(NAME##_64, std::int64_t __VA_OPT__(, ) __VA_ARGS__)

KILN_BOTH(KILN_PLAIN, cublasSgemm_v2, float, CUDA_R_32F, CUBLAS_COMPUTE_32F)
KILN_BOTH(KILN_PLAIN, cublasDgemm_v2, double, CUDA_R_64F, CUBLAS_COMPUTE_64F)
KILN_BOTH(KILN_PLAIN, cublasHgemm, __half, CUDA_R_16F, CUBLAS_COMPUTE_16F)
KILN_BOTH(KILN_BATCHED, cublasSgemmStridedBatched, float, CUDA_R_32F, CUBLAS_COMPUTE_32F)
KILN_BOTH(KILN_BATCHED, cublasDgemmStridedBatched, double, CUDA_R_64F, CUBLAS_COMPUTE_64F)
KILN_BOTH(KILN_BATCHED, cublasHgemmStridedBatched, __half, CUDA_R_16F, CUBLAS_COMPUTE_16F)
KILN_BOTH(KILN_EX, cublasGemmEx)
KILN_BOTH(KILN_BATCHED_EX, cublasGemmStridedBatchedEx)

KILN_HOOK cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                         const void* alpha, const void* a, cublasLtMatrixLayout_t layout_a,
                         const void* b, cublasLtMatrixLayout_t layout_b, const void* beta,
                         const void* c, cublasLtMatrixLayout_t layout_c, void* d,
                         cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t* algorithm,
                         void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (!kiln::hooks::PassingOn::now() && handle != nullptr)
    if (const auto call = kiln::hooks::read_call(
            {description, alpha, a, layout_a, b, layout_b, beta, c, layout_c, d, layout_d}))
      if (serve(*call, stream)) return CUBLAS_STATUS_SUCCESS;
  static Real real;
  return pass_on(real, kiln::hooks::cublaslt_function, "cublasLtMatmul", handle, description, alpha,
                 a, layout_a, b, layout_b, beta, c, layout_c, d, layout_d, algorithm, workspace,
                 workspace_bytes, stream);
}
