#include "runtime/hip/device.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kiln/engine.hpp"
#include "runtime/hip/driver.h"

namespace kiln::hip {
namespace {

constexpr std::int64_t kGiB = 1 << 30;

/// Several looks at one device; the first that fails is remembered.
class Reader {
 public:
  Reader(const gpu::Driver& driver, int device) : driver_(driver), device_(device) {}

  int attribute(Attribute which) {
    int value = 0;
    keep(runtime().attribute(&value, which, device_), "hipDeviceGetAttribute");
    return value;
  }
  /// 0 where the runtime is too old to know it.
  int attribute_if_known(Attribute which) const {
    int value = 0;
    return runtime().attribute(&value, which, device_) == gpu::kSuccess ? value : 0;
  }
  std::string name() {
    char text[256] = {};
    keep(driver_.cuDeviceGetName(text, sizeof text, device_), "hipDeviceGetName");
    return text;
  }
  /// "gfx942" of "gfx942:sramecc+:xnack-".
  std::string arch() {
    std::vector<char> properties(kPropertiesBytes);
    keep(runtime().properties(properties.data(), device_), "hipGetDeviceProperties");
    const std::string text = properties.data() + runtime().arch_offset;
    return text.substr(0, text.find(':'));
  }
  std::int64_t memory_bytes() {
    std::size_t bytes = 0;
    keep(driver_.cuDeviceTotalMem(&bytes, device_), "hipDeviceTotalMem");
    return static_cast<std::int64_t>(bytes) / kGiB * kGiB;
  }
  const Status& status() const { return status_; }

 private:
  void keep(gpu::Code code, const char* call) {
    if (status_) status_ = gpu::check(driver_, code, call);
  }
  const gpu::Driver& driver_;
  int device_;
  Status status_;
};

Result<DeviceCaps> read_caps(const gpu::Driver& driver, int device) {
  Reader reader(driver, device);
  const std::string arch = reader.arch();
  const int units = reader.attribute(Attribute::units);
  const std::int64_t memory = reader.memory_bytes();
  if (!reader.status()) return tl::unexpected(reader.status().error());
  auto caps = hip_card(arch, units, memory, reader.attribute_if_known(Attribute::chiplets));
  if (!caps) return caps;
  // As a class, like all that is part of a key: a MHz more or less is the same device.
  caps->ghz = std::round(reader.attribute(Attribute::clock_khz) / 1e5) / 10;
  caps->model = reader.name();
  caps->gpu.wave = reader.attribute(Attribute::wave_size);
  caps->gpu.shared_block_bytes = reader.attribute(Attribute::shared_block_bytes);
  caps->gpu.threads_block = reader.attribute(Attribute::max_threads_block);
  caps->gpu.threads_unit = reader.attribute(Attribute::max_threads_unit);
  if (!reader.status()) return tl::unexpected(reader.status().error());
  return caps;
}

Result<gpu::SharedDevice> described(const gpu::Driver& driver, int ordinal) {
  gpu::Described device{.driver = driver, .ordinal = ordinal};
  if (Status ok = gpu::check(driver, driver.cuDeviceGet(&device.handle, ordinal), "hipDeviceGet");
      !ok)
    return tl::unexpected(ok.error());
  auto caps = read_caps(driver, device.handle);
  if (!caps) return tl::unexpected(caps.error());
  device.caps = std::move(*caps);
  char bus[32] = {};
  if (driver.cuDeviceGetPCIBusId(bus, sizeof bus, device.handle) == gpu::kSuccess)
    device.bus_id = bus;
  int version = 0;
  driver.cuDriverGetVersion(&version);
  device.runtime_version =
      fmt::format("kiln {}, HIP runtime {}", kiln::version(), version_text(version));
  return gpu::GpuDevice::make(std::move(device));
}

}  // namespace

Result<int> device_count() {
  const auto d = driver();
  if (!d) return tl::unexpected(d.error());
  int count = 0;
  if (Status ok = gpu::check(**d, (*d)->cuDeviceGetCount(&count), "hipGetDeviceCount"); !ok)
    return tl::unexpected(ok.error());
  return count;
}

Result<gpu::SharedDevice> open_device(int ordinal) {
  const auto failed = [&](const std::string& why) {
    return fail(ErrorCode::device, fmt::format("device = hip:{}: {}", ordinal, why));
  };
  const auto count = device_count();
  if (!count) return failed(count.error().message);
  if (ordinal < 0 || ordinal >= *count)
    return failed(fmt::format("HIP sees {} device{}", *count, *count == 1 ? "" : "s"));
  auto device = described(**driver(), ordinal);
  if (!device) return failed(device.error().message);
  return device;
}

}  // namespace kiln::hip
