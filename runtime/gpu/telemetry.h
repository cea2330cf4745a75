// What an NVIDIA GPU's sensors say: clocks, power, temperature, what slows it down. NVML is opened
// at run time and its few functions are declared by hand, as the driver's are. A machine without it
// has no figures, which is not an error. Knows nothing of measuring.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln::gpu {

/// A look at everything but the SM clock. Whatever the driver does not tell is 0.
struct Reading {
  int memory_mhz = 0;
  double watts = 0;  ///< as the driver averages it: over a second on some boards
  int celsius = 0;
  std::uint64_t reasons = 0;  ///< bits of NVML's reasons for a lower clock; see slowdowns()
};

/// The sensors of one device. NVML may be used by any thread.
class Telemetry {
 public:
  /// Null where there is no NVML or it does not know the device. `bus_id` as the driver tells it
  /// ("0000:3b:00.0"): NVML counts devices that CUDA_VISIBLE_DEVICES hides, so numbers differ.
  static std::unique_ptr<const Telemetry> open(const std::string& bus_id,
                                               const std::vector<std::string>& libraries = {
                                                   "libnvidia-ml.so.1"});
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  /// By itself, because it is wanted more often; 0 where the driver does not tell.
  int sm_mhz() const;
  /// What the board used since its driver was loaded; nothing where the driver does not tell.
  std::optional<double> joules() const;
  Reading read() const;

 private:
  struct Functions;
  explicit Telemetry(std::unique_ptr<Functions> functions);

  const std::unique_ptr<Functions> nvml_;
  void* device_ = nullptr;
};

/// "power cap", "thermal slowdown", …: those of the reasons that take speed from a busy device.
std::vector<std::string> slowdowns(std::uint64_t reasons);

}  // namespace kiln::gpu
