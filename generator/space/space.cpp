#include "generator/space/space.h"

#include <fmt/format.h>

#include <optional>

#include "generator/problem/extent.h"
#include "generator/problem/indices.h"
#include "generator/space/family.h"
#include "generator/space/platform.h"
#include "generator/space/summation.h"

namespace kiln {
namespace {

constexpr std::string_view kOtherOrder = "sums in the order of class batch_invariant";

bool has_scales(const Gemm& g) { return g.scale_a != Scale::none || g.scale_b != Scale::none; }

/// What every family of the vendor refuses, then its own rules.
std::string_view broken_rule_of(const Family& family, const Canonical& problem,
                                const DeviceCaps& device, const Config& config) {
  const Platform& platform = platform_of(device.vendor);
  if (platform.refuses != nullptr)
    if (const auto why = platform.refuses(problem.gemm); !why.empty()) return why;
  if (has_weights(problem.gemm)) {
    if (family.takes_weights == nullptr || !family.takes_weights(problem.gemm))
      return "the family multiplies weights in groups";
  } else if (has_scales(problem.gemm) &&
             (family.applies_scales == nullptr || !family.applies_scales(problem.gemm)))
    return "the family applies the operands' scales";
  if (orders_scales(problem.gemm) && !family.orders_scales)
    return "the family reads scales that lie block by block";
  if (problem.gemm.epilogue.gate != Gate::none &&
      (family.computes_gates == nullptr || !family.computes_gates(problem.gemm)))
    return "the family computes gated products";
  if (problem.gemm.grouping != Grouping::none &&
      (family.computes_groups == nullptr || !family.computes_groups(problem.gemm)))
    return "the family computes grouped products";
  if (problem.gemm.grouping == Grouping::list && !family.computes_lists)
    return "the family computes lists of products";
  if ((gathers(problem.gemm) || scatters(problem.gemm)) &&
      (family.indexes_rows == nullptr || !family.indexes_rows(problem.gemm)))
    return "the family reads and writes rows by index";
  if (adds_rows(problem.gemm) && !family.adds_rows)
    return "the family's rows are added to rows of D";
  if (problem.gemm.scale_d != Scale::none &&
      (family.quantises == nullptr || !family.quantises(problem.gemm)))
    return "the family writes a D with such scales";
  if (problem.gemm.amax_d && (family.finds_amax == nullptr || !family.finds_amax(problem.gemm)))
    return "the family finds the largest magnitude of D";
  return family.broken_rule(problem, device, config);
}

}  // namespace

std::string_view broken_rule(const Canonical& problem, const DeviceCaps& device,
                             const Config& config) {
  const Family* family = find_family(config, device.vendor);
  if (family == nullptr) return "the family is for the device's vendor";
  return broken_rule_of(*family, problem, device, config);
}

double flushed_by(const Gemm& gemm, const DeviceCaps& device, const Config& config) {
  const Family& family = family_of(config, device.vendor);
  return family.flushed_by == nullptr ? 0 : family.flushed_by(gemm, device, config);
}

std::string slow_types(const Gemm& gemm, const DeviceCaps& device) {
  const auto says = platform_of(device.vendor).slow_types;
  return says == nullptr ? std::string() : says(gemm, device);
}

Result<SearchSpace> space_for(const Gemm& gemm, const DeviceCaps& device, Determinism determinism) {
  if (auto ok = validate(gemm); !ok) return tl::unexpected(ok.error());
  SearchSpace space{canonicalise(gemm), device, {}, {}};
  const AllowedSummation order(gemm, device, determinism);
  for (const auto& family : families()) {
    if (family.vendor != device.vendor) continue;
    family.enumerate(space.problem, device, [&](const Config& config) {
      auto broken = broken_rule_of(family, space.problem, device, config);
      if (broken.empty() && !order.allows(config)) broken = kOtherOrder;
      if (broken.empty())
        space.legal.push_back(config);
      else
        ++space.rejected[std::string(broken)];
    });
  }
  if (space.legal.empty())
    return fail(ErrorCode::unsupported,
                fmt::format("no kernel family covers {} on {}{}", text(gemm), device.arch,
                            order.order().empty() ? "" : " with sums as " + order.order()));
  return space;
}

double predict_ns(const Canonical& problem, const DeviceCaps& device, const Config& config) {
  return family_of(config, device.vendor).predict_ns(problem, device, config);
}

namespace {

/// Of the first family that has one.
std::optional<Config> fallback(const Canonical& problem, const DeviceCaps& device) {
  for (const Family& family : families()) {
    if (family.vendor != device.vendor || family.fallback == nullptr) continue;
    if (auto config = family.fallback(problem, device)) return config;
  }
  return std::nullopt;
}

}  // namespace

bool has_fallback(const Canonical& problem, const DeviceCaps& device) {
  return fallback(problem, device).has_value();
}

Config fallback_config(const Canonical& problem, const DeviceCaps& device) {
  return fallback(problem, device).value();
}

}  // namespace kiln
