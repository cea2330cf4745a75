// What one core does in a cycle, one row for each design: where models take their rates from. A new
// CPU is a new row. Knows no configs.
//
// Sources. [log]: measured, docs/performance-log.md, at the date given; [benchmarks]: measured,
// docs/benchmarks.md; [manual]: the vendor's optimization guide, not measured here; [fit]: the
// figure with which a model ranked measurements best, less than the core's own by what kernels
// lose.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "generator/families/cpu/common/choices.h"
#include "generator/problem/device_caps.h"

namespace kiln::host {

/// What tells apart the cores whose names are hidden: the best that they can do. Each includes
/// those before it.
enum class CoreLevel : std::uint8_t { portable, avx2, avx512, avx512_bf16, amx };

constexpr CoreLevel level_of(const CpuFeatures& cpu) {
  if (cpu.amx_bf16 || cpu.amx_int8) return CoreLevel::amx;
  if (cpu.avx512_bf16) return CoreLevel::avx512_bf16;
  if (cpu.avx512) return CoreLevel::avx512;
  return cpu.avx2_fma ? CoreLevel::avx2 : CoreLevel::portable;
}

/// Of vectors of one width.
struct VectorRates {
  double fmas;     // multiply-accumulates a cycle
  double latency;  // cycles from one to the next of its chain
  double l1, l2;   // bytes a cycle that kernels get from there [fit]
};

/// CPUID's family, and its models `first` to `last`, both included.
struct CoreModels {
  int family = 0, first = 0, last = 0;
};

/// One core. Figures that a row leaves out are those of the Xeon and the Zen 5 that the models were
/// fitted on.
struct Microarchitecture {
  std::string_view name;
  CoreLevel level;
  std::array<CoreModels, 5> models = {};  // family 0: none
  /// Without FMA a multiplication and an addition, on a unit each.
  VectorRates portable{1, 8, 27.5, 10};
  VectorRates avx2{2, 4, 55, 20};
  VectorRates avx512{2, 4, 110, 40};
  double pairs = 2;        // vdpbf16ps of 64 bytes a cycle
  double quads = 2;        // vpdpbusd of 64 bytes a cycle
  double tile_cycles = 0;  // of a product of two AMX tiles; 0: it has none
  int unit_bytes = 64;     // width of the units that vectors of 64 bytes are computed by
  double load_bytes = 128, store_bytes = 64;  // the most that go from and to L1 in a cycle
  double l3 = 10;                             // bytes a cycle [fit]
  double memory = 15;  // bytes a nanosecond, which the core's clock does not change [fit]
  /// What lies in less than this many bytes was found in L3, the rest in memory [fit].
  double far_bytes = 64e6;
  // Nanoseconds of packing that no rate above explains:
  double transposed_ns = 0.15, copied_ns = 0.10;  // of a unit, a strip of 48 columns in L2 [log]
  double page_ns = 5;  // of a line of an unpacked A along m: each k is on a page of its own
  /// Of a piece of a panel of packed weights, in memory: some 100 more than if the panel went on,
  /// 30 to 50 with prefetch (4×1024×4096 bf16, 8 and 32 KiB a piece).
  double piece_ns = 100;
  /// Of D, where it is not found in cache: of each piece of a row that is written in one go, and of
  /// each line that is streamed where rows begin within lines, since the ends of such pieces are
  /// stored as usual, between the streamed ones.
  double run_ns = 0, mixed_line_ns = 0;

  constexpr const VectorRates& of(Isa isa) const {
    return isa == Isa::portable ? portable : isa == Isa::avx2 ? avx2 : avx512;
  }
};

/// The first row of a level stands for cores of it that are not known.
inline constexpr std::array<Microarchitecture, 7> kMicroarchitectures{{
    // Vectors of 16 bytes of any processor; loads and stores by their number of units.
    {.name = "portable", .level = CoreLevel::portable, .load_bytes = 32, .store_bytes = 16},
    // Two FMAs of 32 bytes [manual of Haswell and later, Zen 2 and later].
    {.name = "AVX2", .level = CoreLevel::avx2, .load_bytes = 64, .store_bytes = 32},
    // Two FMAs, loads of 2 × 32 and stores of 32 bytes [manual]; Zen and Zen+ have half of each.
    {.name = "Zen 3 or older",
     .level = CoreLevel::avx2,
     .models = {{{0x17, 0x00, 0xff}, {0x19, 0x00, 0x0f}, {0x19, 0x20, 0x5f}}},
     .load_bytes = 64,
     .store_bytes = 32},
    // Skylake, Cascade Lake and Ice Lake of servers: two FMAs of 64 bytes on ports 0 and 5, which
    // also begin two vpdpbusd; loads of 2 × 64, stores of 64 bytes [manual].
    {.name = "Intel AVX-512",
     .level = CoreLevel::avx512,
     .models = {{{6, 85, 85}, {6, 106, 106}, {6, 108, 108}}}},
    // fp32 222, fp64 111, bf16 414, int8 885 GFLOP/s, L1 400 and L2 217 GB/s on one thread: two of
    // each instruction a cycle of 3.47 GHz, 115 and 62 bytes [log, 2026-11-27].
    {.name = "Zen 5",
     .level = CoreLevel::avx512_bf16,
     .models = {{{0x1a, 0x00, 0x1f}, {0x1a, 0x40, 0x4f}}}},
    // fp32 118, fp64 59, bf16 236, int8 473 GFLOP/s on one thread: one of each instruction a cycle
    // of 3.69 GHz, since its units are 32 bytes wide; read from L1 212 GB/s, L2 115, L3 89, memory
    // 27 to 32 [log, 2026-11-28]. Its guests tell no clock, so a cycle here is one of 3 GHz. What
    // these do not tell was fitted to 1434 configs of 55 products, drawn among those predicted at
    // most twice the best [log, 2026-11-28].
    {.name = "Zen 4",
     .level = CoreLevel::avx512_bf16,
     .models = {{{0x19, 0x10, 0x1f}, {0x19, 0x60, 0x7f}, {0x19, 0xa0, 0xaf}}},
     .avx512 = {1.23, 4, 37, 44},
     .pairs = 1.23,
     .quads = 1.23,
     .unit_bytes = 32,
     .load_bytes = 64,
     .store_bytes = 32,
     .l3 = 20,
     .memory = 30,
     .far_bytes = 0,
     .transposed_ns = 0.34,
     .copied_ns = 0.17,
     .page_ns = 0.85,
     .run_ns = 4,
     .mixed_line_ns = 3.3},
    // Sapphire, Emerald and Granite Rapids. A vdpbf16ps every second cycle (1.7 a nanosecond at 3.9
    // GHz), two vfmadd231ps in each [log, 2026-11-24]. A product of tiles takes 16.1 cycles alone
    // [log, 2026-11-27], 17.5 beside loads [fit]; L2 gives 48 bytes a cycle [log, 2026-11-25].
    // Loads of 2 × 64, stores of 64 bytes, two vpdpbusd [manual]. Operands of 8 to 36
    // MB come at the rate of memory [log, 2026-11-28]: a guest has little of the host's L3 to
    // itself.
    {.name = "Sapphire Rapids",
     .level = CoreLevel::amx,
     .models = {{{6, 143, 143}, {6, 207, 207}, {6, 173, 174}}},
     .pairs = 0.5,
     .tile_cycles = 17.5,
     .far_bytes = 0},
}};

/// The row that stands for all cores with such features. Which configs there are may depend on it,
/// on nothing else of the table: stored devices name no models.
constexpr const Microarchitecture& microarchitecture(const CpuFeatures& cpu) {
  for (const Microarchitecture& row : kMicroarchitectures)
    if (row.level == level_of(cpu)) return row;
  return kMicroarchitectures.front();
}

/// The row of the core's model, if its features are no more than that design has: hypervisors, and
/// classes of CPUs, hide some of them; a guest with more has another model's number. Null where
/// there is none.
constexpr const Microarchitecture* microarchitecture_of_model(const DeviceCaps& device) {
  for (const Microarchitecture& row : kMicroarchitectures)
    for (const CoreModels& models : row.models)
      if (models.family != 0 && models.family == device.core.family &&
          device.core.model >= models.first && device.core.model <= models.last &&
          level_of(device.cpu) <= row.level)
        return &row;
  return nullptr;
}

/// The same, or the row of its features.
constexpr const Microarchitecture& microarchitecture(const DeviceCaps& device) {
  const Microarchitecture* known = microarchitecture_of_model(device);
  return known != nullptr ? *known : microarchitecture(device.cpu);
}

// The table checks itself: each level has a row for unknown cores, which AMX alone gives tiles, and
// no model is named twice.
static_assert([] {
  for (const Microarchitecture& row : kMicroarchitectures) {
    if ((row.level == CoreLevel::amx) != (row.tile_cycles > 0)) return false;
    for (const CoreModels& mine : row.models)
      for (const Microarchitecture& other : kMicroarchitectures)
        for (const CoreModels& theirs : other.models)
          if (&mine != &theirs && mine.family != 0 && mine.family == theirs.family &&
              mine.first <= theirs.last && theirs.first <= mine.last)
            return false;
  }
  for (const CoreLevel level : {CoreLevel::portable, CoreLevel::avx2, CoreLevel::avx512,
                                CoreLevel::avx512_bf16, CoreLevel::amx}) {
    bool found = false;
    for (const Microarchitecture& row : kMicroarchitectures) found |= row.level == level;
    if (!found) return false;
  }
  return true;
}());

}  // namespace kiln::host
