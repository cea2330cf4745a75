#include "generator/space.h"

#include <fmt/format.h>

#include <array>

#include "generator/family.h"

namespace kiln {
namespace host {
Family packed_family();
Family dot_family();
Family small_family();
Family amx_family();
}  // namespace host

std::span<const Family> families() {
  static const std::array rows{host::packed_family(), host::dot_family(), host::small_family(),
                               host::amx_family()};
  return rows;
}

const Family& family_of(const Config& config) {
  const auto wanted = family_name(config);
  for (const auto& family : families())
    if (family.name == wanted) return family;
  std::abort();  // a variant entry without a row
}

std::string_view broken_rule(const Canonical& problem, const DeviceCaps& device,
                             const Config& config) {
  for (const auto& rule : family_of(config).rules)
    if (!rule.allows(problem, device, config)) return rule.name;
  return {};
}

Result<SearchSpace> space_for(const Gemm& gemm, const DeviceCaps& device) {
  if (auto ok = validate(gemm); !ok) return tl::unexpected(ok.error());
  SearchSpace space{canonicalise(gemm), device, {}, {}};
  for (const auto& family : families())
    family.enumerate(space.problem, device, [&](const Config& config) {
      const auto broken = broken_rule(space.problem, device, config);
      if (broken.empty())
        space.legal.push_back(config);
      else
        ++space.rejected[std::string(broken)];
    });
  if (space.legal.empty())
    return fail(ErrorCode::unsupported,
                fmt::format("no kernel family covers {} on {}", text(gemm), device.arch));
  return space;
}

double predict_ns(const Canonical& problem, const DeviceCaps& device, const Config& config) {
  return family_of(config).predict_ns(problem, device, config);
}

}  // namespace kiln
