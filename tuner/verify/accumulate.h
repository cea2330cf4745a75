// The reference's inner loops, once per instruction set of the machine it runs on. Each adds a
// panel of products to one line of sums; none knows the origin of the numbers.
#pragma once

#include <cstdint>

namespace kiln {

/// A panel is kPanelDepth values of `a` against as many rows of kPanelWidth doubles: 32 KiB, so
/// that it stays in L1 while every line passes over it.
inline constexpr int kPanelDepth = 16;
inline constexpr int kPanelWidth = 256;

struct Accumulators {
  /// sum[j] += a[q]*b[q][j] and magnitude[j] += |a[q]*b[q][j]|, in double.
  void (*plain)(const double* a, const double* b, double* sum, double* magnitude);
  /// The same with each sum as high + low (a double-double), for fp64 problems.
  void (*compensated)(const double* a, const double* b, double* sum, double* low,
                      double* magnitude);
  /// sum[j] += a * b[j] for j < n.
  void (*integer)(std::int32_t a, const std::int8_t* b, std::int32_t* sum, std::int64_t n);
};

/// The widest that this machine has.
const Accumulators& accumulators();

}  // namespace kiln
