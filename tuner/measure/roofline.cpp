#include "tuner/measure/roofline.h"

#include <algorithm>

#include "generator/problem/extent.h"
#include "generator/problem/timed_flops.h"
#include "tuner/measure/measure.h"
#include "tuner/measure/operand_sets.h"

namespace kiln {

double least_bytes(const Gemm& gemm) {
  double bytes = 0;
  for (const Operand which : kOperands) {
    if (which == Operand::c || !present(gemm, which)) continue;
    const Extent e = extent(gemm, which);
    const bool shared = which == Operand::bias;  // by all batches
    bytes += double(bytes_of(dtype_of(gemm, which), e.length)) * double(e.lines) *
             (shared ? 1.0 : double(gemm.batch));
  }
  return bytes;
}

Roofline roof(const Gemm& gemm, const MachineLimits& limits, double flops) {
  const DeviceCaps& d = limits.device;
  const auto touched = static_cast<double>(touched_bytes(gemm));
  const double threads = d.compute_units;
  Roofline moving{.rate = limits.dram_read, .of = "memory"};
  if (rotation_sets(touched_bytes(gemm), d) == 1) {
    if (touched <= threads * double(d.l1_bytes))
      moving = {.rate = limits.l1_read, .of = "L1"};
    else if (touched <= threads * double(d.l2_bytes))
      moving = {.rate = limits.l2_read, .of = "L2"};
  }
  if (moving.rate > 0) moving.ns = least_bytes(gemm) / moving.rate * 1e9;
  Roofline computing{.rate = flops, .of = "arithmetic"};
  if (flops > 0) computing.ns = timed_flops(gemm) / flops * 1e9;
  return computing.ns >= moving.ns ? computing : moving;
}

double peak_for(const Gemm& gemm, const MachineLimits& limits) {
  const auto member = peak_member(gemm.a.dtype);
  const double own = member != nullptr ? limits.*member : 0;
  constexpr int kProducts = 6;  // of three parts of bf16: generator/families/cpu/amx
  return gemm.numerics == Numerics::tensor ? std::max(own, limits.bf16_flops / kProducts) : own;
}

bool bound_by_power(const Gemm& gemm, const DeviceCaps& device, double expected_ns) {
  constexpr double kLongNs = 50e3, kMovingShare = 0.5;
  const double moving_ns = least_bytes(gemm) / std::max(1.0, double(device.gpu.memory_gbs));
  return expected_ns >= kLongNs && moving_ns <= kMovingShare * expected_ns;
}

double intensity(const Gemm& gemm) {
  const double bytes = least_bytes(gemm);
  return bytes > 0 ? timed_flops(gemm) / bytes : 0;
}

}  // namespace kiln
