// The config of family host_weights.
#pragma once

#include <string_view>
#include <tuple>

#include "generator/families/cpu/common/choices.h"

namespace kiln {

/// Few rows of A times k-major weights of four or eight bits, which become numbers in registers.
struct HostWeights {
  static constexpr std::string_view kFamily = "host_weights";
  Isa isa = Isa::avx512;
  bool pairs = false;  // multiplied in pairs of bf16, not as fp32
  int mr = 1, nr = 4;  // rows of A and columns of B in the register tile
  bool ahead = false;  // the codes of the next tile are prefetched
  Parallel parallel = Parallel::none;
  auto operator<=>(const HostWeights&) const = default;

  static constexpr auto fields() {
    using C = HostWeights;
    return std::tuple{Field<C, Isa>{"isa", &C::isa},      Field<C, bool>{"pairs", &C::pairs},
                      Field<C, int>{"mr", &C::mr},        Field<C, int>{"nr", &C::nr},
                      Field<C, bool>{"ahead", &C::ahead}, argument("parallel", &C::parallel)};
  }
};

}  // namespace kiln
