#include "tuner/verify/quantised.h"

#include <algorithm>
#include <cmath>

#include "generator/problem/quantised_d.h"
#include "tuner/verify/view.h"

namespace kiln {

// A kernel's value is a number of fp32 between value - error and value + error, so it lies between
// those two rounded to fp32, and what it is multiplied by and rounded to keeps that order.
bool accepts_code(DType type, double value, double error, float scale, double code) {
  const double low = round_to(type, in_units(static_cast<float>(value - error), scale));
  const double high = round_to(type, in_units(static_cast<float>(value + error), scale));
  if (std::isnan(low) || std::isnan(high)) return std::isnan(code);
  return code >= low && code <= high;
}

void SharedScale::add(double value, double error) {
  if (std::isnan(value)) return;
  const double magnitude = std::fabs(value);
  least_ = std::max(least_, static_cast<float>(magnitude - error));
  most_ = std::max(most_, static_cast<float>(magnitude + error));
}

bool SharedScale::accepts(float scale) const {
  if (scale == 1.0F && least_ / largest_code(type_) < kLeastScale) return true;
  return scale >= std::max(kLeastScale, least_ / largest_code(type_)) &&
         scale <= most_ / largest_code(type_);
}

float SharedScale::least() const { return scale_for(type_, least_); }
float SharedScale::most() const { return scale_for(type_, most_); }

}  // namespace kiln
