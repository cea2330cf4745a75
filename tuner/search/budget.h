// The time that a call of tune() may take: one object, which every stage of it asks. Knows no
// stage.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "runtime/timer.h"

namespace kiln {

/// How long after its budget a tune() may return.
inline constexpr double kGraceSeconds = 1;

/// Counts from its construction. Used by one thread.
class Budget {
 public:
  /// Monotonic nanoseconds; tests have one of their own.
  using Clock = std::function<std::int64_t()>;

  explicit Budget(double seconds, Clock clock = now_ns)
      : seconds_(seconds), clock_(std::move(clock)), begin_(clock_()) {}

  double seconds() const { return seconds_; }
  /// A search that continues others has what they left.
  void set(double seconds) { seconds_ = seconds; }
  double spent() const { return static_cast<double>(clock_() - begin_) * 1e-9; }
  /// Until it is over; 0 then.
  double left() const { return std::max(0.0, seconds_ - spent()); }
  bool over(double share = 1) const { return spent() >= share * seconds_; }
  /// Of the seconds after the budget in which what must be is brought to its end, so many are gone.
  bool late(double seconds) const { return spent() >= seconds_ + seconds; }
  /// Another process had the device: what was spent until now since `spent` does not count.
  void leave_out_since(double spent) {
    begin_ += static_cast<std::int64_t>((this->spent() - spent) * 1e9);
  }

 private:
  double seconds_;
  Clock clock_;
  std::int64_t begin_;
};

}  // namespace kiln
