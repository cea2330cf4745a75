// A fake NVML with one board and a script: FAKE_NVML_SM_MHZ lists the SM clocks that are answered
// one after the other, over and over, from each nvmlInit on. FAKE_NVML_THROTTLE is the bits of the
// reasons for a lower clock, FAKE_NVML_MILLIJOULES what each reading of the energy adds to it;
// where it is not set the board does not tell. A test in the process may say both instead. Knows
// nothing of kiln.
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kOk = 0, kUninitialized = 1, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6;
/// That of the fake HIP device.
constexpr const char* kBusId = "0000:0c:00.0";

struct Board {
  std::mutex mutex;
  int users = 0;
  std::vector<unsigned> clocks;
  std::size_t next = 0;
  unsigned long long millijoules = 0;
  bool energy_is_said = false;

  void rewind() {
    const char* script = std::getenv("KILN_FAKE_NVML_SM_MHZ");
    std::istringstream words(script == nullptr ? "1980" : script);
    clocks.clear();
    next = 0;
    for (std::string word; std::getline(words, word, ',');)
      clocks.push_back(static_cast<unsigned>(std::stoul(word)));
  }
  bool known(void* device) const { return users > 0 && device == this; }
};

Board& board() {
  static Board one;
  return one;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int nvmlInit_v2() {
  const std::lock_guard lock(board().mutex);
  ++board().users;
  board().rewind();
  return kOk;
}
int nvmlShutdown() {
  const std::lock_guard lock(board().mutex);
  if (board().users == 0) return kUninitialized;
  --board().users;
  return kOk;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  if (std::strcmp(bus_id, kBusId) != 0) return kNotFound;
  *device = &board();
  return kOk;
}
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
  const std::lock_guard lock(board().mutex);
  if (!board().known(device)) return kInvalidArgument;
  if (type == 1) *mhz = board().clocks[board().next++ % board().clocks.size()];
  if (type == 2) *mhz = 2619;
  return type == 1 || type == 2 ? kOk : kInvalidArgument;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  if (!board().known(device)) return kInvalidArgument;
  *milliwatts = 512'500;
  return kOk;
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  if (!board().known(device) || sensor != 0) return kInvalidArgument;
  *celsius = 61;
  return kOk;
}
/// The older name of the two: the newer one is missing, as before driver 535.
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  if (!board().known(device)) return kInvalidArgument;
  const char* bits = std::getenv("KILN_FAKE_NVML_THROTTLE");
  *reasons = bits == nullptr ? 1 : std::stoull(bits);
  return kOk;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  const std::lock_guard lock(board().mutex);
  if (!board().known(device)) return kInvalidArgument;
  const char* step = std::getenv("KILN_FAKE_NVML_MILLIJOULES");
  if (step == nullptr && !board().energy_is_said) return kNotSupported;
  if (step != nullptr) board().millijoules += std::stoull(step);
  *millijoules = board().millijoules;
  return kOk;
}
/// What is answered from now on.
void fake_nvml_say(unsigned sm_mhz, unsigned long long millijoules) {
  const std::lock_guard lock(board().mutex);
  board().clocks = {sm_mhz};
  board().millijoules = millijoules;
  board().energy_is_said = true;
}
/// The energy is not told again.
void fake_nvml_forget() {
  const std::lock_guard lock(board().mutex);
  board().energy_is_said = false;
}
/// How many nvmlInit were not followed by their nvmlShutdown.
int fake_nvml_users() { return board().users; }
}
#pragma GCC visibility pop
