// The vendor's GEMM library among the configs, so that its times are rows like any other: a rival
// in every race, and where the caller allows it a winner. Nothing is generated for it.
#pragma once

#include <string_view>
#include <tuple>

#include "generator/families.h"

namespace kiln {

/// cuBLASLt's n-th proposal for the problem, as its heuristic orders them.
struct CudaLibrary {
  static constexpr std::string_view kFamily = "cublaslt";
  int choice = 0;
  auto operator<=>(const CudaLibrary&) const = default;

  static constexpr auto fields() {
    using C = CudaLibrary;
    return std::tuple{Field<C, int>{"choice", &C::choice}};
  }
};

}  // namespace kiln
