// Config lines: any text gives a config or an error that says something; a config survives a round
// trip, and a rule or the model can be asked about it however absurd its values are.
#include <cstdint>
#include <cstdlib>

#include "generator/space.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config = kiln::parse_config({reinterpret_cast<const char*>(data), size});
  if (!config) {
    if (config.error().message.empty()) std::abort();
    return 0;
  }
  const auto again = kiln::parse_config(kiln::text(*config));
  if (!again || *again != *config) std::abort();
  static const auto device = kiln::cpu_caps_named("avx512").value();
  static const auto problem = kiln::canonicalise(kiln::Gemm::row_major(64, 96, 128));
  if (kiln::broken_rule(problem, device, *config).empty() &&
      !(kiln::predict_ns(problem, device, *config) >= 0))
    std::abort();
  return 0;
}
