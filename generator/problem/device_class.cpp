#include "generator/problem/device_class.h"

#include <array>

namespace kiln {
namespace {

constexpr std::array<std::string_view, 6> kClasses{"amx",    "avx512_bf16", "avx512_vnni",
                                                   "avx512", "avx2",        "portable"};

bool is_x86(const DeviceCaps& device) { return device.arch.starts_with("x86-64"); }

}  // namespace

bool covers(const CpuFeatures& device, const CpuFeatures& wanted) {
  // Structured bindings: a new feature stops this from compiling until it is compared.
  const auto& [avx2_fma, avx512, avx512_bf16, avx512_vnni, amx_bf16, amx_int8] = device;
  return avx2_fma >= wanted.avx2_fma && avx512 >= wanted.avx512 &&
         avx512_bf16 >= wanted.avx512_bf16 && avx512_vnni >= wanted.avx512_vnni &&
         amx_bf16 >= wanted.amx_bf16 && amx_int8 >= wanted.amx_int8;
}

Result<DeviceCaps> device_class(std::string_view name) {
  auto caps = cpu_caps_named(name);
  if (caps) caps->compute_units = kMostClassThreads;
  return caps;
}

std::string_view class_name(const DeviceCaps& device) {
  if (device.vendor != Vendor::cpu || device.compute_units != kMostClassThreads) return {};
  for (const std::string_view name : kClasses)
    if (const auto caps = device_class(name); caps && *caps == device) return name;
  return {};
}

std::vector<DeviceCaps> classes_of(const DeviceCaps& device) {
  std::vector<DeviceCaps> classes;
  if (device.vendor != Vendor::cpu) return classes;
  for (const std::string_view name : kClasses) {
    auto of_class = device_class(name);
    if (of_class && is_x86(*of_class) == is_x86(device) && covers(device.cpu, of_class->cpu))
      classes.push_back(std::move(*of_class));
  }
  return classes;
}

DeviceCaps limited_to_class(DeviceCaps device, const DeviceCaps& of_class) {
  device.arch = of_class.arch;
  device.cpu = of_class.cpu;
  return device;
}

bool are_relatives(const DeviceCaps& x, const DeviceCaps& y) {
  if (x.vendor == Vendor::cpu) return false;
  DeviceCaps like_x = y;
  like_x.model = x.model;
  like_x.gpu.memory_bytes = x.gpu.memory_bytes, like_x.gpu.memory_gbs = x.gpu.memory_gbs;
  like_x.l1_bytes = x.l1_bytes, like_x.l2_bytes = x.l2_bytes, like_x.l3_bytes = x.l3_bytes;
  like_x.ghz = x.ghz;
  return like_x == x;
}

}  // namespace kiln
