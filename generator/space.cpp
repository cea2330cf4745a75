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
namespace cuda {
Family wgmma_family();
Family mma_family();
Family simt_family();
Family gemv_family();
Family library_family();
}  // namespace cuda
namespace hip {
Family mfma_family();
Family mx_family();
Family simt_family();
}  // namespace hip

std::span<const Family> families() {
  static const std::array rows{host::packed_family(), host::dot_family(),   host::small_family(),
                               host::amx_family(),    cuda::wgmma_family(), cuda::mma_family(),
                               cuda::simt_family(),   cuda::gemv_family(),  cuda::library_family(),
                               hip::mfma_family(),    hip::mx_family(),     hip::simt_family()};
  return rows;
}

const Family& family_of(const Config& config) {
  const auto wanted = family_name(config);
  for (const auto& family : families())
    if (family.name == wanted) return family;
  std::abort();  // a variant entry without a row
}

namespace {

/// gfx942's own fp8 formats.
bool is_fnuz(DType t) { return t == fp8_e4m3fnuz || t == fp8_e5m2fnuz; }

bool has_scales(const Gemm& g) { return g.scale_a != Scale::none || g.scale_b != Scale::none; }

}  // namespace

std::string_view broken_rule(const Canonical& problem, const DeviceCaps& device,
                             const Config& config) {
  const Family& family = family_of(config);
  if (family.vendor != device.vendor) return "the family is for this kind of device";
  if (device.vendor == Vendor::nvidia &&
      (is_fnuz(problem.gemm.a.dtype) || is_fnuz(problem.gemm.b.dtype)))
    return "the device knows the number formats";
  if (has_scales(problem.gemm) &&
      (family.applies_scales == nullptr || !family.applies_scales(problem.gemm)))
    return "the family applies the operands' scales";
  for (const auto& rule : family.rules)
    if (!rule.allows(problem, device, config)) return rule.name;
  return {};
}

Result<SearchSpace> space_for(const Gemm& gemm, const DeviceCaps& device) {
  if (auto ok = validate(gemm); !ok) return tl::unexpected(ok.error());
  SearchSpace space{canonicalise(gemm), device, {}, {}};
  for (const auto& family : families()) {
    if (family.vendor != device.vendor) continue;
    family.enumerate(space.problem, device, [&](const Config& config) {
      const auto broken = broken_rule(space.problem, device, config);
      if (broken.empty())
        space.legal.push_back(config);
      else
        ++space.rejected[std::string(broken)];
    });
  }
  if (space.legal.empty())
    return fail(ErrorCode::unsupported,
                fmt::format("no kernel family covers {} on {}", text(gemm), device.arch));
  return space;
}

double predict_ns(const Canonical& problem, const DeviceCaps& device, const Config& config) {
  return family_of(config).predict_ns(problem, device, config);
}

}  // namespace kiln
