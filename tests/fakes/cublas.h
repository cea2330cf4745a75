// A cuBLAS and cuBLASLt for the tests of the hook: they note what they are called with. Handles and
// descriptors are values of a test.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace kiln::test {

/// What a cublasHandle_t points to.
struct FakeHandle {
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  int multiprocessors = 0;
};

/// What descriptors of cuBLASLt point to: the attributes that were set.
class FakeAttributes {
 public:
  template <typename Value>
  void set(int which, Value value) {
    std::vector<char>& bytes = values_[which];
    bytes.resize(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
  }
  void unset(int which) { values_.erase(which); }
  cublasStatus_t get(int which, void* to, std::size_t bytes, std::size_t* written) const {
    const auto at = values_.find(which);
    if (at == values_.end() || at->second.size() != bytes) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(to, at->second.data(), bytes);
    *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
  }

 private:
  std::map<int, std::vector<char>> values_;
};

}  // namespace kiln::test

/// All calls since it was asked, a line for each: the function's name and its arguments.
extern "C" const char* fake_cublas_calls();
