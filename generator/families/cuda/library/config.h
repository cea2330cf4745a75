// The vendor's GEMM library among the configs, so that its times are rows like any other: a peer
// in every race, and where the caller allows it a winner. Nothing is generated for it.
#pragma once

#include <limits>
#include <string_view>
#include <tuple>

#include "generator/space/field.h"

namespace kiln {

/// cuBLASLt's n-th proposal for the problem, as the heuristic of one version of it orders them:
/// another version may propose other algorithms under the same numbers.
struct CudaLibrary {
  static constexpr std::string_view kFamily = "cublaslt";
  int choice = 0;
  int version = 0;  // as cublasLtGetVersion() counts, e.g. 130002; 0: not recorded
  auto operator<=>(const CudaLibrary&) const = default;

  static constexpr auto fields() {
    using C = CudaLibrary;
    return std::tuple{Field<C, int>{"choice", &C::choice},
                      Field<C, int>{"version", &C::version, std::numeric_limits<int>::max(), true}};
  }
};

}  // namespace kiln
