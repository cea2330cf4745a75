// The config of family host_amx_weights.
#pragma once

#include <string_view>
#include <tuple>

#include "generator/families/cpu/common/choices.h"

namespace kiln {

/// Rows of A times k-major weights of four or eight bits by tile registers: D is computed
/// transposed, and codes become bf16 a group at a time.
struct HostAmxWeights {
  static constexpr std::string_view kFamily = "host_amx_weights";
  Isa isa = Isa::amx;
  int mt = 2, nt = 2;  // tiles of 16 columns of op(B), of 16 rows of A
  int kc = 1024;       // k of a block
  int nc = 256;        // columns of op(B) whose accumulators stay in cache together
  int mc = 256;        // rows of A in a block
  Parallel parallel = Parallel::none;
  auto operator<=>(const HostAmxWeights&) const = default;

  static constexpr auto fields() {
    using C = HostAmxWeights;
    return std::tuple{Field<C, Isa>{"isa", &C::isa},      Field<C, int>{"mt", &C::mt},
                      Field<C, int>{"nt", &C::nt},        argument("kc", &C::kc, kAnyLength),
                      argument("nc", &C::nc, kAnyLength), argument("mc", &C::mc, kAnyLength),
                      argument("parallel", &C::parallel)};
  }
};

}  // namespace kiln
