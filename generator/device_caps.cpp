#include "generator/device_caps.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace kiln {
namespace {

std::string_view vendor_name(Vendor v) {
  switch (v) {
    case Vendor::cpu:
      return "cpu";
    case Vendor::nvidia:
      return "nvidia";
    case Vendor::amd:
      return "amd";
  }
  return "?";
}

std::string feature_list(const CpuFeatures& f) {
  const std::array<std::pair<bool, std::string_view>, 6> rows{{{f.avx2_fma, "avx2_fma"},
                                                               {f.avx512, "avx512"},
                                                               {f.avx512_bf16, "avx512_bf16"},
                                                               {f.avx512_vnni, "avx512_vnni"},
                                                               {f.amx_bf16, "amx_bf16"},
                                                               {f.amx_int8, "amx_int8"}}};
  std::string list;
  for (const auto& [present, word] : rows) {
    if (!present) continue;
    if (!list.empty()) list += '+';
    list += word;
  }
  return list.empty() ? "none" : list;
}

struct NamedCpu {
  std::string_view name;
  std::string_view arch;
  CpuFeatures features;
};

constexpr CpuFeatures kAvx2{.avx2_fma = true};
constexpr CpuFeatures kAvx512{.avx2_fma = true, .avx512 = true};
constexpr CpuFeatures kAvx512Bf16{
    .avx2_fma = true, .avx512 = true, .avx512_bf16 = true, .avx512_vnni = true};
constexpr CpuFeatures kAmx{.avx2_fma = true,
                           .avx512 = true,
                           .avx512_bf16 = true,
                           .avx512_vnni = true,
                           .amx_bf16 = true,
                           .amx_int8 = true};

constexpr NamedCpu kNamedCpus[] = {
    {"avx512", "x86-64-v4", kAvx512}, {"avx512_bf16", "x86-64-v4", kAvx512Bf16},
    {"amx", "x86-64-v4", kAmx},       {"avx2", "x86-64-v3", kAvx2},
#if defined(__aarch64__)
    {"portable", "aarch64", {}},
#else
    {"portable", "x86-64", {}},
#endif
    {"aarch64", "aarch64", {}},
};

}  // namespace

std::string fingerprint(const DeviceCaps& caps) {
  return fmt::format("{} arch={} model=\"{}\" features={} units={} l1={} l2={} l3={} ghz={}",
                     vendor_name(caps.vendor), caps.arch, caps.model, feature_list(caps.cpu),
                     caps.compute_units, caps.l1_bytes, caps.l2_bytes, caps.l3_bytes, caps.ghz);
}

Result<DeviceCaps> cpu_caps_named(std::string_view name) {
  std::string known;
  for (const NamedCpu& row : kNamedCpus) {
    if (row.name == name) {
      DeviceCaps caps;
      caps.arch = row.arch;
      caps.model = row.name;
      caps.cpu = row.features;
      return caps;
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  return fail(ErrorCode::bad_input,
              fmt::format("device = \"{}\": no CPU is known by this name; known: {}", name, known));
}

}  // namespace kiln
