// The config of family host_amx.
#pragma once

#include <string_view>
#include <tuple>

#include "generator/families/cpu/common/choices.h"

namespace kiln {

/// AMX: mt × nt accumulator tiles, the left operand read in place, the right one packed. With mc >
/// 0 both are packed, and accumulators of mc × nc elements stay in L2 over all of k.
struct HostAmx {
  static constexpr std::string_view kFamily = "host_amx";
  Isa isa = Isa::amx;
  int mt = 2, nt = 2;      // tiles of 16 rows, of 16 columns
  int kc = 1024;           // k of one packed block
  int nc = 512;            // columns of the right operand packed at once
  bool swap = false;       // compute D^T: B is the left operand
  bool copy_left = false;  // copy the left operand's rows even where they could be read in place
  Parallel parallel = Parallel::none;
  bool any_epilogue = false;  // bias, activation and residual are arguments of the call
  bool thirds = false;        // fp32: multiplied in three parts of bf16
  int mc = 0;                 // rows of the left operand in a block that stays in L2; 0 = no blocks
  bool stream_d = false;      // store D with non-temporal stores
  bool overlap = false;  // D of a tile is written, and the next rows fetched, while tiles multiply
  bool long_runs = false;  // a right operand whose k is not adjacent is packed 1 KiB at a time
  bool right_t1 = false;   // tiles of the right operand are loaded from L2 past L1
  auto operator<=>(const HostAmx&) const = default;

  static constexpr auto fields() {
    using C = HostAmx;
    return std::tuple{Field<C, Isa>{"isa", &C::isa},
                      Field<C, int>{"mt", &C::mt},
                      Field<C, int>{"nt", &C::nt},
                      argument("kc", &C::kc, kAnyLength),
                      argument("nc", &C::nc, kAnyLength),
                      Field<C, bool>{"swap", &C::swap},
                      Field<C, bool>{"copy_left", &C::copy_left},
                      argument("parallel", &C::parallel),
                      Field<C, bool>{"any_epilogue", &C::any_epilogue, 1, true},
                      Field<C, bool>{"thirds", &C::thirds, 1, true},
                      Field<C, int>{"mc", &C::mc, kAnyLength, true, true},
                      Field<C, bool>{"stream_d", &C::stream_d, 1, true},
                      Field<C, bool>{"overlap", &C::overlap, 1, true},
                      Field<C, bool>{"long_runs", &C::long_runs, 1, true},
                      Field<C, bool>{"right_t1", &C::right_t1, 1, true}};
  }
};

}  // namespace kiln
