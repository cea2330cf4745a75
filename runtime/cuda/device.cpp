#include "runtime/cuda/device.h"

#include <fmt/format.h>

#include <cmath>

#include "kiln/engine.hpp"
#include "runtime/cuda/driver.h"

namespace kiln::cuda {
namespace {

constexpr std::int64_t kGiB = 1 << 30;
/// First capability whose compiler target has an architecture-specific variant.
constexpr int kFirstSpecific = 90;

Status read_caps(const gpu::Driver& driver, gpu::Device device, DeviceCaps& caps) {
  Status status;
  const auto read = [&](gpu::Attribute attribute) {
    int value = 0;
    if (Status ok = gpu::check(driver, driver.cuDeviceGetAttribute(&value, attribute, device),
                               "cuDeviceGetAttribute");
        !ok)
      status = ok;
    return value;
  };
  char name[256] = {};
  std::size_t bytes = 0;
  if (Status ok =
          gpu::check(driver, driver.cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName");
      !ok)
    return ok;
  if (Status ok = gpu::check(driver, driver.cuDeviceTotalMem(&bytes, device), "cuDeviceTotalMem");
      !ok)
    return ok;
  GpuFeatures& gpu = caps.gpu;
  gpu.sm = 10 * read(gpu::Attribute::capability_major) + read(gpu::Attribute::capability_minor);
  gpu.arch_specific = gpu.sm >= kFirstSpecific;
  gpu.wave = read(gpu::Attribute::warp_size);
  gpu.shared_block_bytes = read(gpu::Attribute::shared_block_optin);
  gpu.shared_unit_bytes = read(gpu::Attribute::shared_unit_bytes);
  gpu.registers_unit = read(gpu::Attribute::registers_unit);
  gpu.threads_unit = read(gpu::Attribute::max_threads_unit);
  gpu.threads_block = read(gpu::Attribute::max_threads_block);
  // Rounded to classes: the last MiB and MHz differ between boards and drivers, and a key must not.
  gpu.memory_bytes = static_cast<std::int64_t>(bytes) / kGiB * kGiB;
  // Two transfers a clock of the memory bus.
  gpu.memory_gbs = static_cast<int>(std::lround(2.0 * read(gpu::Attribute::memory_clock_khz) *
                                                read(gpu::Attribute::memory_bus_bits) / 8e6 / 100) *
                                    100);
  caps.vendor = Vendor::nvidia;
  caps.arch = fmt::format("sm_{}{}", gpu.sm, gpu.arch_specific ? "a" : "");
  caps.model = name;
  caps.compute_units = read(gpu::Attribute::multiprocessors);
  caps.l1_bytes = gpu.shared_unit_bytes;
  caps.l2_bytes = read(gpu::Attribute::l2_bytes);
  caps.l3_bytes = 0;
  caps.ghz = std::round(read(gpu::Attribute::clock_khz) / 1e5) / 10;
  return status;
}

Status look_at(gpu::Described& device) {
  const gpu::Driver& d = device.driver;
  if (Status ok = gpu::check(d, d.cuDeviceGet(&device.handle, device.ordinal), "cuDeviceGet"); !ok)
    return ok;
  if (Status ok = read_caps(d, device.handle, device.caps); !ok) return ok;
  char bus[32] = {};
  if (d.cuDeviceGetPCIBusId(bus, sizeof bus, device.handle) == gpu::kSuccess) device.bus_id = bus;
  int version = 0;
  d.cuDriverGetVersion(&version);
  device.runtime_version =
      fmt::format("kiln {}, CUDA driver {}", kiln::version(), version_text(version));
  return {};
}

}  // namespace

Result<int> device_count() {
  const auto d = driver();
  if (!d) return tl::unexpected(d.error());
  int count = 0;
  if (Status ok = gpu::check(**d, (*d)->cuDeviceGetCount(&count), "cuDeviceGetCount"); !ok)
    return tl::unexpected(ok.error());
  return count;
}

Result<gpu::SharedDevice> open_device(int ordinal) {
  const auto count = device_count();
  if (!count)
    return fail(ErrorCode::device,
                fmt::format("device = cuda:{}: {}", ordinal, count.error().message));
  if (ordinal < 0 || ordinal >= *count)
    return fail(ErrorCode::device, fmt::format("device = cuda:{}: the driver sees {} device{}",
                                               ordinal, *count, *count == 1 ? "" : "s"));
  gpu::Described device{.driver = **driver(), .ordinal = ordinal};
  const Status described = look_at(device);
  auto opened =
      described ? gpu::GpuDevice::make(std::move(device)) : tl::unexpected(described.error());
  if (!opened)
    return fail(ErrorCode::device,
                fmt::format("device = cuda:{}: {}", ordinal, opened.error().message));
  return opened;
}

}  // namespace kiln::cuda
