// Search spaces: value lists + named rules, per family. Pure functions over values.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "generator/problem/device_caps.h"
#include "generator/problem/problem.h"
#include "generator/space/config.h"
#include "kiln/options.hpp"

namespace kiln {

struct SearchSpace {
  Problem problem;
  DeviceCaps device;
  std::vector<Config> legal;                     // deterministic order
  std::map<std::string, std::int64_t> rejected;  // rule name -> points it refused
};

/// All legal points of all families that apply and that the class of determinism allows. Errors:
/// unsupported.
Result<SearchSpace> space_for(const Problem& problem, const DeviceCaps& device,
                              Determinism determinism = Determinism::run_to_run);

/// Why `config` is illegal for the problem ("rule name"), or empty.
std::string_view broken_rule(const Problem& problem, const DeviceCaps& device,
                             const Config& config);

/// The most that each product or addition of this kernel may lose because its instructions take
/// denormals for zero, where the factors are at most 1; 0: they keep them. vdpbf16ps and tdpbf16ps:
/// 2^-126. Matrix instructions of gfx90a: 2^-126 of bf16, 2^-14 of fp16 (inputs alone).
double flushed_by(const Gemm& gemm, const DeviceCaps& device, const Config& config);

/// What slows these types down on this device though a close relative would not be: fp8 in the one
/// of its two spellings that the matrix instructions do not read. A sentence, or empty.
std::string slow_types(const Gemm& gemm, const DeviceCaps& device);

/// The analytic model: predicted time of one call in nanoseconds. Ranks; does not promise.
double predict_ns(const Problem& problem, const DeviceCaps& device, const Config& config);

/// Whether a family of the device's vendor has a config for the problem that needs no search. On a
/// CPU the built-in reference kernel computes every one.
bool has_fallback(const Problem& problem, const DeviceCaps& device);
/// That config, where there is one; on GPUs its rules have the last word.
Config fallback_config(const Problem& problem, const DeviceCaps& device);

}  // namespace kiln
