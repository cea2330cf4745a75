// What IEEE 754 and BLAS promise beyond the size of an error, checked with plain loops and apart
// from the verifier: NaN and infinity reach exactly the elements they should, C is not touched when
// beta is 0, and A and B are not touched when there is no k.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "generator/space/space.h"
#include "support/attempt.h"
#include "support/compiled.h"
#include "support/space.h"

namespace kiln::ieee_test {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// Memory that faults at any touch.
class Unreadable {
 public:
  explicit Unreadable(std::size_t bytes)
      : bytes_(bytes), data_(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Unreadable() { munmap(data_, bytes_); }
  void* data() const { return data_ == MAP_FAILED ? nullptr : data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

/// One config of every family and instruction set that this CPU runs for the problem.
std::vector<Config> one_of_each(const SearchSpace& space) {
  std::vector<Config> chosen;
  std::vector<std::pair<std::string_view, std::optional<std::int32_t>>> seen;
  for (const auto& config : space.legal) {
    const std::optional<std::int32_t> isa = value_of_key(config, "isa");
    const auto kind = std::pair(family_name(config), isa);
    if (std::find(seen.begin(), seen.end(), kind) != seen.end()) continue;
    seen.push_back(kind);
    chosen.push_back(config);
  }
  return chosen;
}

/// Calls `body(kernel, label)` for one kernel of each kind; returns how many there were.
template <typename Body>
int for_each_kernel(const Gemm& gemm, Body&& body) {
  test::Attempt attempt;
  auto device = detect_cpu(1).value();
  const auto space = test::space_of(gemm, device).value();
  int count = 0;
  for (const auto& config : one_of_each(space)) {
    const std::string label = text(gemm) + " | " + text(config);
    attempt.at(label);
    auto kernel = test::compiled(gemm, device, config);
    EXPECT_TRUE(kernel) << label << ": " << kernel.error().message;
    if (!kernel) continue;
    body(*kernel, label);
    ++count;
  }
  return count;
}

std::vector<Gemm> layouts(std::int64_t m, std::int64_t n, std::int64_t k) {
  const auto plain = Gemm::row_major(m, n, k);
  return {plain, plain.transpose_b(), plain.transpose_a(), Gemm::column_major(m, n, k)};
}

/// Where op(A)(i, p) lies in a tight A.
std::size_t at_a(const Gemm& g, std::int64_t i, std::int64_t p) {
  const bool along_k = (g.a.order == Order::row_major) != g.a.transposed;
  return static_cast<std::size_t>(along_k ? i * g.lda() + p : p * g.lda() + i);
}
std::size_t at_b(const Gemm& g, std::int64_t p, std::int64_t j) {
  const bool along_n = (g.b.order == Order::row_major) != g.b.transposed;
  return static_cast<std::size_t>(along_n ? p * g.ldb() + j : j * g.ldb() + p);
}
std::size_t at_d(const Gemm& g, std::int64_t i, std::int64_t j) {
  return static_cast<std::size_t>(g.d.order == Order::row_major ? i * g.ldd() + j
                                                                : j * g.ldd() + i);
}

TEST(Ieee, NanAndInfinityReachTheirRowAndColumnOnly) {
  constexpr int m = 19, n = 37, k = 29;
  int kernels = 0;
  for (const auto& g : layouts(m, n, k)) {
    std::vector<float> a(m * k, 0.5f), b(k * n, 2.0f), d(m * n);
    a[at_a(g, 4, 11)] = kNan;   // all of row 4
    b[at_b(g, 3, 30)] = kInf;   // all of column 30
    a[at_a(g, 9, 28)] = -kInf;  // all of row 9, and Inf - Inf = NaN where it meets column 30
    a[at_a(g, 17, 3)] = 0.0f;   // 0 * Inf = NaN in column 30
    kernels += for_each_kernel(g, [&](BoundKernel& kernel, const std::string& label) {
      std::fill(d.begin(), d.end(), 123.0f);
      ASSERT_TRUE(kernel.run({.a = a.data(), .b = b.data(), .d = d.data()})) << label;
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
          double want = 0;
          for (int p = 0; p < k; ++p)
            want += static_cast<double>(a[at_a(g, i, p)]) * static_cast<double>(b[at_b(g, p, j)]);
          const float got = d[at_d(g, i, j)];
          if (std::isnan(want))
            ASSERT_TRUE(std::isnan(got)) << label << " d(" << i << "," << j << ") = " << got;
          else
            ASSERT_EQ(got, static_cast<float>(want)) << label << " d(" << i << "," << j << ")";
        }
    });
  }
  EXPECT_GE(kernels, 8);
}

TEST(Ieee, BetaZeroNeverReadsC) {
  constexpr int m = 21, n = 35, k = 17;
  const Unreadable c(1 << 20);
  ASSERT_NE(c.data(), nullptr);
  for (const auto& g : layouts(m, n, k)) {
    const std::vector<float> a(m * k, 1.0f), b(k * n, 2.0f);
    std::vector<float> d(m * n);
    for_each_kernel(g, [&](BoundKernel& kernel, const std::string& label) {
      // D holds NaN before, so that 0 * D would show as well.
      std::fill(d.begin(), d.end(), kNan);
      ASSERT_TRUE(kernel.run(
          {.a = a.data(), .b = b.data(), .c = c.data(), .d = d.data(), .alpha = 3.0, .beta = 0.0}))
          << label;
      for (const float value : d) ASSERT_EQ(value, 3.0f * 2.0f * k) << label;
    });
  }
}

TEST(Ieee, WithoutAnyKThereIsOnlyC) {
  constexpr int m = 13, n = 18;
  const Unreadable nothing(1 << 20);
  for (const auto& g : layouts(m, n, 0)) {
    const std::vector<float> c(m * n, 1.5f);
    std::vector<float> d(m * n);
    const int kernels = for_each_kernel(g, [&](BoundKernel& kernel, const std::string& label) {
      std::fill(d.begin(), d.end(), kNan);
      ASSERT_TRUE(kernel.run(
          {.a = nothing.data(), .b = nothing.data(), .c = c.data(), .d = d.data(), .beta = -2.0}))
          << label;
      for (const float value : d) ASSERT_EQ(value, -3.0f) << label;
    });
    EXPECT_GE(kernels, 1);
  }
}

}  // namespace kiln::ieee_test
