#include "generator/space/space.h"

#include <fmt/format.h>

#include <optional>

#include "generator/space/family.h"
#include "generator/space/platform.h"
#include "generator/space/summation.h"

namespace kiln {
namespace {

constexpr std::string_view kOtherOrder = "sums in the order of class batch_invariant";

/// What every family of the vendor refuses, then its own rules.
std::string_view broken_rule_of(const Family& family, const Problem& problem,
                                const DeviceCaps& device, const Config& config) {
  const Platform& platform = platform_of(device.vendor);
  if (platform.refuses != nullptr)
    if (const auto why = platform.refuses(problem.gemm); !why.empty()) return why;
  if (const Features missing = problem.needs - family.offers; !missing.none())
    return rule_for(missing);
  if (!problem.gemm.epilogue.expression.empty() && takes_epilogue(config))
    return "an expression needs any_epilogue=0";
  return family.broken_rule(problem, device, config);
}

}  // namespace

std::string_view broken_rule(const Problem& problem, const DeviceCaps& device,
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

Result<SearchSpace> space_for(const Problem& problem, const DeviceCaps& device,
                              Determinism determinism) {
  SearchSpace space{problem, device, {}, {}};
  const AllowedSummation order(problem, device, determinism);
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
                fmt::format("no kernel family covers {} on {}{}", text(problem.given), device.arch,
                            order.order().empty() ? "" : " with sums as " + order.order()));
  return space;
}

double predict_ns(const Problem& problem, const DeviceCaps& device, const Config& config) {
  return family_of(config, device.vendor).predict_ns(problem, device, config);
}

namespace {

/// Of the first family that has one.
std::optional<Config> fallback(const Problem& problem, const DeviceCaps& device) {
  for (const Family& family : families()) {
    if (family.vendor != device.vendor || family.fallback == nullptr) continue;
    if (!(problem.needs - family.offers).none()) continue;
    if (auto config = family.fallback(problem, device)) return config;
  }
  return std::nullopt;
}

}  // namespace

bool has_fallback(const Problem& problem, const DeviceCaps& device) {
  return fallback(problem, device).has_value();
}

Config fallback_config(const Problem& problem, const DeviceCaps& device) {
  return fallback(problem, device).value();
}

}  // namespace kiln
