// AMD GPUs known by name: one row a card, by its data sheet and its architecture's ISA manual.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "generator/families/hip/common/hip.h"
#include "generator/problem/device_caps.h"

namespace kiln {
namespace {

constexpr std::int64_t kKiB = 1 << 10, kMiB = 1 << 20, kGiB = 1 << 30;

/// `units` are CUs (of one die where a card shows its dies as devices of their own). Registers are
/// those of one CU, of all lanes: CDNA has 4 SIMDs of 512 × 64, RDNA's CU 2 of 1536 × 32.
struct NamedGpu {
  std::string_view name;  // of the card; the first card of a target answers to the target too
  std::string_view arch;
  std::string_view model;
  int units, chiplets;
  int wave;
  int lds_kib;
  int registers_unit, threads_unit;
  int l1_kib;
  std::int64_t l2_kib;  // of all chiplets
  std::int64_t l3_mib;  // the memory-side cache
  int memory_gib;
  int memory_gbs;
  double ghz;
};

constexpr NamedGpu kNamedGpus[] = {
    {"mi250x", "gfx90a", "MI250X", 110, 1, 64, 64, 131072, 2048, 16, 8192, 0, 63, 1638, 1.7},
    {"mi300x", "gfx942", "MI300X", 304, 8, 64, 64, 131072, 2048, 32, 32768, 256, 191, 5300, 2.1},
    {"mi325x", "gfx942", "MI325X", 304, 8, 64, 64, 131072, 2048, 32, 32768, 256, 255, 6000, 2.1},
    {"mi355x", "gfx950", "MI355X", 256, 8, 64, 160, 131072, 2048, 32, 32768, 256, 287, 8000, 2.4},
    {"rx7900xtx", "gfx1100", "RX 7900 XTX", 96, 1, 32, 64, 98304, 1024, 32, 6144, 96, 23, 960, 2.5},
    {"rx9060xt", "gfx1200", "RX 9060 XT", 32, 1, 32, 64, 98304, 1024, 32, 4096, 32, 15, 320, 3.1},
};

DeviceCaps caps_of(const NamedGpu& row) {
  DeviceCaps caps;
  caps.vendor = Vendor::amd;
  caps.arch = row.arch;
  caps.model = row.model;
  caps.compute_units = row.units;
  caps.l1_bytes = row.l1_kib * kKiB;
  caps.l2_bytes = row.l2_kib * kKiB;
  caps.l3_bytes = row.l3_mib * kMiB;
  caps.ghz = row.ghz;
  caps.gpu = {.wave = row.wave,
              .shared_block_bytes = static_cast<int>(row.lds_kib * kKiB),
              .shared_unit_bytes = static_cast<int>(row.lds_kib * kKiB),
              .registers_unit = row.registers_unit,
              .threads_unit = row.threads_unit,
              .threads_block = 1024,
              .memory_bytes = row.memory_gib * kGiB,
              .memory_gbs = row.memory_gbs,
              .chiplets = row.chiplets};
  return caps;
}

}  // namespace

std::vector<DeviceCaps> hip::cards_of(std::string_view arch) {
  std::vector<DeviceCaps> cards;
  for (const NamedGpu& row : kNamedGpus)
    if (row.arch == arch) cards.push_back(caps_of(row));
  return cards;
}

std::vector<std::string> hip_targets() {
  std::vector<std::string> targets;
  for (const NamedGpu& row : kNamedGpus)
    if (targets.empty() || targets.back() != row.arch) targets.emplace_back(row.arch);
  return targets;
}

std::string known_hip_gpus() {
  std::string known;
  for (const NamedGpu& row : kNamedGpus)
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", row.name, row.arch);
  return known;
}

Result<DeviceCaps> hip_card(std::string_view arch, int units, std::int64_t memory_bytes,
                            int chiplets) {
  const NamedGpu* card = nullptr;
  const auto share = [&](const NamedGpu& row) { return double(units) / row.units; };
  const auto distance = [&](const NamedGpu& row) {
    return std::abs(double(memory_bytes) / double(kGiB) - row.memory_gib * share(row));
  };
  for (const NamedGpu& row : kNamedGpus)
    if (row.arch == arch && (card == nullptr || distance(row) < distance(*card))) card = &row;
  if (card == nullptr)
    return fail(ErrorCode::unsupported,
                fmt::format("target {} is not known; known: {}", arch, known_hip_gpus()));
  DeviceCaps caps = caps_of(*card);
  const int whole = card->chiplets;
  caps.compute_units = units;
  caps.gpu.chiplets = chiplets > 0 ? chiplets : std::max(1, int(std::lround(whole * share(*card))));
  caps.l2_bytes = caps.l2_bytes / whole * caps.gpu.chiplets;
  caps.l3_bytes = caps.l3_bytes / whole * caps.gpu.chiplets;
  caps.gpu.memory_bytes = memory_bytes;
  caps.gpu.memory_gbs = card->memory_gbs * caps.gpu.chiplets / whole;
  return caps;
}

Result<DeviceCaps> hip_caps_named(std::string_view name) {
  for (const NamedGpu& row : kNamedGpus)
    if (row.name == name || row.arch == name) return caps_of(row);
  return fail(ErrorCode::bad_input,
              fmt::format("device = \"{}\": no AMD GPU is known by this name; known: {}", name,
                          known_hip_gpus()));
}

}  // namespace kiln
