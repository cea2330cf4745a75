#include "generator/problem/device_caps.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "generator/problem/did_you_mean.h"

namespace kiln {
namespace {

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

std::string gpu_text(const GpuFeatures& g) {
  return fmt::format(
      " sm={}{} wave={} shared_block={} shared_unit={} registers={} threads_unit={} "
      "threads_block={} memory={} gbs={} chiplets={}",
      g.sm, g.arch_specific ? "a" : "", g.wave, g.shared_block_bytes, g.shared_unit_bytes,
      g.registers_unit, g.threads_unit, g.threads_block, g.memory_bytes, g.memory_gbs, g.chiplets);
}

struct NamedCpu {
  std::string_view name;
  std::string_view arch;
  CpuFeatures features;
};

constexpr CpuFeatures kAvx2{.avx2_fma = true};
constexpr CpuFeatures kAvx512{.avx2_fma = true, .avx512 = true};
constexpr CpuFeatures kAvx512Vnni{.avx2_fma = true, .avx512 = true, .avx512_vnni = true};
constexpr CpuFeatures kAvx512Bf16{
    .avx2_fma = true, .avx512 = true, .avx512_bf16 = true, .avx512_vnni = true};
constexpr CpuFeatures kAmx{.avx2_fma = true,
                           .avx512 = true,
                           .avx512_bf16 = true,
                           .avx512_vnni = true,
                           .amx_bf16 = true,
                           .amx_int8 = true};

constexpr NamedCpu kNamedCpus[] = {
    {"avx512", "x86-64-v4", kAvx512},
    {"avx512_vnni", "x86-64-v4", kAvx512Vnni},
    {"avx512_bf16", "x86-64-v4", kAvx512Bf16},
    {"amx", "x86-64-v4", kAmx},
    {"avx2", "x86-64-v3", kAvx2},
#if defined(__aarch64__)
    {"portable", "aarch64", {}},
#else
    {"portable", "x86-64", {}},
#endif
    {"aarch64", "aarch64", {}},
};

constexpr std::int64_t kKiB = 1 << 10, kMiB = 1 << 20, kGiB = 1 << 30;

/// One card a target, by its data sheet; shared memory and threads by the programming guide's table
/// of compute capabilities.
struct NamedGpu {
  int sm;
  std::string_view model;
  int units;
  int shared_block_kib, shared_unit_kib;
  int threads_unit;
  int l2_mib;
  int memory_gib;
  int memory_gbs;
  double ghz;
};

constexpr NamedGpu kNamedGpus[] = {
    {75, "T4", 40, 64, 64, 1024, 4, 15, 320, 1.6},
    {80, "A100 80GB", 108, 163, 164, 2048, 40, 79, 2039, 1.4},
    {86, "A10", 72, 99, 100, 1536, 6, 22, 600, 1.7},
    {87, "Orin", 16, 163, 164, 1536, 4, 61, 204, 1.3},
    {89, "L40S", 142, 99, 100, 1536, 96, 44, 864, 2.5},
    {90, "H200", 132, 227, 228, 2048, 60, 139, 4800, 2.0},
    {100, "B200", 148, 227, 228, 2048, 126, 178, 8000, 2.0},
    {103, "B300", 148, 227, 228, 2048, 126, 268, 8000, 2.0},
    {110, "Thor", 20, 227, 228, 1536, 32, 122, 273, 1.6},
    {120, "RTX 5090", 170, 99, 100, 1536, 96, 31, 1792, 2.4},
    {121, "GB10", 48, 99, 100, 1536, 24, 119, 273, 2.4},
};

/// First target that has an architecture-specific variant.
constexpr int kFirstSpecific = 90;

DeviceCaps caps_of(const NamedGpu& row, bool specific) {
  DeviceCaps caps;
  caps.vendor = Vendor::nvidia;
  caps.arch = fmt::format("sm_{}{}", row.sm, specific ? "a" : "");
  caps.model = row.model;
  caps.compute_units = row.units;
  caps.l1_bytes = row.shared_unit_kib * kKiB;
  caps.l2_bytes = row.l2_mib * kMiB;
  caps.l3_bytes = 0;
  caps.ghz = row.ghz;
  caps.gpu = {.sm = row.sm,
              .arch_specific = specific,
              .wave = 32,
              .shared_block_bytes = static_cast<int>(row.shared_block_kib * kKiB),
              .shared_unit_bytes = static_cast<int>(row.shared_unit_kib * kKiB),
              .registers_unit = 65536,
              .threads_unit = row.threads_unit,
              .threads_block = 1024,
              .memory_bytes = row.memory_gib * kGiB,
              .memory_gbs = row.memory_gbs};
  return caps;
}

std::string known_cpus() {
  std::string known;
  for (const NamedCpu& row : kNamedCpus)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  return known;
}

std::string known_gpus() {
  std::string known;
  for (const NamedGpu& row : kNamedGpus) {
    known += fmt::format("{}sm_{}", known.empty() ? "" : ", ", row.sm);
    if (row.sm >= kFirstSpecific) known += fmt::format(", sm_{}a", row.sm);
  }
  return known;
}

}  // namespace

std::string fingerprint(const DeviceCaps& caps) {
  return fmt::format("{} arch={} model=\"{}\" features={} units={} l1={} l2={} l3={} ghz={}{}",
                     caps.vendor.name, caps.arch, caps.model, feature_list(caps.cpu),
                     caps.compute_units, caps.l1_bytes, caps.l2_bytes, caps.l3_bytes, caps.ghz,
                     caps.gpu == GpuFeatures{} ? "" : gpu_text(caps.gpu));
}

Result<DeviceCaps> cpu_caps_named(std::string_view name) {
  for (const NamedCpu& row : kNamedCpus) {
    if (row.name != name) continue;
    DeviceCaps caps;
    caps.arch = row.arch;
    caps.model = row.name;
    caps.cpu = row.features;
    return caps;
  }
  return fail(
      ErrorCode::bad_input,
      fmt::format("device = \"{}\": no CPU is known by this name; known: {}", name, known_cpus()));
}

Result<DeviceCaps> cuda_caps_named(std::string_view name) {
  for (const NamedGpu& row : kNamedGpus)
    for (const bool specific : {false, true})
      if ((!specific || row.sm >= kFirstSpecific) &&
          name == fmt::format("sm_{}{}", row.sm, specific ? "a" : ""))
        return caps_of(row, specific);
  return fail(ErrorCode::bad_input,
              fmt::format("device = \"{}\": no NVIDIA GPU is known by this name; known: {}", name,
                          known_gpus()));
}

std::vector<std::string> cpu_names() {
  std::vector<std::string> names;
  for (const NamedCpu& row : kNamedCpus) names.emplace_back(row.name);
  return names;
}

std::vector<std::string> gpu_targets() {
  std::vector<std::string> targets;
  for (const NamedGpu& row : kNamedGpus) {
    targets.push_back(fmt::format("sm_{}", row.sm));
    if (row.sm >= kFirstSpecific) targets.push_back(fmt::format("sm_{}a", row.sm));
  }
  for (std::string& target : hip_targets()) targets.push_back(std::move(target));
  return targets;
}

Result<DeviceCaps> caps_named(std::string_view name) {
  if (name.starts_with("sm_")) return cuda_caps_named(name);
  auto hip = hip_caps_named(name);
  if (hip || name.starts_with("gfx") || name.starts_with("mi")) return hip;
  if (auto cpu = cpu_caps_named(name)) return cpu;
  std::vector<std::string> known = gpu_targets();
  for (std::string& cpu : cpu_names()) known.push_back(std::move(cpu));
  return fail(
      ErrorCode::bad_input,
      fmt::format("device = \"{}\": no device is known by this name; known: {}, {}, {}{}", name,
                  known_cpus(), known_gpus(), known_hip_gpus(), did_you_mean(name, known)));
}

}  // namespace kiln
