// What a device can do, as a plain value: tests invent devices. Knows nothing of how it was found
// out.
#pragma once

#include <cstdint>
#include <string>

#include "kiln/error.hpp"

namespace kiln {

enum class Vendor : std::uint8_t { cpu, nvidia, amd };

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

struct DeviceCaps {
  Vendor vendor = Vendor::cpu;
  /// What the compiler is told: "x86-64-v4", "x86-64-v3", "x86-64", "aarch64"; later "sm_90a", …
  std::string arch;
  std::string model;  // marketing name, for people and for the fingerprint
  CpuFeatures cpu;
  int compute_units = 1;  // compute threads of a call on the CPU
  std::int64_t l1_bytes = 32 << 10;
  std::int64_t l2_bytes = 1 << 20;   // of one core
  std::int64_t l3_bytes = 16 << 20;  // shared
  double ghz = 0;                    // nominal clock class, 0 = unknown
  auto operator<=>(const DeviceCaps&) const = default;
};

/// The part of a key that names the device: every field above, in one line.
std::string fingerprint(const DeviceCaps& caps);

/// A CPU known by name for cross-compiling and tests: "avx512", "avx512_bf16", "amx", "avx2",
/// "portable". Errors: bad_input.
Result<DeviceCaps> cpu_caps_named(std::string_view name);

}  // namespace kiln
