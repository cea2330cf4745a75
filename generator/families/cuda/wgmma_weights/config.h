// The config of family cuda_wgmma_weights.
#pragma once

#include <string_view>
#include <tuple>

#include "generator/families/cuda/common/choices.h"

namespace kiln {

/// Hopper: A times weights of four or eight bits, which are the left operand of wgmma and become
/// numbers in registers.
struct CudaWgmmaWeights {
  static constexpr std::string_view kFamily = "cuda_wgmma_weights";
  int tile_m = 128;    // rows of D in a block's tile
  int warpgroups = 2;  // that multiply, 64 columns of D each
  int block_k = 128;   // of one stage, in elements
  int stages = 4;
  Sharing sharing = Sharing::tiles;
  int splits = 1;
  int group = 8;               // rasterization: tiles along n in a band
  bool round_weights = false;  // times their scales, in A's type; else a group's sum is scaled
  int turn = 0;                // stages whose instructions follow one another; 0: one

  /// k is divided by turns.
  constexpr int stages_of_turn() const { return turn == 0 ? 1 : turn; }
  auto operator<=>(const CudaWgmmaWeights&) const = default;

  static constexpr auto fields() {
    using C = CudaWgmmaWeights;
    return std::tuple{Field<C, int>{"tile_m", &C::tile_m},
                      Field<C, int>{"warpgroups", &C::warpgroups},
                      Field<C, int>{"block_k", &C::block_k},
                      Field<C, int>{"stages", &C::stages},
                      Field<C, Sharing>{"sharing", &C::sharing},
                      Field<C, int>{"splits", &C::splits},
                      Field<C, int>{"group", &C::group},
                      Field<C, bool>{"round_weights", &C::round_weights, 1, true},
                      Field<C, int>{"turn", &C::turn, 4, true}};
  }
};

}  // namespace kiln
