// What a device can do, as a plain value: tests invent devices. Knows nothing of how it was found
// out.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/error.hpp"

namespace kiln {

/// Whose devices these are, known by its name. `Platform` (generator/space/platform.h) holds the
/// rest; names of others come from there, and live as long as the process.
struct Vendor {
  std::string_view name;
  constexpr auto operator<=>(const Vendor&) const = default;
  static const Vendor cpu, nvidia, amd;
};
inline constexpr Vendor Vendor::cpu{"cpu"}, Vendor::nvidia{"nvidia"}, Vendor::amd{"amd"};

/// Vector and matrix extensions of a CPU that change which kernels are legal.
struct CpuFeatures {
  bool avx2_fma = false;     // AVX2 with FMA3 and F16C
  bool avx512 = false;       // F, BW, DQ, VL
  bool avx512_bf16 = false;  // vdpbf16ps
  bool avx512_vnni = false;  // vpdpbusd
  bool amx_bf16 = false;     // tdpbf16ps, and the kernel granted tile state
  bool amx_int8 = false;     // tdpb[us][us]d
  auto operator<=>(const CpuFeatures&) const = default;
};

/// CPUID's family and model, which say how fast a core is and never what it may run: guests hide
/// them. No part of a fingerprint or of a key, and equal to any other: devices read from a database
/// have none.
struct CoreModel {
  int family = 0, model = 0;  // 0: not known
  constexpr bool operator==(const CoreModel&) const { return true; }
  constexpr std::strong_ordering operator<=>(const CoreModel&) const {
    return std::strong_ordering::equal;
  }
};

/// What a GPU has that decides which kernels are legal, and how they rank.
struct GpuFeatures {
  int sm = 0;                     // compute capability, 90 for sm_90; 0: not NVIDIA's
  bool arch_specific = false;     // the compiler's target is sm_NNa: wgmma, setmaxnreg, …
  int wave = 0;                   // lanes that run in lockstep
  int shared_block_bytes = 0;     // shared memory that one block may opt in to
  int shared_unit_bytes = 0;      // shared memory of one SM, or LDS of one CU
  int registers_unit = 0;         // 32-bit registers of one SM or CU, times lanes
  int threads_unit = 0;           // resident threads of one SM
  int threads_block = 0;          // threads of one block
  std::int64_t memory_bytes = 0;  // of the device, in whole GiB: a class, not a reading
  int memory_gbs = 0;             // nominal bandwidth in GB/s, a class too
  int chiplets = 0;               // AMD's XCDs of the partition: blocks go to them in turn
  auto operator<=>(const GpuFeatures&) const = default;
};

struct DeviceCaps {
  Vendor vendor = Vendor::cpu;
  /// What the compiler is told: "x86-64-v4", "x86-64-v3", "x86-64", "aarch64"; "sm_90a", …
  std::string arch;
  std::string model;  // marketing name, for people and for the fingerprint
  CpuFeatures cpu;
  GpuFeatures gpu;
  int compute_units = 1;  // compute threads of a call on the CPU, SMs of a GPU
  std::int64_t l1_bytes = 32 << 10;
  std::int64_t l2_bytes = 1 << 20;   // of one core; a GPU's whole L2
  std::int64_t l3_bytes = 16 << 20;  // shared; 0 on a GPU
  double ghz = 0;                    // nominal clock class, 0 = unknown
  CoreModel core = {};
  auto operator<=>(const DeviceCaps&) const = default;
};

/// The part of a key that names the device: every field above but `core`, in one line.
std::string fingerprint(const DeviceCaps& caps);

/// A CPU known by name for cross-compiling, classes of CPUs and tests: "avx512", "avx512_vnni",
/// "avx512_bf16", "amx", "avx2", "portable". Errors: bad_input.
Result<DeviceCaps> cpu_caps_named(std::string_view name);

/// A GPU known by its compiler target, with the figures of one well-known card of it: "sm_75",
/// "sm_80", … "sm_90", "sm_90a", "sm_100a", "sm_120a". Errors: bad_input.
Result<DeviceCaps> cuda_caps_named(std::string_view name);

/// An AMD GPU by its compiler target, with the figures of one card of it ("gfx90a", "gfx942",
/// "gfx950", "gfx1100", "gfx1200"), or by the card's own name ("mi325x"). Errors: bad_input.
Result<DeviceCaps> hip_caps_named(std::string_view name);
/// The card of this target whose memory is nearest, with `units` of its compute units: a partition
/// has that share of its chiplets, cache and bandwidth too. `chiplets` 0: not known, that share.
/// Errors: unsupported (no such target is known).
Result<DeviceCaps> hip_card(std::string_view arch, int units, std::int64_t memory_bytes,
                            int chiplets);
/// The names above, as messages list them: "mi300x (gfx942), …".
std::string known_hip_gpus();

/// The CPUs that are known by name: "portable", "avx2", …
std::vector<std::string> cpu_names();
/// Compiler targets of the GPUs that are known by name: "sm_75", …, "gfx90a", …
std::vector<std::string> gpu_targets();
/// Those of AMD's among them.
std::vector<std::string> hip_targets();

/// Any device that is known by name alone, for cross-compiling and tests: a CPU's name or a GPU's
/// target. Errors: bad_input, listing what is known.
Result<DeviceCaps> caps_named(std::string_view name);

}  // namespace kiln
