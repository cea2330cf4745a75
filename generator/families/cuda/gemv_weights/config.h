// The config of family cuda_gemv_weights.
#pragma once

#include <string_view>
#include <tuple>

#include "generator/space/field.h"

namespace kiln {

/// Few rows of A times weights of four or eight bits, bound by memory.
struct CudaGemvWeights {
  static constexpr std::string_view kFamily = "cuda_gemv_weights";
  int tile_n = 16, tile_m = 8;  // columns and rows of D in a block's tile
  int warps = 8;                // which share k
  int ahead = 4;                // chunks of k on their way to a warp
  auto operator<=>(const CudaGemvWeights&) const = default;

  static constexpr auto fields() {
    using C = CudaGemvWeights;
    return std::tuple{Field<C, int>{"tile_n", &C::tile_n}, Field<C, int>{"tile_m", &C::tile_m},
                      Field<C, int>{"warps", &C::warps}, Field<C, int>{"ahead", &C::ahead}};
  }
};

}  // namespace kiln
