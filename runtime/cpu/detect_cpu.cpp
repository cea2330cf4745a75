// What this CPU can do: cpuid and xgetbv on x86, sysfs for the caches. Neither asks for a driver.
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>

#include "runtime/cpu/affinity.h"
#include "runtime/cpu/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kiln {
namespace {

#if defined(__x86_64__)

struct Cpuid {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

/// All zero when the leaf does not exist.
Cpuid cpuid(unsigned leaf, unsigned sub = 0) {
  Cpuid r;
  if (!__get_cpuid_count(leaf, sub, &r.a, &r.b, &r.c, &r.d)) return {};
  return r;
}

constexpr bool bit(unsigned word, int at) { return (word >> at & 1u) != 0; }

/// Register state that the operating system saves across a task switch; without it the instructions
/// fault, whatever cpuid says.
unsigned saved_state() {
  if (!bit(cpuid(1).c, 27)) return 0;  // OSXSAVE
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

/// Tile state is handed out on request, once a process and for all of its threads.
bool amx_granted() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // asm/prctl.h, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

CpuFeatures detect_features(std::string& arch) {
  constexpr unsigned kYmm = 0x6, kZmm = 0xe6, kTiles = 0x60000;
  const Cpuid one = cpuid(1), seven = cpuid(7), seven1 = cpuid(7, 1), ext = cpuid(0x80000001);
  const unsigned state = saved_state();
  CpuFeatures f;
  // x86-64-v3 is more than AVX2: MOVBE, LZCNT, BMI1 and BMI2 are compiled in too.
  f.avx2_fma = (state & kYmm) == kYmm && bit(one.c, 28) && bit(one.c, 12) && bit(one.c, 29) &&
               bit(one.c, 22) && bit(ext.c, 5) && bit(seven.b, 3) && bit(seven.b, 5) &&
               bit(seven.b, 8);
  // F, DQ, CD, BW, VL: what x86-64-v4 asks for.
  f.avx512 = f.avx2_fma && (state & kZmm) == kZmm && bit(seven.b, 16) && bit(seven.b, 17) &&
             bit(seven.b, 28) && bit(seven.b, 30) && bit(seven.b, 31);
  f.avx512_bf16 = f.avx512 && bit(seven1.a, 5);
  f.avx512_vnni = f.avx512 && bit(seven.c, 11);
  const bool tiles = f.avx512 && (state & kTiles) == kTiles && bit(seven.d, 24) && amx_granted();
  f.amx_bf16 = tiles && bit(seven.d, 22);
  f.amx_int8 = tiles && bit(seven.d, 25);
  arch = f.avx512 ? "x86-64-v4" : f.avx2_fma ? "x86-64-v3" : "x86-64";
  return f;
}

std::string model_name() {
  std::array<unsigned, 12> words{};
  for (unsigned i = 0; i < 3; ++i) {
    const Cpuid r = cpuid(0x80000002 + i);
    words[4 * i] = r.a;
    words[4 * i + 1] = r.b;
    words[4 * i + 2] = r.c;
    words[4 * i + 3] = r.d;
  }
  std::array<char, sizeof(words) + 1> text{};
  std::memcpy(text.data(), words.data(), sizeof(words));
  return text.data();
}

/// As its vendors spell them: extended parts are added to family 15, and shifted before models of
/// families 6 and 15.
CoreModel core_model() {
  const unsigned version = cpuid(1).a;
  const auto bits = [&](int at, unsigned mask) { return static_cast<int>(version >> at & mask); };
  CoreModel core{.family = bits(8, 0xf), .model = bits(4, 0xf)};
  if (core.family == 6 || core.family == 15) core.model += bits(16, 0xf) << 4;
  if (core.family == 15) core.family += bits(20, 0xff);
  return core;
}

/// Base clock from cpuid leaf 16h; AMD and many virtual machines leave it empty.
double base_ghz() { return std::round(cpuid(0x16).a / 100.0) / 10; }

#else

CpuFeatures detect_features(std::string& arch) {
#if defined(__aarch64__)
  arch = "aarch64";
#else
  arch = "generic";
#endif
  return {};
}

std::string model_name() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1");
  std::string midr;
  return file >> midr ? "midr " + midr : "";
}

double base_ghz() { return 0; }

CoreModel core_model() { return {}; }

#endif

/// Spaces at either end and doubled spaces carry nothing, and differ between firmware versions.
std::string tidy(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == ' ' && (out.empty() || out.back() == ' ')) continue;
    out += c;
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

template <typename T>
bool read(const std::string& path, T& value) {
  std::ifstream file(path);
  return static_cast<bool>(file >> value);
}

/// Sizes are written as "48K"; DeviceCaps' defaults stay where the system reports nothing.
void read_caches(int cpu, DeviceCaps& caps) {
  const std::string root = fmt::format("/sys/devices/system/cpu/cpu{}/cache/index", cpu);
  for (int index = 0; index < 8; ++index) {
    const std::string at = fmt::format("{}{}/", root, index);
    int level = 0;
    std::string type, size;
    if (!read(at + "level", level)) break;
    if (!read(at + "type", type) || !read(at + "size", size) || type == "Instruction") continue;
    const std::int64_t unit = size.back() == 'M' ? 1 << 20 : size.back() == 'K' ? 1 << 10 : 1;
    const std::int64_t bytes = std::atoll(size.c_str()) * unit;
    if (bytes <= 0) continue;
    if (level == 1) caps.l1_bytes = bytes;
    if (level == 2) caps.l2_bytes = bytes;
    if (level == 3) caps.l3_bytes = bytes;
  }
}

}  // namespace

Result<DeviceCaps> detect_cpu(int threads) {
  const auto cores = allowed_cores();
  int cpus = 0;
  for (const auto& core : cores) cpus += static_cast<int>(core.size());
  if (threads < 0 || threads > cpus)
    return fail(ErrorCode::bad_input,
                fmt::format("threads = {}: must be 1 to {}, or 0 for every core", threads, cpus));
  // Features and model cannot change while we run; cpuid traps to the hypervisor (~25 µs a leaf).
  static const DeviceCaps& machine = [&cores]() -> DeviceCaps& {
    auto& caps = *new DeviceCaps;
    caps.cpu = detect_features(caps.arch);
    caps.model = tidy(model_name());
    caps.ghz = base_ghz();
    caps.core = core_model();
    read_caches(cores.front().front(), caps);
    return caps;
  }();
  DeviceCaps caps = machine;
  caps.compute_units = threads != 0 ? threads : static_cast<int>(cores.size());
  return caps;
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures found = detect_cpu(1)->cpu;
  return found;
}

}  // namespace kiln
