#include "cache/records/class_kernels.h"

#include "cache/keys.h"
#include "generator/families/cpu/common/packed_layout.h"

namespace kiln {

Gemm class_problem(const Gemm& gemm) {
  Gemm problem = Problem::of(gemm).value().gemm;
  for (Matrix* matrix : problem.matrices()) matrix->ld = matrix->batch_stride = 0;
  if (problem.b_packed) problem.b.transposed = false;
  problem.alignment = 1;
  problem.epilogue = {};
  problem.numerics = Numerics::ieee;  // which serves the others
  return problem;
}

BestKey class_key(const DeviceCaps& of_class, const Gemm& gemm) {
  return {.device = of_class, .gemm = class_problem(gemm), .policy = std::string(kClassPolicy)};
}

bool lies_alike(const Gemm& gemm, const DeviceCaps& device, const DeviceCaps& of_class) {
  if (!gemm.b_packed) return true;
  const Problem problem = Problem::of(gemm).value();
  return packed_layout(problem, device) == packed_layout(problem, of_class);
}

}  // namespace kiln
