// A BLAS library for the tests of the hook: slow, correct, and it counts who calls it. It has no
// function for bf16, batches or 64-bit integers.
#include <atomic>
#include <cctype>
#include <cstddef>

namespace {

std::atomic<int> calls{0}, complaints{0};
std::atomic<int> threads{1};

template <typename T>
void multiply(bool row_major, bool ta, bool tb, int m, int n, int k, T alpha, const T* a, int lda,
              const T* b, int ldb, T beta, T* c, int ldc) {
  ++calls;
  const auto at = [row_major](int i, int j, int ld) {
    return row_major ? std::size_t(i) * ld + j : std::size_t(j) * ld + i;
  };
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      T sum = 0;
      for (int l = 0; l < k; ++l)
        sum += a[ta ? at(l, i, lda) : at(i, l, lda)] * b[tb ? at(j, l, ldb) : at(l, j, ldb)];
      T& to = c[at(i, j, ldc)];
      to = alpha * sum + (beta == 0 ? 0 : beta * to);
    }
}

template <typename T>
void fortran(const char* ta, const char* tb, const int* m, const int* n, const int* k,
             const T* alpha, const T* a, const int* lda, const T* b, const int* ldb, const T* beta,
             T* c, const int* ldc) {
  const char la = static_cast<char>(std::toupper(*ta)), lb = static_cast<char>(std::toupper(*tb));
  if ((la != 'N' && la != 'T' && la != 'C') || (lb != 'N' && lb != 'T' && lb != 'C') || *m < 0) {
    ++complaints;
    return;
  }
  multiply(false, la != 'N', lb != 'N', *m, *n, *k, *alpha, a, *lda, b, *ldb, *beta, c, *ldc);
}

template <typename T>
void c_call(int order, int ta, int tb, int m, int n, int k, T alpha, const T* a, int lda,
            const T* b, int ldb, T beta, T* c, int ldc) {
  if ((order != 101 && order != 102) || m < 0) {
    ++complaints;
    return;
  }
  multiply(order == 101, ta != 111, tb != 111, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

}  // namespace

extern "C" {

void sgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k,
            const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
            const float* beta, float* c, const int* ldc) {
  fortran(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void dgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k,
            const double* alpha, const double* a, const int* lda, const double* b, const int* ldb,
            const double* beta, double* c, const int* ldc) {
  fortran(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float* a,
                 int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  c_call(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void cblas_dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double* a,
                 int lda, const double* b, int ldb, double beta, double* c, int ldc) {
  c_call(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void cblas_sgemv(int, int, int, int, float, const float*, int, const float*, int, float, float*,
                 int) {
  ++calls;
}
void cblas_dgemv(int, int, int, int, double, const double*, int, const double*, int, double,
                 double*, int) {
  ++calls;
}

/// Of other types and with more arguments than registers hold, to see that all arrive.
double ddot_(const int* n, const double* x, const int* step_x, const double* y, const int* step_y) {
  ++calls;
  double sum = 0;
  for (int i = 0; i < *n; ++i) sum += x[i * *step_x] * y[i * *step_y];
  return sum;
}
void cblas_dger(int order, int m, int n, double alpha, const double* x, int step_x, const double* y,
                int step_y, double* a, int lda) {
  ++calls;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j)
      a[order == 101 ? i * lda + j : j * lda + i] += alpha * x[i * step_x] * y[j * step_y];
}

#ifndef FAKE_BLAS_IS_AOCL
void openblas_set_num_threads(int count) { threads = count; }
int openblas_get_num_threads() { return threads; }
char* openblas_get_config() {
  static char text[] = "OpenBLAS 9.8.7 of a test";
  return text;
}
#endif

int fake_blas_calls() { return calls; }
int fake_blas_complaints() { return complaints; }

}  // extern "C"
