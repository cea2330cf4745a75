#include "tuner/verify/accumulate.h"

#include <cmath>

namespace kiln {
namespace {

// One text for all instruction sets, inlined into a function compiled for each. Not target_clones:
// its resolvers run before the sanitizers' run-time libraries are up, and crash there.
[[gnu::always_inline]] inline void plain_body(const double* a, const double* b, double* sum,
                                              double* magnitude) {
  for (int j = 0; j < kPanelWidth; ++j) {
    double s = sum[j], g = magnitude[j];
    for (int q = 0; q < kPanelDepth; ++q) {
      const double product = a[q] * b[q * kPanelWidth + j];
      s += product;
      g += std::fabs(product);
    }
    sum[j] = s;
    magnitude[j] = g;
  }
}

[[gnu::always_inline]] inline void compensated_body(const double* a, const double* b, double* sum,
                                                    double* low, double* magnitude) {
  for (int q = 0; q < kPanelDepth; ++q) {
    const double* row = b + q * kPanelWidth;
    for (int j = 0; j < kPanelWidth; ++j) {
      const double product = a[q] * row[j];
      const double product_error = __builtin_fma(a[q], row[j], -product);
      // Knuth's two-sum: the exact error of one addition, whichever operand is larger.
      const double total = sum[j] + product;
      const double added = total - sum[j];
      const double sum_error = (sum[j] - (total - added)) + (product - added);
      sum[j] = total;
      low[j] += sum_error + product_error;
      magnitude[j] += std::fabs(product);
    }
  }
}

[[gnu::always_inline]] inline void integer_body(std::int32_t a, const std::int8_t* b,
                                                std::int32_t* sum, std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) sum[j] += a * b[j];
}

void plain_base(const double* a, const double* b, double* s, double* g) { plain_body(a, b, s, g); }
void compensated_base(const double* a, const double* b, double* s, double* l, double* g) {
  compensated_body(a, b, s, l, g);
}
void integer_base(std::int32_t a, const std::int8_t* b, std::int32_t* s, std::int64_t n) {
  integer_body(a, b, s, n);
}
constexpr Accumulators kBase{plain_base, compensated_base, integer_base};

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void plain_avx2(const double* a, const double* b, double* s,
                                            double* g) {
  plain_body(a, b, s, g);
}
[[gnu::target("avx2,fma")]] void compensated_avx2(const double* a, const double* b, double* s,
                                                  double* l, double* g) {
  compensated_body(a, b, s, l, g);
}
[[gnu::target("avx2,fma")]] void integer_avx2(std::int32_t a, const std::int8_t* b, std::int32_t* s,
                                              std::int64_t n) {
  integer_body(a, b, s, n);
}
constexpr Accumulators kAvx2{plain_avx2, compensated_avx2, integer_avx2};

#define KILN_AVX512 [[gnu::target("avx512f,avx512dq,avx512bw,fma,prefer-vector-width=512")]]
KILN_AVX512 void plain_avx512(const double* a, const double* b, double* s, double* g) {
  plain_body(a, b, s, g);
}
KILN_AVX512 void compensated_avx512(const double* a, const double* b, double* s, double* l,
                                    double* g) {
  compensated_body(a, b, s, l, g);
}
KILN_AVX512 void integer_avx512(std::int32_t a, const std::int8_t* b, std::int32_t* s,
                                std::int64_t n) {
  integer_body(a, b, s, n);
}
#undef KILN_AVX512
constexpr Accumulators kAvx512{plain_avx512, compensated_avx512, integer_avx512};
#endif

}  // namespace

const Accumulators& accumulators() {
#if defined(__x86_64__)
  static const Accumulators& widest =
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") ? kAvx512
      : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")        ? kAvx2
                                                                               : kBase;
  return widest;
#else
  return kBase;
#endif
}

}  // namespace kiln
