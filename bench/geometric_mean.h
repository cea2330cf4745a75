// The mean that ratios have.
#pragma once

#include <algorithm>
#include <cmath>

namespace kiln {

/// Geometric mean of positive values.
class GeometricMean {
 public:
  void add(double value) {
    if (!(value > 0)) return;
    log_ += std::log(value);
    ++count_;
    least_ = count_ == 1 ? value : std::min(least_, value);
  }
  int count() const { return count_; }
  double least() const { return least_; }
  double value() const { return count_ ? std::exp(log_ / count_) : 0; }

 private:
  double log_ = 0, least_ = 0;
  int count_ = 0;
};

}  // namespace kiln
