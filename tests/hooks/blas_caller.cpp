// A program that calls BLAS and knows nothing of kiln. blas_hook_test runs it with the hook
// preloaded: "blas_caller WHAT" exits with 0 where all results were right, and prints how many
// calls the library behind the hook got.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

extern "C" {
void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*,
            const float*, const int*, const float*, const int*, const float*, float*, const int*);
void cblas_sgemm(int, int, int, int, int, int, float, const float*, int, const float*, int, float,
                 float*, int);
void cblas_dgemm(int, int, int, int, int, int, double, const double*, int, const double*, int,
                 double, double*, int);
double ddot_(const int*, const double*, const int*, const double*, const int*);
void cblas_dger(int, int, int, double, const double*, int, const double*, int, double*, int);
void openblas_set_num_threads(int);
int fake_blas_calls();
int fake_blas_complaints();
}

namespace {

/// Small whole numbers, so that every order of summation gives the same bits.
template <typename T>
std::vector<T> numbers(std::size_t count, int seed) {
  std::vector<T> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<T>(int((i * 7 + seed) % 9) - 4);
  return all;
}

/// C = 2*op(A)*op(B) + 3*C by the library's rules, in the order and transposition given.
bool check_sgemm(int order, bool ta, bool tb, int m, int n, int k) {
  const int lda = (order == 101) == !ta ? k : m, ldb = (order == 101) == !tb ? n : k;
  const int ldc = order == 101 ? n : m;
  const auto a = numbers<float>(std::size_t(m) * k, 1), b = numbers<float>(std::size_t(k) * n, 2);
  auto c = numbers<float>(std::size_t(m) * n, 3);
  const auto before = c;
  cblas_sgemm(order, ta ? 112 : 111, tb ? 112 : 111, m, n, k, 2, a.data(), lda, b.data(), ldb, 3,
              c.data(), ldc);
  const auto at = [order](int i, int j, int ld) {
    return order == 101 ? std::size_t(i) * ld + j : std::size_t(j) * ld + i;
  };
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int l = 0; l < k; ++l)
        sum += a[ta ? at(l, i, lda) : at(i, l, lda)] * b[tb ? at(j, l, ldb) : at(l, j, ldb)];
      const std::size_t where = at(i, j, ldc);
      if (c[where] != 2 * sum + 3 * before[where]) return false;
    }
  return true;
}

bool products() {
  bool good = true;
  for (const int order : {101, 102})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const int m : {96, 17}) good &= check_sgemm(order, ta, tb, m, 80, 64);
  // The same as Fortran calls it.
  const int m = 80, n = 96, k = 64;
  const auto a = numbers<float>(std::size_t(m) * k, 4), b = numbers<float>(std::size_t(k) * n, 5);
  std::vector<float> c(std::size_t(m) * n), d(c);
  const float one = 1, zero = 0;
  sgemm_("N", "n", &m, &n, &k, &one, a.data(), &m, b.data(), &k, &zero, c.data(), &m);
  cblas_sgemm(102, 111, 111, m, n, k, 1, a.data(), m, b.data(), k, 0, d.data(), m);
  return good && c == d;
}

/// Of the hook alone: the library behind it has none.
template <typename Function>
Function from_hook(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

/// What the library behind has no functions for.
bool wide() {
  using Wide =
      void (*)(int, int, int, std::int64_t, std::int64_t, std::int64_t, float, const float*,
               std::int64_t, const float*, std::int64_t, float, float*, std::int64_t);
  using Batch = void (*)(int, int, int, int, int, int, float, const float*, int, int, const float*,
                         int, int, float, float*, int, int, int);
  const auto cblas_sgemm64_ = from_hook<Wide>("cblas_sgemm64_");
  const auto cblas_sgemm_batch_strided = from_hook<Batch>("cblas_sgemm_batch_strided");
  if (cblas_sgemm64_ == nullptr || cblas_sgemm_batch_strided == nullptr) return false;
  const std::int64_t m = 96, n = 80, k = 64;
  const auto a = numbers<float>(m * k, 1), b = numbers<float>(k * n, 2);
  std::vector<float> c(m * n), d(c), e(2 * m * n);
  cblas_sgemm64_(101, 111, 111, m, n, k, 1, a.data(), k, b.data(), n, 0, c.data(), n);
  cblas_sgemm(101, 111, 111, int(m), int(n), int(k), 1, a.data(), int(k), b.data(), int(n), 0,
              d.data(), int(n));
  // The same product twice.
  std::vector<float> a2(a), b2(b);
  a2.insert(a2.end(), a.begin(), a.end());
  b2.insert(b2.end(), b.begin(), b.end());
  cblas_sgemm_batch_strided(101, 111, 111, int(m), int(n), int(k), 1, a2.data(), int(k), int(m * k),
                            b2.data(), int(n), int(k * n), 0, e.data(), int(n), int(m * n), 2);
  const auto both_right = [&] {
    return std::vector<float>(e.begin(), e.begin() + m * n) == d &&
           std::vector<float>(e.begin() + m * n, e.end()) == d;
  };
  const bool strided = both_right();
  // One B for both.
  std::fill(e.begin(), e.end(), -1.0f);
  cblas_sgemm_batch_strided(101, 111, 111, int(m), int(n), int(k), 1, a2.data(), int(k), int(m * k),
                            b.data(), int(n), 0, 0, e.data(), int(n), int(m * n), 2);
  return c == d && strided && both_right();
}

/// Without alpha nothing of A and B is read, in functions that the library behind lacks, too: C is
/// scaled, and what lies between its lines and matrices stays.
bool without_alpha() {
  using Batch = void (*)(int, int, int, int, int, int, float, const float*, int, int, const float*,
                         int, int, float, float*, int, int, int);
  const auto cblas_sgemm_batch_strided = from_hook<Batch>("cblas_sgemm_batch_strided");
  if (cblas_sgemm_batch_strided == nullptr) return false;
  const int m = 3, n = 4, k = 5, batch = 2, ldc = 6, stride_c = 40;
  const std::vector<float> nan(100, std::nanf(""));
  bool good = true;
  for (const int order : {101, 102})
    for (const float beta : {0.0f, 1.0f, 2.0f})
      for (const int stride_b : {0, k * n}) {
        const int lines = order == 101 ? m : n, length = order == 101 ? n : m;
        const auto inside = [&](int at) {
          return at % stride_c < lines * ldc && at % stride_c % ldc < length;
        };
        std::vector<float> c(batch * stride_c, 3);
        if (beta == 0)
          for (int at = 0; at < batch * stride_c; ++at)
            if (inside(at)) c[at] = nan[0];
        const int lda = order == 101 ? k : m, ldb = order == 101 ? n : k;
        cblas_sgemm_batch_strided(order, 111, 111, m, n, k, 0, nan.data(), lda, m * k, nan.data(),
                                  ldb, stride_b, beta, c.data(), ldc, stride_c, batch);
        for (int at = 0; at < batch * stride_c; ++at) good &= c[at] == (inside(at) ? 3 * beta : 3);
      }
  return good;
}

bool others() {
  const auto x = numbers<double>(20, 1), y = numbers<double>(20, 2);
  const int n = 10, two = 2;
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += x[2 * i] * y[2 * i];
  bool good = ddot_(&n, x.data(), &two, y.data(), &two) == sum;
  good &= ddot_(&n, x.data(), &two, y.data(), &two) == sum;  // found by now
  std::vector<double> a(12);
  cblas_dger(101, 3, 4, 0.5, x.data(), 1, y.data(), 2, a.data(), 4);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) good &= a[i * 4 + j] == 0.5 * x[i] * y[2 * j];
  return good;
}

bool mistakes() {
  const int m = -1, n = 4;
  const float one = 1;
  float c[16] = {5};
  sgemm_("N", "N", &m, &n, &n, &one, c, &n, c, &n, &one, c, &n);
  sgemm_("X", "N", &n, &n, &n, &one, c, &n, c, &n, &one, c, &n);
  cblas_sgemm(100, 111, 111, 4, 4, 4, 1, c, 4, c, 4, 0, c, 4);
  return fake_blas_complaints() == 3 && c[0] == 5;
}

bool threads() {
  std::vector<std::thread> all;
  std::vector<char> good(4);
  for (int t = 0; t < 4; ++t)
    all.emplace_back([&good, t] {
      good[t] = 1;
      for (int i = 0; i < 50; ++i) good[t] &= check_sgemm(101, false, false, 96, 80, 64);
    });
  for (std::thread& one : all) one.join();
  return good == std::vector<char>(4, 1);
}

bool after_fork() {
  bool good = check_sgemm(101, false, false, 96, 80, 64);
  const pid_t child = fork();
  if (child == 0) _exit(check_sgemm(101, false, false, 96, 80, 64) ? 0 : 1);
  int status = 0;
  return good && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0 && check_sgemm(101, false, false, 96, 80, 64);
}

/// On two threads: a verdict for one says nothing of it.
bool two_threads() {
  openblas_set_num_threads(2);
  return check_sgemm(101, false, false, 96, 80, 64);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  bool good = false;
  if (what == "products") good = products();
  if (what == "one") good = check_sgemm(101, false, false, 96, 80, 64);
  if (what == "wide") good = wide();
  if (what == "without alpha") good = without_alpha();
  if (what == "others") good = others();
  if (what == "mistakes") good = mistakes();
  if (what == "threads") good = threads();
  if (what == "fork") good = after_fork();
  if (what == "two threads") good = two_threads();
  std::printf("%d calls\n", fake_blas_calls());
  return good ? 0 : 1;
}
