#include "tuner/worker/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "generator/problem/problem.h"
#include "runtime/backend.h"
#include "runtime/env.h"
#include "runtime/memory.h"
#include "tuner/measure/gpu_timing.h"
#include "tuner/measure/operand_sets.h"
#include "tuner/verify/gpu_check.h"
#include "tuner/verify/verify.h"
#include "tuner/worker/check.h"

namespace kiln {
namespace {

constexpr double kLeastGflops = 4;
// On a GPU: a slow candidate; the references that the first check makes come on top.
constexpr double kLeastGpuGflops = 400;
constexpr double kLeastGpuSeconds = 5.0;
// Bytes a second of operands made, referred to and compared, in the first check of a problem.
constexpr double kCheckedBytes = 25e6;
constexpr double kFilledBytes = 50e6;
constexpr double kLongestSetUp = 1800;
// A first start of the driver takes seconds; loading and a few launches hardly any.
constexpr double kGpuSetUpSeconds = 40;

}  // namespace

double set_up_seconds(const Gemm& gemm, const DeviceCaps& device) {
  if (!on_host(device)) return kGpuSetUpSeconds;
  return std::min(kLongestSetUp, 10 + double(touched_bytes(gemm)) / kFilledBytes);
}

double candidate_seconds(const Gemm& gemm, const DeviceCaps& device, double call_ns) {
  if (!on_host(device))
    return kLeastGpuSeconds + gemm.flops() * 1e-9 / kLeastGpuGflops +
           reference_seconds(gemm, device);
  const double work = gemm.flops() * 1e-9 / kLeastGflops;
  const double call = call_ns > 0 ? 3e-9 * call_ns : work;
  return kLeastCandidateSeconds + 8 * call + work + double(touched_bytes(gemm)) / kCheckedBytes;
}

double patience() {
  const char* given = env("KILN_PATIENCE");
  if (given == nullptr) return 1;
  const double factor = std::strtod(given, nullptr);
  return factor >= 1 ? factor : 1;
}

Status room_to_tune(const Gemm& gemm, const DeviceCaps& device) {
  const std::string what = fmt::format("operands and reference of '{}' for tuning", text(gemm));
  if (on_host(device))
    return room_for(OperandSets::bytes_needed(gemm, device) + Verifier::bytes_needed(gemm),
                    available_memory(), what);
  if (device.gpu.memory_bytes == 0) return {};
  return room_for(GpuOperandSets::bytes_needed(Problem::of(gemm).value(), device.l2_bytes) +
                      GpuChecker::bytes_needed(gemm),
                  device.gpu.memory_bytes, what);
}

}  // namespace kiln
