// The config of family cuda_mma.
#pragma once

#include <string_view>
#include <tuple>

#include "generator/families/cuda/common/choices.h"

namespace kiln {

/// A warp's matrix instructions on tiles in shared memory: Turing and everything since.
struct CudaMma {
  static constexpr std::string_view kFamily = "cuda_mma";
  int block_m = 128, block_n = 128;
  int block_k = 64;  // of one stage, in elements
  int warps_m = 2, warps_n = 4;
  int stages = 4;
  int instruction_k = 16;  // of the matrix instruction
  int bits_a = 3, base_a = 4, shift_a = 0;
  int bits_b = 3, base_b = 4, shift_b = 0;
  bool ahead = false;   // operands of the next step are read while one multiplies
  int group = 8;        // rasterization: rows of tiles in a band
  int splits = 1;       // split-K
  bool stream = false;  // stream-K: the k of the last waves is divided evenly among all blocks
  auto operator<=>(const CudaMma&) const = default;

  constexpr Sharing sharing() const {
    return stream ? Sharing::stream : splits > 1 ? Sharing::split : Sharing::tiles;
  }
  constexpr Exchange exchange_a() const { return {bits_a, base_a, shift_a}; }
  constexpr Exchange exchange_b() const { return {bits_b, base_b, shift_b}; }

  static constexpr auto fields() {
    using C = CudaMma;
    return std::tuple{Field<C, int>{"block_m", &C::block_m},
                      Field<C, int>{"block_n", &C::block_n},
                      Field<C, int>{"block_k", &C::block_k},
                      Field<C, int>{"warps_m", &C::warps_m},
                      Field<C, int>{"warps_n", &C::warps_n},
                      Field<C, int>{"stages", &C::stages},
                      Field<C, int>{"instruction_k", &C::instruction_k},
                      Field<C, int>{"bits_a", &C::bits_a},
                      Field<C, int>{"base_a", &C::base_a},
                      Field<C, int>{"shift_a", &C::shift_a},
                      Field<C, int>{"bits_b", &C::bits_b},
                      Field<C, int>{"base_b", &C::base_b},
                      Field<C, int>{"shift_b", &C::shift_b},
                      Field<C, bool>{"ahead", &C::ahead},
                      Field<C, int>{"group", &C::group},
                      Field<C, int>{"splits", &C::splits},
                      Field<C, bool>{"stream", &C::stream, 1, true}};
  }
};

}  // namespace kiln
