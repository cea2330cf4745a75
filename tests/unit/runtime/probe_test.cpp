#include "runtime/cpu/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "runtime/cpu/cpu.h"
#include "runtime/timer.h"

namespace kiln::probe_test {

using testing::HasSubstr;

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

TEST(SpeedGate, ItsPeakIsTheLargestSeen) {
  for (const DType type : {fp32, fp64}) {
    SpeedGate gate(2, type);
    EXPECT_EQ(gate.peak_flops(), 0) << "nothing ran yet";
    double before = 0;
    for (int i = 0; i < 50; ++i) {
      gate.sample();
      EXPECT_GE(gate.peak_flops(), before);
      before = gate.peak_flops();
    }
    EXPECT_GT(before, 1e7) << name(type);
    EXPECT_LT(before, 2e12) << name(type);
  }
  // An element of twice the width has half the lanes.
  EXPECT_LT(fma_peak(fp64, 1).value(), 0.8 * fma_peak(fp32, 1).value());
}

TEST(Limits, AreOfAPlausibleSize) {
  for (DType type : {fp32, fp64}) {
    const auto peak = fma_peak(type, 1);
    ASSERT_TRUE(peak) << peak.error().message;
    EXPECT_GT(*peak, 1e7) << name(type);
    EXPECT_LT(*peak, 1e12) << name(type) << ": the loop was optimised away";
  }
  for (DType type : {fp16, bf16, s8, u8}) {
    if (!has_fma_probe(type)) continue;
    const double peak = fma_peak(type, 1).value();
    EXPECT_GT(peak, 0.8 * fma_peak(fp32, 1).value()) << name(type);
    EXPECT_LT(peak, 1e13) << name(type) << ": the loop was optimised away";
  }
  const auto bandwidth = read_bandwidth(16 << 20, 2);
  ASSERT_TRUE(bandwidth) << bandwidth.error().message;
  EXPECT_GT(*bandwidth, 1e7);
  EXPECT_LT(*bandwidth, 1e13);
}

// Two vector units of 512 bits begin 64 operations of fp32 a cycle, a matrix unit 1024 of bf16.
TEST(Limits, MatrixUnitsArePeaksOfTheirTypes) {
  const CpuFeatures cpu = detect_cpu(1)->cpu;
  const double vector = fma_peak(fp32, 1).value();
  if (cpu.amx_bf16) {
    EXPECT_GT(fma_peak(bf16, 1).value(), 4 * vector);
  }
  if (cpu.amx_int8) {
    EXPECT_GT(fma_peak(s8, 1).value(), 8 * vector);
    EXPECT_GT(fma_peak(u8, 1).value(), 8 * vector);
  }
}

#if defined(__x86_64__)
/// Rows of this thread's tile 0; 0: none is configured.
[[gnu::target("amx-tile")]] int tile_rows() {
  alignas(64) std::array<std::uint8_t, 64> config{};
  // Said by hand: what the intrinsic writes its definition in GCC 12 does not say.
  asm volatile("sttilecfg %0" : "=m"(config));
  return config[48];
}

TEST(Limits, TilesAreReleasedAfterwards) {
  const CpuFeatures cpu = detect_cpu(1)->cpu;
  if (!cpu.amx_bf16 || !cpu.amx_int8) GTEST_SKIP() << "this CPU has no tiles";
  for (const DType type : {bf16, s8}) {
    SpeedGate gate(1, type);  // its one thread is this one
    gate.sample();
    EXPECT_EQ(tile_rows(), 0) << name(type);
  }
}
#endif

TEST(Limits, CachesAreFasterTheNearerTheyAre) {
  const DeviceCaps device = detect_cpu(1).value();
  const double l1 = cache_bandwidth(device.l1_bytes / 2, 1).value();
  const double l2 = cache_bandwidth(device.l2_bytes / 2, 1).value();
  EXPECT_GT(l1, 1e9);
  EXPECT_LT(l1, 1e13) << "the loop was optimised away";
  EXPECT_GT(l1, l2);
  EXPECT_THAT(cache_bandwidth(100, 1).error().message, HasSubstr("bytes = 100"));
}

TEST(Limits, ErrorsNameTheValue) {
  EXPECT_THAT(fma_peak(s32, 1).error().message, HasSubstr("type = s32"));
  EXPECT_THAT(read_bandwidth(5, 1).error().message, HasSubstr("bytes = 5"));
  EXPECT_THAT(read_bandwidth(std::int64_t{1} << 60, 1).error().message,
              HasSubstr("1152921504606846976"));
}

}  // namespace kiln::probe_test
