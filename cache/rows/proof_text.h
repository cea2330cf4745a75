// What names a proof in the table `verification`. Pure functions of values.
#pragma once

#include <string>

#include "cache/record.h"
#include "generator/space/code_class.h"

namespace kiln {

/// Of one problem: the problem, the number of threads, since races depend on it, and the launch.
std::string proof_text(const BestKey& key, const Config& config);

/// Over the envelope of a problem's code: version, code class, launch, threads of a CPU, shape. The
/// config breaks no rule.
std::string envelope_text(const Problem& problem, const DeviceCaps& device, const Config& config);
std::string envelope_text(const Problem& problem, const DeviceCaps& device, const Config& config,
                          const CodeClass& code);
/// What every such text begins with.
inline constexpr const char* kEnvelopePrefix = "envelope=";

}  // namespace kiln
