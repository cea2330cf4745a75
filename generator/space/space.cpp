#include "generator/space/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "generator/families/cpu/common/instructions.h"
#include "generator/families/hip/common/instructions.h"
#include "generator/space/family.h"

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

/// The same eight bits shared out likewise, in the other spelling; other types as they are.
DType respelt(DType t) {
  constexpr std::pair<DType, DType> kPairs[] = {{fp8_e4m3, fp8_e4m3fnuz}, {fp8_e5m2, fp8_e5m2fnuz}};
  for (const auto& [ocp, fnuz] : kPairs) {
    if (t == ocp) return fnuz;
    if (t == fnuz) return ocp;
  }
  return t;
}

bool has_mfma(const DeviceCaps& device, DType a, DType b) {
  return std::any_of(std::begin(hip::kMfma), std::end(hip::kMfma),
                     [&](const hip::MfmaInstruction& i) {
                       return hip::mfma_for(device.arch, b, a, i.mn, i.k) == &i;
                     });
}

bool has_scales(const Gemm& g) { return g.scale_a != Scale::none || g.scale_b != Scale::none; }

/// What every family of the vendor refuses, then its own rules.
std::string_view broken_rule_of(const Family& family, const Canonical& problem,
                                const DeviceCaps& device, const Config& config) {
  if (family.vendor != device.vendor) return "the family is for the device's vendor";
  if (device.vendor == Vendor::nvidia &&
      (is_fnuz(problem.gemm.a.dtype) || is_fnuz(problem.gemm.b.dtype)))
    return "NVIDIA devices have no fnuz formats";
  if (has_scales(problem.gemm) &&
      (family.applies_scales == nullptr || !family.applies_scales(problem.gemm)))
    return "the family applies the operands' scales";
  return family.broken_rule(problem, device, config);
}

}  // namespace

std::string_view broken_rule(const Canonical& problem, const DeviceCaps& device,
                             const Config& config) {
  return broken_rule_of(family_of(config), problem, device, config);
}

double flushed_by(const Gemm& gemm, const DeviceCaps& device, const Config& config) {
  if (std::holds_alternative<HipMfma>(config) && device.arch == "gfx90a") {
    if (gemm.a.dtype == fp16) return 0x1p-14;
    return gemm.a.dtype == bf16 ? 0x1p-126 : 0;
  }
  return std::visit(
      [&](const auto& c) -> double {
        if constexpr (requires { Isa{c.isa}; }) {
          const auto* row = dot_instruction(c.isa, device.cpu, gemm.a.dtype, gemm.b.dtype);
          return row != nullptr && row->flushes ? 0x1p-126 : 0;
        } else {
          return 0;
        }
      },
      config);
}

std::string slow_types(const Gemm& gemm, const DeviceCaps& device) {
  const DType a = gemm.a.dtype, b = gemm.b.dtype, other_a = respelt(a), other_b = respelt(b);
  if (device.vendor != Vendor::amd || (a == other_a && b == other_b)) return {};
  if (has_mfma(device, a, b) || !has_mfma(device, other_a, other_b)) return {};
  return fmt::format(
      "{}: {} has no matrix instruction for {} and {}, so a SIMT kernel computes it, more than ten "
      "times slower than {} and {} (shapes that begin with {}), for which it has one; their "
      "encoding differs, so the data must be converted",
      text(gemm), device.arch, name(a), name(b), name(other_a), name(other_b),
      is_fnuz(other_a) ? "fp8fnuz" : "fp8");
}

Result<SearchSpace> space_for(const Gemm& gemm, const DeviceCaps& device) {
  if (auto ok = validate(gemm); !ok) return tl::unexpected(ok.error());
  SearchSpace space{canonicalise(gemm), device, {}, {}};
  for (const auto& family : families()) {
    if (family.vendor != device.vendor) continue;
    family.enumerate(space.problem, device, [&](const Config& config) {
      const auto broken = broken_rule_of(family, space.problem, device, config);
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
