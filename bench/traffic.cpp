#include "bench/traffic.h"

#include <algorithm>

#include "generator/problem/extent.h"
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

double roof_ns(const Gemm& gemm, const MachineLimits& limits, double flops) {
  const DeviceCaps& d = limits.device;
  const auto touched = static_cast<double>(touched_bytes(gemm));
  const double threads = d.compute_units;
  const double rate = rotation_sets(touched_bytes(gemm), d) > 1 ? limits.dram_read
                      : touched <= threads * double(d.l1_bytes) ? limits.l1_read
                      : touched <= threads * double(d.l2_bytes) ? limits.l2_read
                                                                : limits.dram_read;
  const double moving = rate > 0 ? least_bytes(gemm) / rate * 1e9 : 0;
  return std::max(flops > 0 ? gemm.flops() / flops * 1e9 : 0, moving);
}

double intensity(const Gemm& gemm) {
  const double bytes = least_bytes(gemm);
  return bytes > 0 ? gemm.flops() / bytes : 0;
}

}  // namespace kiln
