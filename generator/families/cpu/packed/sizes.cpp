#include "generator/families/cpu/packed/sizes.h"

#include <utility>

#include "generator/families/cpu/packed/config.h"

namespace kiln::host {

const DotInstruction* row_of(const Problem& p, const DeviceCaps& d, const HostPacked& c) {
  return c.widen ? widening_instruction(c.isa, p, d) : instruction(c.isa, p, d);
}

Problem transposed(Problem p) {
  std::swap(p.gemm.m, p.gemm.n);
  // Scales stay those of the rows and columns of D, where they are applied.
  std::swap<Matrix>(p.gemm.a, p.gemm.b);
  std::swap(p.a_k_major, p.b_k_major);
  return p;
}

}  // namespace kiln::host
