// The config of family hip_mx.
#pragma once

#include <string_view>
#include <tuple>

#include "generator/families/hip/common/choices.h"

namespace kiln {

/// CDNA4's scaled matrix instructions on packed codes of 8, 6 or 4 bits, each operand in its own
/// width, with a power of two for every 32 along k.
struct HipMx {
  static constexpr std::string_view kFamily = "hip_mx";
  int rows = 16;  // and columns of the instruction
  int tile_m = 256, tile_n = 256, tile_k = 128;
  int waves_m = 2, waves_n = 4;
  Staging staging = Staging::twice;
  int splits = 1;
  int chunk = 0;  // as in HipMfma
  int group = 4;
  auto operator<=>(const HipMx&) const = default;

  static constexpr auto fields() {
    using C = HipMx;
    return std::tuple{
        Field<C, int>{"rows", &C::rows},           Field<C, int>{"tile_m", &C::tile_m},
        Field<C, int>{"tile_n", &C::tile_n},       Field<C, int>{"tile_k", &C::tile_k},
        Field<C, int>{"waves_m", &C::waves_m},     Field<C, int>{"waves_n", &C::waves_n},
        Field<C, Staging>{"staging", &C::staging}, Field<C, int>{"splits", &C::splits},
        Field<C, int>{"chunk", &C::chunk},         Field<C, int>{"group", &C::group}};
  }
};

}  // namespace kiln
