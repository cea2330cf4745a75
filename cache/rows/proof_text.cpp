#include "cache/rows/proof_text.h"

#include <fmt/format.h>

#include "cache/codec/codec.h"
#include "cache/keys.h"
#include "generator/space/launch_text.h"
#include "runtime/backend.h"
#include "tuner/verify/envelope.h"

namespace kiln {

std::string proof_text(const BestKey& key, const Config& config) {
  return fmt::format("{} threads={} launch={}", key_text(key.gemm), key.device.compute_units,
                     content_hash(launch_text(key.problem(), key.device, config)));
}

std::string envelope_text(const Problem& problem, const DeviceCaps& device, const Config& config) {
  return envelope_text(problem, device, config, code_class(problem, device, config));
}

std::string envelope_text(const Problem& problem, const DeviceCaps& device, const Config& config,
                          const CodeClass& code) {
  const bool host = on_host(device);
  return fmt::format("{}{};code={:x}{:016x};launch={};threads={};{}", kEnvelopePrefix,
                     host ? kHostEnvelope : kGpuEnvelope, code.high, code.low,
                     content_hash(launch_text(problem, device, config)),
                     host ? device.compute_units : 0, text(problem.given));
}

}  // namespace kiln
