// The config of family host_dot.
#pragma once

#include <string_view>
#include <tuple>

#include "generator/families/cpu/common/choices.h"

namespace kiln {

/// Operands k-major, as they are or transposed first: vectors run along k and are reduced across
/// lanes at the end.
struct HostDot {
  static constexpr std::string_view kFamily = "host_dot";
  Isa isa = Isa::avx512;
  int mr = 4, nr = 6;  // rows of A and rows of B^T in the register tile
  int kc = 0;          // k of one pass, 0 = all
  int mc = 0;          // rows of A held while B streams, 0 = all
  Parallel parallel = Parallel::none;
  int prefetch = 0;
  bool pack_a = false;        // A is m-major: its rows are copied along k first
  bool pack_b = false;        // B is n-major: the columns of a tile are copied along k first
  bool any_epilogue = false;  // bias, activation and residual are arguments of the call
  bool ahead = false;         // the rows of A of the next tile are prefetched
  auto operator<=>(const HostDot&) const = default;

  static constexpr auto fields() {
    using C = HostDot;
    return std::tuple{Field<C, Isa>{"isa", &C::isa},
                      Field<C, int>{"mr", &C::mr},
                      Field<C, int>{"nr", &C::nr},
                      argument("kc", &C::kc, kAnyLength),
                      argument("mc", &C::mc, kAnyLength),
                      argument("parallel", &C::parallel),
                      Field<C, int>{"prefetch", &C::prefetch},
                      Field<C, bool>{"pack_a", &C::pack_a, 1, true},
                      Field<C, bool>{"pack_b", &C::pack_b, 1, true},
                      Field<C, bool>{"any_epilogue", &C::any_epilogue, 1, true},
                      Field<C, bool>{"ahead", &C::ahead, 1, true}};
  }
};

}  // namespace kiln
