// The config of family cuda_gemv.
#pragma once

#include <string_view>
#include <tuple>

#include "generator/space/field.h"

namespace kiln {

/// Memory-bound: at most 16 rows on one side, the other side's rows along k.
struct CudaGemv {
  static constexpr std::string_view kFamily = "cuda_gemv";
  int rows = 1;         // of the wide operand, a warp
  int width = 8;        // elements read at once; 0: aligned words of 16 bytes, wherever rows begin
  int warps = 4;        // a block
  bool swap = false;    // thin is B
  bool matrix = false;  // 16 rows of a block by matrix instructions, its warps along k
  int thin = 0;         // rows of the thin side that there is room for; 0: it has them all
  auto operator<=>(const CudaGemv&) const = default;

  static constexpr auto fields() {
    using C = CudaGemv;
    return std::tuple{Field<C, int>{"rows", &C::rows},
                      Field<C, int>{"width", &C::width},
                      Field<C, int>{"warps", &C::warps},
                      Field<C, bool>{"swap", &C::swap},
                      Field<C, bool>{"matrix", &C::matrix, 1, true},
                      Field<C, int>{"thin", &C::thin, 16, true}};
  }
};

}  // namespace kiln
