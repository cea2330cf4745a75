#include "runtime/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cpu.h"
#include "runtime/timer.h"

namespace kiln {
namespace {

using testing::HasSubstr;

TEST(Timer, CallsForABatch) {
  EXPECT_EQ(calls_for(100, 10000, 1000), 100);
  EXPECT_EQ(calls_for(100, 10000, 50), 50);
  EXPECT_EQ(calls_for(1e9, 10000, 50), 1);
  EXPECT_EQ(calls_for(0, 10000, 50), 50);
}

TEST(Timer, TimesAndCountsTheCalls) {
  int calls = 0;
  const auto wait = [&calls] {
    ++calls;
    const std::int64_t until = now_ns() + 20'000;
    while (now_ns() < until) {
    }
  };
  EXPECT_GE(time_calls(wait, 10), 20'000);
  EXPECT_EQ(calls, 10);
  time_calls(wait, 0);
  EXPECT_EQ(calls, 11);
}

TEST(Timer, CalibrationNeverPassesTheTarget) {
  const auto wait = [] {
    const std::int64_t until = now_ns() + 10'000;
    while (now_ns() < until) {
    }
  };
  // A call lasts 10 µs or, disturbed, longer: the batch can only come out shorter.
  const std::int64_t calls = calibrate_calls(wait, 200'000);
  EXPECT_GE(calls, 1);
  EXPECT_LE(calls, 20);
  EXPECT_EQ(calibrate_calls(wait, 1e12, 4), 4);
}

TEST(SpeedGate, IsAShareOfTheBest) {
  for (int threads : {1, 2}) {
    SpeedGate gate(threads);
    EXPECT_EQ(gate.sample(), 1) << "the first is its own best";
    for (int i = 0; i < 100; ++i) {
      const double speed = gate.sample();
      ASSERT_GT(speed, 0);
      ASSERT_LE(speed, 1);
      ASSERT_GT(gate.last_ns(), 1000);
    }
  }
}

TEST(Limits, AreOfAPlausibleSize) {
  for (DType type : {fp32, fp64}) {
    const auto peak = fma_peak(type, 1);
    ASSERT_TRUE(peak) << peak.error().message;
    EXPECT_GT(*peak, 1e7) << name(type);
    EXPECT_LT(*peak, 1e12) << name(type) << ": the loop was optimised away";
  }
  const auto bandwidth = read_bandwidth(16 << 20, 2);
  ASSERT_TRUE(bandwidth) << bandwidth.error().message;
  EXPECT_GT(*bandwidth, 1e7);
  EXPECT_LT(*bandwidth, 1e13);
}

TEST(Limits, ErrorsNameTheValue) {
  EXPECT_THAT(fma_peak(bf16, 1).error().message, HasSubstr("type = bf16"));
  EXPECT_THAT(read_bandwidth(5, 1).error().message, HasSubstr("bytes = 5"));
  EXPECT_THAT(read_bandwidth(std::int64_t{1} << 60, 1).error().message,
              HasSubstr("1152921504606846976"));
}

}  // namespace
}  // namespace kiln
