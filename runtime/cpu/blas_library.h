// The system's BLAS library, opened at run time: which file, which build, and one product of it on
// a given number of threads. Raced beside kernels, timed by `kiln bench`, forwarded to by hooks.
// Knows nothing of timing.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "generator/families/cpu/library/config.h"
#include "generator/problem/problem.h"
#include "kiln/engine.hpp"
#include "kiln/error.hpp"

namespace kiln {

template <typename T>
using BlasGemmFn = void (*)(int, int, int, int, int, int, T, const T*, int, const T*, int, T, T*,
                            int);
template <typename T>
using BlasGemvFn = void (*)(int, int, int, int, T, const T*, int, const T*, int, T, T*, int);

/// A library that exports the CBLAS interface, open until the process ends.
struct Blas {
  std::string path;     // under which it was opened
  std::string version;  // "OpenBLAS 0.3.21"
  std::string note;     // its version and kernels, for people
  BlasLibrary identity;
  bool threads_can_be_set = false;

  /// The first of the files that loads. Errors: device (none loads; a symbol is missing;
  /// integers of 64 bits).
  static Result<std::shared_ptr<Blas>> open(const std::vector<std::string>& files);
  /// Nothing where it runs on one thread alone.
  void use_threads(int threads);

  BlasGemmFn<float> sgemm = nullptr;
  BlasGemmFn<double> dgemm = nullptr;
  BlasGemvFn<float> sgemv = nullptr;
  BlasGemvFn<double> dgemv = nullptr;
  std::function<void(int)> set_threads;
  int threads_now = 0;  // the library's current setting, so that repeated calls do not set it again
};

/// `file` in folders of the system's libraries where Debian keeps alternatives, then by its name.
std::vector<std::string> blas_files(const std::string& file,
                                    const std::vector<std::string>& folders);

/// $KILN_BLAS, else the best that is installed: OpenBLAS, BLIS, MKL, the reference BLAS; never
/// kiln's own hook, whatever its name. Opened once. Null: there is none.
const std::shared_ptr<Blas>& system_blas();

/// Whether BLAS has a routine for it: fp32 or fp64 throughout, no epilogue, sizes that fit an int.
bool blas_computes(const Gemm& gemm);

/// Calls of one problem, which `blas_computes`: D = op(A) * op(B), batch after batch.
class BlasProduct {
 public:
  /// `gemv`: a product with a vector goes to gemv, as whoever knows the library would call it.
  BlasProduct(std::shared_ptr<Blas> blas, Gemm gemm, int threads, bool gemv);
  void run(const Operands& operands) const;

 private:
  template <typename T>
  void run_as(const Operands& operands, BlasGemmFn<T> gemm, BlasGemvFn<T> gemv) const;

  std::shared_ptr<Blas> blas_;
  Problem problem_;
  int threads_;
  bool gemv_;
};

}  // namespace kiln
