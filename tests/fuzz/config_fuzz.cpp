// Config lines: any text gives a config or an error that says something; a config survives a round
// trip, and its family's rules and model can be asked about it however absurd its values are.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "generator/space/family.h"
#include "generator/space/space.h"

namespace {

using namespace kiln;

struct Target {
  Vendor vendor;
  DeviceCaps device;
  Problem problem;
};

/// One problem a kind of device, in a type that most of its families compute; the one whose device
/// the config is for.
const Target& target_of(const Config& config) {
  static const std::array rows{Target{Vendor::cpu, caps_named("avx512").value(),
                                      Problem::of(Gemm::row_major(64, 96, 128)).value()},
                               Target{Vendor::nvidia, caps_named("sm_90a").value(),
                                      Problem::of(Gemm::row_major(64, 96, 128, bf16)).value()},
                               Target{Vendor::amd, caps_named("gfx950").value(),
                                      Problem::of(Gemm::row_major(64, 96, 128, bf16)).value()}};
  for (const auto& row : rows)
    if (find_family(config, row.vendor) != nullptr) return row;
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config = parse_config({reinterpret_cast<const char*>(data), size});
  if (!config) {
    if (config.error().message.empty()) std::abort();
    return 0;
  }
  const auto again = parse_config(text(*config));
  if (!again || *again != *config) std::abort();
  const auto& [vendor, device, problem] = target_of(*config);
  if (broken_rule(problem, device, *config).empty() && !(predict_ns(problem, device, *config) >= 0))
    std::abort();
  return 0;
}
