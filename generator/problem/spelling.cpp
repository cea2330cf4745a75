#include "generator/problem/spelling.h"

#include <algorithm>

#include "generator/problem/extent.h"
#include "generator/problem/indices.h"
#include "generator/problem/problem.h"
#include "generator/problem/weights_rules.h"

namespace kiln {

bool truncates_sums(const DeviceCaps& device) {
  return device.vendor == Vendor::nvidia && device.gpu.sm >= 89 && device.gpu.sm < 100;
}

bool splits_fp32(const DeviceCaps& device) {
  if (device.vendor == Vendor::cpu) return device.cpu.amx_bf16;
  return device.vendor == Vendor::nvidia && device.gpu.sm == 90 && device.gpu.arch_specific;
}

bool rounds_weights(const Gemm& gemm, const DeviceCaps& device) {
  return device.vendor == Vendor::nvidia && device.gpu.sm == 90 && device.gpu.arch_specific &&
         has_weights(gemm) && scale_block(gemm.b.q.scale).along != 0 && has_range_of_scales(gemm);
}

Numerics numerics_on(const Gemm& gemm, const DeviceCaps& device) {
  const bool differs = gemm.numerics == Numerics::tensor ? splits_fp32(device)
                       : has_weights(gemm)               ? rounds_weights(gemm, device)
                                                         : truncates_sums(device);
  return differs ? gemm.numerics : Numerics::ieee;
}

Gemm with_defaults_of(const Gemm& gemm, const DeviceCaps& device) {
  if (device.vendor == Vendor::cpu || gemm.alignment != 1 || !Problem::of(gemm)) return gemm;
  Gemm copy = gemm;
  copy.alignment = kUsualAlignment;
  return copy;
}

Gemm with_alignment_of_pitches(const Gemm& gemm) {
  Gemm copy = gemm;
  const Gemm joined = with_joined_lines(gemm);
  for (const Operand which : kMatrices)
    if (present(gemm, which))
      copy.alignment = std::min(copy.alignment, line_alignment(joined, which));
  return copy;
}

std::vector<Gemm> served_by(const Gemm& gemm) {
  std::vector<Gemm> all;
  for (Gemm as = gemm; as.alignment >= 1; as.alignment /= 2) {
    all.push_back(as);
    if (as.numerics != Numerics::ieee) all.push_back(as.with_numerics(Numerics::ieee));
  }
  return all;
}

namespace {

bool is_column_of_one(const Gemm& gemm, Operand which) {
  const Extent e = extent(gemm, which);
  return e.length == 1 && e.lines > 1 && leading_dimension(gemm, which) == 1;
}

}  // namespace

Gemm with_joined_lines(const Gemm& gemm) {
  Gemm copy = gemm;
  if (gemm.grouping() == Grouping::list) return copy;  // its products may have other sizes
  const auto turn = [&](Operand which, Matrix& stored) {
    if (!is_column_of_one(gemm, which)) return;
    stored.transposed = !stored.transposed;
    stored.ld = 0;
  };
  if (gemm.m == 1 && !gathers(gemm)) turn(Operand::a, copy.a);
  if (gemm.n == 1 && !gemm.b_packed) turn(Operand::b, copy.b);
  // C lies in D's order; packed B, weights, a gate, groups, scales of D and zero points of A meet a
  // row-major D.
  if (gemm.b_packed || has_weights(gemm) || gemm.epilogue.gate.has_value() ||
      !gemm.epilogue.expression.empty() || gemm.grouping() != Grouping::none ||
      gemm.d.q.scale != Scale::none || gemm.a.q.zero != Zero::none ||
      !is_column_of_one(gemm, Operand::c) || !is_column_of_one(gemm, Operand::d))
    return copy;
  for (Matrix* const stored : std::initializer_list<Matrix*>{&copy.c, &copy.d}) {
    stored->order = stored->order == Order::row_major ? Order::column_major : Order::row_major;
    stored->ld = 0;
  }
  return copy;
}

}  // namespace kiln
