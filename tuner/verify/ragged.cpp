#include "tuner/verify/ragged.h"

#include <algorithm>

#include "generator/space/code_class.h"
#include "runtime/backend.h"
#include "tuner/verify/verify.h"

namespace kiln {
namespace {

/// Ragged sizes a little smaller still; pitches stay, which smaller sizes keep legal.
Gemm shrunk(Gemm gemm, std::int64_t by) {
  gemm.m = std::max<std::int64_t>(1, gemm.m - by);
  gemm.n = std::max<std::int64_t>(1, gemm.n - by);
  return gemm;
}

/// Codes differ by what is left beyond whole tiles: of so many sizes beside one another, some leave
/// as much as the problem itself does.
constexpr std::int64_t kSizesTried = 256;

/// The largest odd multiple of `step` that is no more than `most`; the size itself when smaller.
std::int64_t cut(std::int64_t size, std::int64_t most, std::int64_t step) {
  if (size <= most) return size;
  const std::int64_t multiple = most / step;
  return (multiple % 2 == 1 ? multiple : multiple - 1) * step;
}

}  // namespace

std::optional<Gemm> small_problem_for(const Gemm& gemm, const DeviceCaps& device,
                                      const Config& config, double most_work) {
  const CodeClass own = code_class(Problem::of(gemm).value(), device, config);
  // More than one tile of the largest, and several stages.
  constexpr std::int64_t kRows = 330;
  constexpr std::int64_t kDepths[] = {160, 320, 640, 1280, 2560, 5120};
  constexpr std::int64_t kSteps[] = {1, 4, 16, 64, 128, 256};
  Gemm small = gemm;
  small.batch = std::min<std::int64_t>(gemm.batch, 2);
  const auto fits = [&] {
    if (small.flops() / 2 > most_work) return false;
    const auto problem = Problem::of(small);
    return problem && broken_rule(*problem, device, config).empty() &&
           code_class(*problem, device, config) == own;
  };
  for (const std::int64_t depth : kDepths)
    for (const std::int64_t step_k : kSteps)
      for (const std::int64_t step : kSteps) {
        small.m = cut(gemm.m, kRows, step);
        small.n = cut(gemm.n, kRows, step);
        small.k = cut(gemm.k, std::max(depth, step_k), step_k);
        if (fits()) return small;
      }
  return std::nullopt;
}

std::optional<Gemm> ragged_problem_for(const Gemm& gemm, const DeviceCaps& device,
                                       const Config& config) {
  const CodeClass own = code_class(Problem::of(gemm).value(), device, config);
  for (const Gemm& base : ragged_neighbours(gemm)) {
    for (std::int64_t i = 0; i < kSizesTried && 2 * i < std::max(base.m, base.n); ++i) {
      const Gemm neighbour = shrunk(base, 2 * i);
      const auto problem = Problem::of(neighbour);
      if (!problem || !broken_rule(*problem, device, config).empty()) continue;
      if (code_class(*problem, device, config) == own) return neighbour;
    }
  }
  return std::nullopt;
}

Gemm proof_problem(const Gemm& gemm, const DeviceCaps& device, const Config& config) {
  if (!on_host(device) || gemm.flops() / 2 <= kCheapToProve) return gemm;
  return ragged_problem_for(gemm, device, config).value_or(gemm);
}

}  // namespace kiln
