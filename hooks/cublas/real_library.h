// The cuBLAS and cuBLASLt that the program has loaded: opened by name, for a library that was
// loaded locally (as Python loads extensions) is not among the next ones of the linker's search.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>

namespace kiln::hooks {

/// `name` of libcublas ($KILN_CUBLAS) or libcublasLt ($KILN_CUBLASLT), 13 before 12. Ends the
/// process with a message where there is no such library or function.
void* cublas_function(const char* name);
void* cublaslt_function(const char* name);

/// What is asked of handles and descriptors.
struct Getters {
  decltype(&cublasGetStream_v2) stream;
  decltype(&cublasGetPointerMode_v2) pointer_mode;
  decltype(&cublasGetMathMode) math_mode;
  decltype(&cublasGetSmCountTarget) sm_count_target;
};
const Getters& getters();

struct LtGetters {
  decltype(&cublasLtMatmulDescGetAttribute) matmul;
  decltype(&cublasLtMatrixLayoutGetAttribute) layout;
};
const LtGetters& lt_getters();

/// Ordinal of the GPU whose primary context is current on this thread; -1: another context is, or
/// none.
int current_gpu();

/// Set while a call is passed on: what cuBLAS calls itself then is its own affair.
class PassingOn {
 public:
  PassingOn() : before_(now_) { now_ = true; }
  ~PassingOn() { now_ = before_; }
  PassingOn(const PassingOn&) = delete;
  PassingOn& operator=(const PassingOn&) = delete;
  static bool now() { return now_; }

 private:
  static thread_local bool now_;
  const bool before_;
};

}  // namespace kiln::hooks
