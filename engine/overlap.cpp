#include "engine/overlap.h"

#include <algorithm>
#include <numeric>

namespace kiln {
namespace {

// Beyond this the check would cost more than small products do.
constexpr std::int64_t kMaxSteps = 1 << 20;

/// Everything of both repeats with period `g`: when the runs, folded into one period, stay apart,
/// so do the matrices. This settles blocks of columns and heads that lie side by side.
bool apart_modulo(const Bytes2d& x, const Bytes2d& y) {
  std::int64_t g = 0;
  for (const Bytes2d* matrix : {&x, &y}) {
    if (matrix->lines > 1) g = std::gcd(g, matrix->pitch);
    if (matrix->batch > 1) g = std::gcd(g, matrix->stride);
  }
  if (g == 0) return x.first + x.width <= y.first || y.first + y.width <= x.first;
  const std::int64_t offset = ((y.first - x.first) % g + g) % g;
  return offset >= x.width && offset + y.width <= g;
}

/// Whether any line of one batch of `x`, whose first byte is `first`, meets [low, high).
bool meets(const Bytes2d& x, std::int64_t first, std::int64_t low, std::int64_t high) {
  if (x.pitch == 0 || x.lines == 1) return first < high && first + x.width > low;
  // Line i meets when first + i·pitch < high and first + i·pitch + width > low.
  if (first >= high) return false;
  const std::int64_t last = std::min(x.lines - 1, (high - 1 - first) / x.pitch);
  return first + last * x.pitch + x.width > low;
}

}  // namespace

bool share_bytes(const Bytes2d& x, const Bytes2d& y) {
  if (x.width == 0 || y.width == 0 || x.lines == 0 || y.lines == 0) return false;
  if (apart_modulo(x, y)) return false;
  std::int64_t steps = 0;
  for (std::int64_t b = 0; b < y.batch; ++b)
    for (std::int64_t i = 0; i < y.lines; ++i) {
      const std::int64_t low = y.first + b * y.stride + i * y.pitch;
      for (std::int64_t other = 0; other < x.batch; ++other) {
        if (meets(x, x.first + other * x.stride, low, low + y.width)) return true;
        if (++steps == kMaxSteps) return false;
      }
    }
  return false;
}

}  // namespace kiln
