#include "tuner/measure/gpu_clocks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "runtime/timer.h"

namespace kiln {
namespace {

/// Clocks move in steps of 15 MHz, under a hundredth of what they are; a power-limited card is
/// expected to take a few of them at a time, which averages out over samples. Waking from idleness
/// multiplies the clock, and a brake at least halves it (NVML's manual): a sample across either is
/// the mean of two speeds. Where between them the line lies has not been measured.
constexpr double kChange = 0.1;
constexpr int kFreeRepeats = 3;
/// Power and temperature are averages of the driver's and cost it more to find than a clock.
constexpr std::int64_t kLookNs = 50'000'000;

bool differ(int before_mhz, int after_mhz) {
  return before_mhz > 0 && after_mhz > 0 &&
         std::abs(after_mhz - before_mhz) > kChange * std::max(before_mhz, after_mhz);
}

}  // namespace

ClockWatch::ClockWatch(const gpu::Telemetry* sensors) : sensors_(sensors) {}

void ClockWatch::before_sample() {
  if (sensors_ != nullptr) before_mhz_ = sensors_->sm_mhz();
}

bool ClockWatch::sample_stands() {
  if (sensors_ == nullptr) return true;
  const int after_mhz = sensors_->sm_mhz();
  if (looked_ns_ == 0 || now_ns() - looked_ns_ > kLookNs) look_around();
  if (differ(before_mhz_, after_mhz)) {
    if (seen_.settled && seen_.dropped < stood_ + kFreeRepeats) {
      ++seen_.dropped;
      return false;
    }
    seen_.settled = false;
  }
  ++stood_;
  for (const int mhz : {before_mhz_, after_mhz})
    if (mhz > 0) clocks_.push_back(mhz);
  return true;
}

int ClockWatch::read_under_load() {
  if (sensors_ == nullptr) return 0;
  const int mhz = sensors_->sm_mhz();
  look_around();
  if (mhz > 0) clocks_.push_back(mhz);
  return mhz;
}

void ClockWatch::look_around() {
  const gpu::Reading reading = sensors_->read();
  seen_.memory_mhz = std::max(seen_.memory_mhz, reading.memory_mhz);
  seen_.watts = std::max(seen_.watts, reading.watts);
  seen_.celsius = std::max(seen_.celsius, reading.celsius);
  seen_.reasons |= reading.reasons;
  looked_ns_ = now_ns();
}

GpuConditions ClockWatch::conditions() {
  if (clocks_.empty()) return {};
  look_around();
  std::sort(clocks_.begin(), clocks_.end());
  seen_.readings = static_cast<int>(clocks_.size());
  seen_.sm_low_mhz = clocks_.front();
  seen_.sm_median_mhz = clocks_[clocks_.size() / 2];
  seen_.sm_high_mhz = clocks_.back();
  return seen_;
}

std::string text(const GpuConditions& c) {
  if (c.readings == 0) return {};
  std::string out =
      fmt::format("{}SM clock {} to {} MHz, median {}", c.under_load ? "under load, " : "",
                  c.sm_low_mhz, c.sm_high_mhz, c.sm_median_mhz);
  if (c.memory_mhz > 0) out += fmt::format("; memory {} MHz", c.memory_mhz);
  if (c.watts > 0) out += fmt::format("; at most {:.0f} W", c.watts);
  if (c.celsius > 0) out += fmt::format("; at most {} C", c.celsius);
  if (const auto slow = gpu::slowdowns(c.reasons); !slow.empty())
    out += fmt::format("; slowed by {}", fmt::join(slow, ", "));
  if (c.dropped > 0) out += fmt::format("; {} samples across a clock change dropped", c.dropped);
  if (!c.settled)
    out += c.under_load ? "; it had not settled when the race began"
                        : "; it never settled, so later ones were kept";
  return out;
}

}  // namespace kiln
