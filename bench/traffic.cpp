#include "bench/traffic.h"

#include "generator/problem/extent.h"

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

double intensity(const Gemm& gemm) {
  const double bytes = least_bytes(gemm);
  return bytes > 0 ? gemm.flops() / bytes : 0;
}

}  // namespace kiln
