#include "tuner/ragged.h"

#include <algorithm>

#include "generator/family.h"
#include "tuner/verify.h"

namespace kiln {
namespace {

bool same_constants(const std::vector<Constant>& x, const std::vector<Constant>& y) {
  return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                    [](const Constant& s, const Constant& t) {
                      return s.name == t.name && s.type == t.type && s.value == t.value;
                    });
}

}  // namespace

std::optional<Gemm> ragged_problem_for(const Gemm& gemm, const DeviceCaps& device,
                                       const Config& config) {
  const Family& family = family_of(config);
  const auto own = family.parameters(canonicalise(gemm), device, config);
  for (const Gemm& neighbour : ragged_neighbours(gemm)) {
    const Canonical problem = canonicalise(neighbour);
    if (!broken_rule(problem, device, config).empty()) continue;
    const auto its = family.parameters(problem, device, config);
    if (same_constants(own.constants, its.constants)) return neighbour;
  }
  return std::nullopt;
}

}  // namespace kiln
