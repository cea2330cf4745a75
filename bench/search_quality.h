// How good a search of the usual length is: two searches from nothing, the second ten times as
// long, and both winners raced interleaved on the device. Knows no command line.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "kiln/engine.hpp"
#include "tuner/measure/gpu_clocks.h"

namespace kiln {

struct SearchQuality {
  double short_seconds = 0, long_seconds = 0;
  std::string short_config, long_config;
  double quality = 0;        // long winner's time / short winner's: 1 = as good
  GpuConditions conditions;  // of the race, on a GPU
};

struct SearchQualityInput {
  Gemm gemm;
  std::string device = "cpu";  // or "cuda:N", "hip:N"
  int threads = 0;
  std::chrono::duration<double> budget{10};
  std::uint64_t seed = 1;
};

/// Uses databases of its own under the temporary folder. Errors: those of Engine::tune, device.
Result<SearchQuality> measure_search_quality(const SearchQualityInput& input);

}  // namespace kiln
