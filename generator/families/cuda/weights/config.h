// The config of family cuda_weights.
#pragma once

#include <string_view>
#include <tuple>

#include "generator/families/cuda/common/choices.h"

namespace kiln {

/// A times weights of four or eight bits, which become numbers in registers.
struct CudaWeights {
  static constexpr std::string_view kFamily = "cuda_weights";
  int tile_n = 128, tile_m = 16;  // columns and rows of D in a block's tile
  int block_k = 128;              // of one stage, in elements
  int warps = 4;                  // which share the tile's columns
  int stages = 4;
  int group = 8;   // rasterization: tiles along n in a band
  int splits = 1;  // split-K
  auto operator<=>(const CudaWeights&) const = default;

  constexpr Sharing sharing() const { return splits > 1 ? Sharing::split : Sharing::tiles; }

  static constexpr auto fields() {
    using C = CudaWeights;
    return std::tuple{Field<C, int>{"tile_n", &C::tile_n},   Field<C, int>{"tile_m", &C::tile_m},
                      Field<C, int>{"block_k", &C::block_k}, Field<C, int>{"warps", &C::warps},
                      Field<C, int>{"stages", &C::stages},   Field<C, int>{"group", &C::group},
                      Field<C, int>{"splits", &C::splits}};
  }
};

}  // namespace kiln
