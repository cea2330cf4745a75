// The config of family host_packed.
#pragma once

#include <string_view>
#include <tuple>

#include "generator/families/cpu/common/choices.h"

namespace kiln {

/// Packed macro-kernel: Goto/BLIS loops around an mr × (nv vectors) register tile. With `swap` all
/// of it is about the transposed product: A^T is the right operand, whose columns fill the vectors.
/// `parallel` alone keeps its meaning: rows and columns of D.
struct HostPacked {
  static constexpr std::string_view kFamily = "host_packed";
  Isa isa = Isa::avx512;
  int mr = 6;     // rows of the register tile
  int nv = 4;     // vectors across the register tile
  int kc = 384;   // k of one packed panel
  int mc = 240;   // rows of A that stay in L2
  int nc = 4096;  // columns of B packed at once
  bool pack_a = true;
  bool pack_b = true;
  Inner inner = Inner::columns;
  Parallel parallel = Parallel::none;
  int unroll = 2;         // k steps in the inner loop's body
  int prefetch = 0;       // k steps ahead that strips of B are prefetched, 0 = never
  bool stream_d = false;  // store D with non-temporal stores
  // Lines of the next block of A, and of B, that 8 steps of a tile fetch into L2; 0 = none.
  int fetch_a = 0, fetch_b = 0;
  bool any_epilogue = false;  // bias, activation and residual are arguments of the call
  bool swap = false;          // compute D^T, which is transposed while D is stored
  bool widen = false;         // bf16 is multiplied as fp32, not in pairs
  bool long_runs = false;     // rows whose k is not adjacent are packed 1 KiB of each at a time
  bool rows_d = false;        // D is written in the order of its rows, a strip of them behind
  auto operator<=>(const HostPacked&) const = default;

  static constexpr auto fields() {
    using C = HostPacked;
    return std::tuple{Field<C, Isa>{"isa", &C::isa},
                      Field<C, int>{"mr", &C::mr},
                      Field<C, int>{"nv", &C::nv},
                      argument("kc", &C::kc, kAnyLength),
                      argument("mc", &C::mc, kAnyLength),
                      argument("nc", &C::nc, kAnyLength),
                      Field<C, bool>{"pack_a", &C::pack_a},
                      Field<C, bool>{"pack_b", &C::pack_b},
                      argument("inner", &C::inner),
                      argument("parallel", &C::parallel),
                      Field<C, int>{"unroll", &C::unroll},
                      Field<C, int>{"prefetch", &C::prefetch},
                      Field<C, bool>{"stream_d", &C::stream_d},
                      Field<C, int>{"fetch_a", &C::fetch_a},
                      Field<C, int>{"fetch_b", &C::fetch_b},
                      Field<C, bool>{"any_epilogue", &C::any_epilogue, 1, true},
                      Field<C, bool>{"swap", &C::swap, 1, true},
                      Field<C, bool>{"widen", &C::widen, 1, true},
                      Field<C, bool>{"long_runs", &C::long_runs, 1, true},
                      Field<C, bool>{"rows_d", &C::rows_d, 1, true}};
  }
};

}  // namespace kiln
