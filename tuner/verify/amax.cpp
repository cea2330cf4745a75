#include "tuner/verify/amax.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "generator/problem/quantised_d.h"
#include "tuner/verify/view.h"

namespace kiln {

// A kernel's value is a number of fp32, or is rounded to one, which keeps the order.
void ExpectedAmax::add(double value, double error) {
  if (std::isnan(value)) {
    nan_ = true;
    return;
  }
  const double magnitude = std::fabs(value);
  least_ = std::max(least_, static_cast<float>(magnitude - error));
  most_ = std::max(most_, static_cast<float>(magnitude + error));
}

bool ExpectedAmax::accepts(float amax, bool whole) const {
  if (std::isnan(amax)) return nan_ || !whole;
  return !nan_ && amax >= least_ && (!whole || amax <= most_);
}

std::string ExpectedAmax::text() const {
  return nan_ ? "NaN" : fmt::format("{} to {}", least_, most_);
}

void StoredAmax::add(double element) {
  if (std::isnan(element))
    nan_ = true;
  else
    largest_ = std::max(largest_, std::fabs(element));
}

namespace {

/// What the magnitude is rounded to where the element is positive, or negative.
double rounded(DType type, float amax, float scale, double sign) {
  if (type == DType::fp64) return sign * amax;
  return round_to(type, sign * (scale == 1 ? amax : in_units(amax, scale)));
}

/// An fp64 is rounded itself.
double as_amax(DType type, double largest) {
  return type == DType::fp64 ? static_cast<float>(largest) : largest;
}

}  // namespace

bool StoredAmax::may_follow(DType type, float amax, float scale) const {
  if (std::isnan(amax)) return true;
  const double up = rounded(type, amax, scale, 1), down = rounded(type, amax, scale, -1);
  if (std::isnan(up)) return true;  // what has no infinity
  return !nan_ && as_amax(type, largest_) <= std::max(std::fabs(up), std::fabs(down));
}

bool StoredAmax::holds(DType type, float amax, float scale) const {
  if (std::isnan(amax)) return nan_ || !is_floating(type);
  const double up = rounded(type, amax, scale, 1), down = rounded(type, amax, scale, -1);
  if (std::isnan(up)) return nan_;
  const double largest = as_amax(type, largest_);
  return largest == std::fabs(up) || largest == std::fabs(down);
}

}  // namespace kiln
