// What a D with scales may hold: codes, by the scale that lies beside them, and scales that follow
// from D, by the elements that share one. Knows the arithmetic; knows no memory.
#pragma once

#include "kiln/dtype.hpp"

namespace kiln {

/// Whether `code`, read from D, is what a right kernel may store of an element that is `value`
/// within `error` before it is divided by its scale.
bool accepts_code(DType type, double value, double error, float scale, double code);

/// Elements that share a scale which follows from them.
class SharedScale {
 public:
  explicit SharedScale(DType type) : type_(type) {}
  void add(double value, double error);
  /// Whether a right kernel may have stored this one.
  bool accepts(float scale) const;
  float least() const;
  float most() const;

 private:
  DType type_;
  float least_ = 0, most_ = 0;  // of the largest magnitude
};

}  // namespace kiln
