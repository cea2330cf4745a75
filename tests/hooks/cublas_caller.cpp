// A program that calls every hooked function of cuBLAS on a machine without a GPU. cublas_hook_test
// runs it with the hook preloaded: it exits with 0 where the library behind the hook saw each call
// once, as it was made, and its answers came back.
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string>

#include "fakes/cublas.h"

namespace {

bool all_good = true;

void expect(cublasStatus_t status, cublasStatus_t wanted, const std::string& line) {
  const std::string calls = fake_cublas_calls();
  if (status == wanted && calls == line + '\n') return;
  all_good = false;
  std::printf("status %d, not %d; wanted: %s\ngot:    %s\n", status, wanted, line.c_str(),
              calls.c_str());
}

template <typename... Arguments>
std::string line(const char* name, const Arguments&... arguments) {
  std::ostringstream text;
  text << name;
  ((text << ' ' << arguments), ...);
  return text.str();
}

kiln::test::FakeHandle handle_value;
const auto handle = reinterpret_cast<cublasHandle_t>(&handle_value);
const auto ta = CUBLAS_OP_T, tb = CUBLAS_OP_N;
constexpr auto kBad = CUBLAS_STATUS_INVALID_VALUE, kGood = CUBLAS_STATUS_SUCCESS;
float memory[4];  // addresses; nothing reads what is there

template <typename T, typename Int>
void plain(const char* name,
           cublasStatus_t (*call)(cublasHandle_t, cublasOperation_t, cublasOperation_t, Int, Int,
                                  Int, const T*, const T*, Int, const T*, Int, const T*, T*, Int)) {
  const T one(1), zero(0);
  T* const at = reinterpret_cast<T*>(memory);
  for (const int m : {5, -5})
    expect(call(handle, ta, tb, m, 6, 7, &one, at, 8, at + 1, 9, &zero, at, 10),
           m < 0 ? kBad : kGood,
           line(name, m, handle, ta, tb, 6, 7, &one, at, 8, at + 1, 9, &zero, at, 10));
}

template <typename T, typename Int>
void batched(const char* name,
             cublasStatus_t (*call)(cublasHandle_t, cublasOperation_t, cublasOperation_t, Int, Int,
                                    Int, const T*, const T*, Int, long long, const T*, Int,
                                    long long, const T*, T*, Int, long long, Int)) {
  const T one(1), zero(0);
  T* const at = reinterpret_cast<T*>(memory);
  expect(
      call(handle, ta, tb, 5, 6, 7, &one, at, 8, 100, at + 1, 9, 200, &zero, at, 10, 300, 3), kGood,
      line(name, 5, handle, ta, tb, 6, 7, &one, at, 8, 100, at + 1, 9, 200, &zero, at, 10, 300, 3));
}

template <typename Int>
void ex(const char* name,
        cublasStatus_t (*call)(cublasHandle_t, cublasOperation_t, cublasOperation_t, Int, Int, Int,
                               const void*, const void*, cudaDataType, Int, const void*,
                               cudaDataType, Int, const void*, void*, cudaDataType, Int,
                               cublasComputeType_t, cublasGemmAlgo_t)) {
  const float one = 1, zero = 0;
  expect(call(handle, ta, tb, 5, 6, 7, &one, memory, CUDA_R_16BF, 8, memory, CUDA_R_16BF, 9, &zero,
              memory, CUDA_R_16BF, 10, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
         kGood,
         line(name, 5, handle, ta, tb, 6, 7, static_cast<const void*>(&one),
              static_cast<const void*>(memory), CUDA_R_16BF, 8, static_cast<const void*>(memory),
              CUDA_R_16BF, 9, static_cast<const void*>(&zero), static_cast<void*>(memory),
              CUDA_R_16BF, 10, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

template <typename Int>
void batched_ex(const char* name,
                cublasStatus_t (*call)(cublasHandle_t, cublasOperation_t, cublasOperation_t, Int,
                                       Int, Int, const void*, const void*, cudaDataType, Int,
                                       long long, const void*, cudaDataType, Int, long long,
                                       const void*, void*, cudaDataType, Int, long long, Int,
                                       cublasComputeType_t, cublasGemmAlgo_t)) {
  const float one = 1, zero = 0;
  expect(
      call(handle, ta, tb, 5, 6, 7, &one, memory, CUDA_R_16F, 8, 100, memory, CUDA_R_16F, 9, 200,
           &zero, memory, CUDA_R_16F, 10, 300, 3, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
      kGood,
      line(name, 5, handle, ta, tb, 6, 7, static_cast<const void*>(&one),
           static_cast<const void*>(memory), CUDA_R_16F, 8, 100, static_cast<const void*>(memory),
           CUDA_R_16F, 9, 200, static_cast<const void*>(&zero), static_cast<void*>(memory),
           CUDA_R_16F, 10, 300, 3, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

void light() {
  kiln::test::FakeAttributes description, layout;
  const auto d = reinterpret_cast<cublasLtMatmulDesc_t>(&description);
  const auto l = reinterpret_cast<cublasLtMatrixLayout_t>(&layout);
  const auto h = reinterpret_cast<cublasLtHandle_t>(&handle_value);
  const float one = 1, zero = 0;
  const auto at = [](int i) { return static_cast<void*>(memory + i); };
  cublasLtMatmulAlgo_t algorithm{};
  expect(cublasLtMatmul(h, d, &one, at(0), l, at(1), l, &zero, at(2), l, at(3), l, &algorithm,
                        at(1), 12, nullptr),
         kGood,
         line("cublasLtMatmul", 0, h, d, static_cast<const void*>(&one), at(0), l, at(1), l,
              static_cast<const void*>(&zero), at(2), l, at(3), l, &algorithm, at(1), 12,
              static_cast<void*>(nullptr)));
}

}  // namespace

int main() {
  plain<float, int>("cublasSgemm_v2", cublasSgemm_v2);
  plain<float, std::int64_t>("cublasSgemm_v2_64", cublasSgemm_v2_64);
  plain<double, int>("cublasDgemm_v2", cublasDgemm_v2);
  plain<double, std::int64_t>("cublasDgemm_v2_64", cublasDgemm_v2_64);
  plain<__half, int>("cublasHgemm", cublasHgemm);
  plain<__half, std::int64_t>("cublasHgemm_64", cublasHgemm_64);
  batched<float, int>("cublasSgemmStridedBatched", cublasSgemmStridedBatched);
  batched<float, std::int64_t>("cublasSgemmStridedBatched_64", cublasSgemmStridedBatched_64);
  batched<double, int>("cublasDgemmStridedBatched", cublasDgemmStridedBatched);
  batched<double, std::int64_t>("cublasDgemmStridedBatched_64", cublasDgemmStridedBatched_64);
  batched<__half, int>("cublasHgemmStridedBatched", cublasHgemmStridedBatched);
  batched<__half, std::int64_t>("cublasHgemmStridedBatched_64", cublasHgemmStridedBatched_64);
  ex<int>("cublasGemmEx", cublasGemmEx);
  ex<std::int64_t>("cublasGemmEx_64", cublasGemmEx_64);
  batched_ex<int>("cublasGemmStridedBatchedEx", cublasGemmStridedBatchedEx);
  batched_ex<std::int64_t>("cublasGemmStridedBatchedEx_64", cublasGemmStridedBatchedEx_64);
  light();
  handle_value.pointers = CUBLAS_POINTER_MODE_DEVICE;  // then alpha is not read
  const float* const nowhere = nullptr;
  expect(
      cublasSgemm_v2(handle, ta, tb, 5, 6, 7, nowhere, memory, 8, memory, 9, nowhere, memory, 10),
      kGood,
      line("cublasSgemm_v2", 5, handle, ta, tb, 6, 7, nowhere, memory, 8, memory, 9, nowhere,
           memory, 10));
  std::puts(all_good ? "all calls arrived" : "some did not");
  return all_good ? 0 : 1;
}
