// The config of family host_small.
#pragma once

#include <string_view>
#include <tuple>

#include "generator/families/cpu/common/choices.h"

namespace kiln {

/// The whole shape is in the code: no packing, no run-time sizes, for small problems.
struct HostSmall {
  static constexpr std::string_view kFamily = "host_small";
  Isa isa = Isa::avx512;
  int bytes = 64;  // of one vector; narrow problems want narrow vectors
  int mr = 8, nv = 2;
  int unroll = 1;                      // k steps in the inner loop's body, 0 = all of k
  Parallel parallel = Parallel::none;  // or batch
  bool narrow_edge = false;            // the last vector has no more lanes than its columns need
  bool stream_d = false;               // a batch's D is stored past the caches
  auto operator<=>(const HostSmall&) const = default;

  static constexpr auto fields() {
    using C = HostSmall;
    return std::tuple{Field<C, Isa>{"isa", &C::isa},
                      Field<C, int>{"bytes", &C::bytes},
                      Field<C, int>{"mr", &C::mr},
                      Field<C, int>{"nv", &C::nv},
                      Field<C, int>{"unroll", &C::unroll},
                      argument("parallel", &C::parallel),
                      Field<C, bool>{"narrow_edge", &C::narrow_edge, 1, true},
                      Field<C, bool>{"stream_d", &C::stream_d, 1, true}};
  }
};

}  // namespace kiln
