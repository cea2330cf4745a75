// What the largest magnitude of D may be (Gemm::amax_d), by the elements that are expected and by
// those that a run left in D. Knows the arithmetic; knows no memory.
#pragma once

#include <string>

#include "kiln/dtype.hpp"

namespace kiln {

/// Elements of D that are expected: the largest magnitude lies between two of fp32, or is NaN.
class ExpectedAmax {
 public:
  /// `value` within `error`, before it is rounded to D's type.
  void add(double value, double error);
  /// Whether a right kernel may have found this one. `whole`: every element of D was added, so it
  /// cannot be larger than they allow.
  bool accepts(float amax, bool whole) const;
  std::string text() const;

 private:
  bool nan_ = false;
  float least_ = 0, most_ = 0;
};

/// Elements that a run left in D, or codes of them that share a scale.
class StoredAmax {
 public:
  void add(double element);
  double largest() const { return largest_; }
  /// Whether values, of which `amax` is the largest magnitude, may have been rounded to these.
  /// `scale`: of codes, by which they were divided; else 1.
  bool may_follow(DType type, float amax, float scale) const;
  /// Whether one of them is what `amax` is rounded to.
  bool holds(DType type, float amax, float scale) const;

 private:
  bool nan_ = false;
  double largest_ = 0;
};

}  // namespace kiln
