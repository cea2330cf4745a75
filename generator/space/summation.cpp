#include "generator/space/summation.h"

#include <fmt/format.h>

#include "generator/expression/program.h"
#include "generator/space/family.h"

namespace kiln {
namespace {

/// The problem that stands for all with its types, layouts, n and k: one row, nothing aligned, so
/// that what computes it computes every m, pitch and address.
Gemm for_every_m(Gemm gemm) {
  gemm.m = 1;
  gemm.alignment = 1;
  for (Matrix* matrix : gemm.matrices()) matrix->ld = matrix->batch_stride = 0;
  return gemm;
}

}  // namespace

std::string summation(const Problem& problem, const DeviceCaps& device, const Config& config) {
  const Family* family = find_family(config, device.vendor);
  if (family == nullptr || family->summation == nullptr) return {};
  // Integers wrap: the order of additions changes nothing.
  std::string order =
      is_floating(problem.gemm.accumulator) ? family->summation(problem, device, config) : "exact";
  if (order.empty() || !expression::reduces_lines(problem.gemm.epilogue.expression)) return order;
  const Together of =
      family->together != nullptr ? family->together(problem, device, config) : Together{};
  return fmt::format("{} reduced={}x{}", order, of.of_row, of.of_column);
}

std::string invariant_summation(const Gemm& gemm, const DeviceCaps& device) {
  const Gemm one = for_every_m(gemm);
  const auto problem = Problem::of(one);
  if (!problem) return {};
  for (const Family& family : families()) {
    if (family.vendor != device.vendor || family.plain == nullptr) continue;
    const auto config = family.plain(*problem, device);
    if (!config || !broken_rule(*problem, device, *config).empty()) continue;
    if (std::string order = summation(*problem, device, *config); !order.empty()) return order;
  }
  return {};
}

AllowedSummation::AllowedSummation(const Problem& problem, const DeviceCaps& device,
                                   Determinism determinism) {
  const Gemm& gemm = problem.given;
  // Without a product there is nothing to sum.
  const bool sums = gemm.m != 0 && gemm.n != 0 && gemm.k != 0;
  if (determinism == Determinism::batch_invariant && sums)
    one_ = One{problem, device, invariant_summation(gemm, device)};
}

bool AllowedSummation::allows(const Config& config) const {
  return !one_ ||
         (!one_->order.empty() && summation(one_->problem, one_->device, config) == one_->order);
}

}  // namespace kiln
