// The config of family hip_simt.
#pragma once

#include <string_view>
#include <tuple>

#include "generator/space/field.h"

namespace kiln {

/// Ordinary arithmetic: every type, layout and target.
struct HipSimt {
  static constexpr std::string_view kFamily = "hip_simt";
  int tile_m = 64, tile_n = 64, tile_k = 16;
  int each_m = 4, each_n = 4;  // accumulators of a thread
  int pad = 4;                 // elements between rows of k in shared memory
  auto operator<=>(const HipSimt&) const = default;

  static constexpr auto fields() {
    using C = HipSimt;
    return std::tuple{Field<C, int>{"tile_m", &C::tile_m}, Field<C, int>{"tile_n", &C::tile_n},
                      Field<C, int>{"tile_k", &C::tile_k}, Field<C, int>{"each_m", &C::each_m},
                      Field<C, int>{"each_n", &C::each_n}, Field<C, int>{"pad", &C::pad}};
  }
};

}  // namespace kiln
