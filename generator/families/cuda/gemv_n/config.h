// The config of family cuda_gemv_n.
#pragma once

#include <string_view>
#include <tuple>

#include "generator/space/field.h"

namespace kiln {

/// Memory-bound: at most 16 rows on one side, the other side's lines across k.
struct CudaGemvN {
  static constexpr std::string_view kFamily = "cuda_gemv_n";
  int thin = 8;         // rows of the thin side that there is room for
  int warps = 8;        // of a block, which take lines of k in turn
  int ahead = 4;        // lines on their way to a warp; with matrix groups of 16
  int words = 1;        // of 16 bytes, that a lane has of a line
  int splits = 1;       // parts of k, each a block's
  bool matrix = false;  // matrix instructions
  bool swap = false;    // thin is B
  auto operator<=>(const CudaGemvN&) const = default;

  static constexpr auto fields() {
    using C = CudaGemvN;
    return std::tuple{Field<C, int>{"thin", &C::thin},     Field<C, int>{"warps", &C::warps},
                      Field<C, int>{"ahead", &C::ahead},   Field<C, int>{"words", &C::words},
                      Field<C, int>{"splits", &C::splits}, Field<C, bool>{"matrix", &C::matrix},
                      Field<C, bool>{"swap", &C::swap}};
  }
};

}  // namespace kiln
