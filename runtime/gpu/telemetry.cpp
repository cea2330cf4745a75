#include "runtime/gpu/telemetry.h"

#include <utility>

#include "runtime/gpu/shared_library.h"

namespace kiln::gpu {
namespace {

using NvmlCode = int;  // nvmlReturn_t
constexpr NvmlCode kOk = 0;

/// nvmlClockType_t.
enum class Clock : int { sm = 1, memory = 2 };
/// nvmlTemperatureSensors_t.
constexpr int kGpuSensor = 0;

/// nvmlClocksEventReason…: the bits that stand for a loss. Idleness, chosen clocks and those of a
/// display are none.
constexpr std::pair<std::uint64_t, const char*> kSlowdowns[] = {
    {0x04, "power cap"},        {0x08, "hardware slowdown"},
    {0x10, "sync boost"},       {0x20, "software thermal slowdown"},
    {0x40, "thermal slowdown"}, {0x80, "power brake"}};

}  // namespace

struct Telemetry::Functions {
  NvmlCode (*nvmlInit)();
  NvmlCode (*nvmlShutdown)();
  NvmlCode (*nvmlDeviceGetHandleByPciBusId)(const char* bus_id, void** device);
  NvmlCode (*nvmlDeviceGetClockInfo)(void* device, Clock, unsigned* mhz);
  NvmlCode (*nvmlDeviceGetPowerUsage)(void* device, unsigned* milliwatts);
  NvmlCode (*nvmlDeviceGetTemperature)(void* device, int sensor, unsigned* celsius);
  /// Its name before driver 535 is the other of the two that are tried. May be null.
  NvmlCode (*nvmlDeviceGetCurrentClocksEventReasons)(void* device, unsigned long long* reasons);
  /// May be null.
  NvmlCode (*nvmlDeviceGetTotalEnergyConsumption)(void* device, unsigned long long* millijoules);

  bool load(const SharedLibrary& library) {
    if (!library.load(nvmlDeviceGetCurrentClocksEventReasons,
                      "nvmlDeviceGetCurrentClocksEventReasons"))
      library.load(nvmlDeviceGetCurrentClocksEventReasons,
                   "nvmlDeviceGetCurrentClocksThrottleReasons");
    library.load(nvmlDeviceGetTotalEnergyConsumption, "nvmlDeviceGetTotalEnergyConsumption");
    return library.load(nvmlInit, "nvmlInit_v2") && library.load(nvmlShutdown, "nvmlShutdown") &&
           library.load(nvmlDeviceGetHandleByPciBusId, "nvmlDeviceGetHandleByPciBusId_v2") &&
           library.load(nvmlDeviceGetClockInfo, "nvmlDeviceGetClockInfo") &&
           library.load(nvmlDeviceGetPowerUsage, "nvmlDeviceGetPowerUsage") &&
           library.load(nvmlDeviceGetTemperature, "nvmlDeviceGetTemperature");
  }

  int mhz(void* device, Clock clock) const {
    unsigned value = 0;
    return nvmlDeviceGetClockInfo(device, clock, &value) == kOk ? static_cast<int>(value) : 0;
  }
};

std::unique_ptr<const Telemetry> Telemetry::open(const std::string& bus_id,
                                                 const std::vector<std::string>& libraries) {
  const auto library = SharedLibrary::open(libraries);
  auto functions = std::make_unique<Functions>();
  if (!library || !functions->load(*library) || functions->nvmlInit() != kOk) return nullptr;
  std::unique_ptr<Telemetry> made(new Telemetry(std::move(functions)));
  if (made->nvml_->nvmlDeviceGetHandleByPciBusId(bus_id.c_str(), &made->device_) != kOk)
    return nullptr;
  return made;
}

Telemetry::Telemetry(std::unique_ptr<Functions> functions) : nvml_(std::move(functions)) {}

Telemetry::~Telemetry() { nvml_->nvmlShutdown(); }

int Telemetry::sm_mhz() const { return nvml_->mhz(device_, Clock::sm); }

std::optional<double> Telemetry::joules() const {
  unsigned long long millijoules = 0;
  if (nvml_->nvmlDeviceGetTotalEnergyConsumption == nullptr ||
      nvml_->nvmlDeviceGetTotalEnergyConsumption(device_, &millijoules) != kOk)
    return std::nullopt;
  return static_cast<double>(millijoules) * 1e-3;
}

Reading Telemetry::read() const {
  Reading reading;
  reading.memory_mhz = nvml_->mhz(device_, Clock::memory);
  unsigned value = 0;
  if (nvml_->nvmlDeviceGetPowerUsage(device_, &value) == kOk) reading.watts = value / 1e3;
  if (nvml_->nvmlDeviceGetTemperature(device_, kGpuSensor, &value) == kOk)
    reading.celsius = static_cast<int>(value);
  unsigned long long reasons = 0;
  if (nvml_->nvmlDeviceGetCurrentClocksEventReasons != nullptr &&
      nvml_->nvmlDeviceGetCurrentClocksEventReasons(device_, &reasons) == kOk)
    reading.reasons = reasons;
  return reading;
}

std::vector<std::string> slowdowns(std::uint64_t reasons) {
  std::vector<std::string> names;
  for (const auto& [bit, name] : kSlowdowns)
    if (reasons & bit) names.emplace_back(name);
  return names;
}

}  // namespace kiln::gpu
