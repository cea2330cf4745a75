// What a machine was seen to reach: the reference lines of its times, as a value. Knows no probe.
#pragma once

#include <string>

#include "generator/problem/device_caps.h"
#include "kiln/dtype.hpp"

namespace kiln {

/// Of the device's `compute_units` threads together.
struct MachineLimits {
  DeviceCaps device;
  double fp32_flops = 0, fp64_flops = 0;  // operations a second
  double bf16_flops = 0, int8_flops = 0;  // 0: not probed on this CPU
  double l1_read = 0, l2_read = 0;        // bytes a second, from the caches of all threads together
  double l3_read = 0, dram_read = 0;      // likewise
  std::string measured = {};              // ISO 8601 UTC; empty: just now, not stored yet
};

/// Calls `f(name, field)` for every figure (const or not) in the order above.
template <typename Limits, typename F>
void for_each_limit(Limits& limits, F&& f) {
  f("fp32_flops", limits.fp32_flops);
  f("fp64_flops", limits.fp64_flops);
  f("bf16_flops", limits.bf16_flops);
  f("int8_flops", limits.int8_flops);
  f("l1_read", limits.l1_read);
  f("l2_read", limits.l2_read);
  f("l3_read", limits.l3_read);
  f("dram_read", limits.dram_read);
}

/// The peak of products of a type; null where none is probed.
constexpr double MachineLimits::*peak_member(DType type) {
  switch (type) {
    case DType::fp32:
    case DType::fp16:  // multiplied in fp32
      return &MachineLimits::fp32_flops;
    case DType::fp64:
      return &MachineLimits::fp64_flops;
    case DType::bf16:
      return &MachineLimits::bf16_flops;
    case DType::s8:
    case DType::u8:
      return &MachineLimits::int8_flops;
    default:
      return nullptr;
  }
}

}  // namespace kiln
