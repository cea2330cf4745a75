// The config of family cuda_simt.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "generator/families/cuda/common/choices.h"

namespace kiln {

/// How tiles reach shared memory: through registers, by cp.async, or by cp.async of producer warps;
/// and how their lines (of equal k) lie there: adjacent, padded by 16 bytes, or with 16-byte units
/// swizzled by k.
enum class SimtCopy : std::uint8_t { registers, async, warps };
enum class SimtLines : std::uint8_t { plain, padded, exchanged };

/// In which order a thread multiplies for one step of k: pairs of rows, row after row, column after
/// column, or column after column with every other pair of rows the other way round.
enum class SimtOrder : std::uint8_t { pairs, rows, columns, folded };

inline constexpr std::array<Named<SimtCopy>, 3> kNamesOfSimtCopy{
    {{SimtCopy::registers, "registers"}, {SimtCopy::async, "async"}, {SimtCopy::warps, "warps"}}};
inline constexpr std::array<Named<SimtLines>, 3> kNamesOfSimtLines{
    {{SimtLines::plain, "plain"},
     {SimtLines::padded, "padded"},
     {SimtLines::exchanged, "exchanged"}}};
inline constexpr std::array<Named<SimtOrder>, 4> kNamesOfSimtOrder{{{SimtOrder::pairs, "pairs"},
                                                                    {SimtOrder::rows, "rows"},
                                                                    {SimtOrder::columns, "columns"},
                                                                    {SimtOrder::folded, "folded"}}};
constexpr const auto& names_of(SimtCopy) { return kNamesOfSimtCopy; }
constexpr const auto& names_of(SimtLines) { return kNamesOfSimtLines; }
constexpr const auto& names_of(SimtOrder) { return kNamesOfSimtOrder; }

/// Ordinary multiply-adds: any type, any layout, any device.
struct CudaSimt {
  static constexpr std::string_view kFamily = "cuda_simt";
  int block_m = 128, block_n = 128, block_k = 16;
  int thread_m = 8, thread_n = 8;  // accumulators of a thread
  int lanes_m = 4;                 // of a warp's lanes, along m; the others along n
  bool spread = true;  // a thread's rows lie in groups of 16 bytes, other lanes' in between
  int width_a = 1, width_b = 1;  // elements read from memory at once
  SimtCopy copy = SimtCopy::registers;
  int stages = 2;      // pipeline stages; 0: every thread reads global memory itself
  bool ahead = false;  // the next step's operands are read while this step's are multiplied
  SimtLines lines = SimtLines::padded;
  int resident = 1;  // occupancy, in blocks, for which registers are allotted
  Sharing sharing = Sharing::tiles;
  int splits = 1;
  int group = 8;  // rasterization: rows of tiles in a band
  SimtOrder order = SimtOrder::pairs;
  int unroll = 0;  // steps of k in the loop's body; 0: a whole pass
  auto operator<=>(const CudaSimt&) const = default;

  static constexpr auto fields() {
    using C = CudaSimt;
    return std::tuple{Field<C, int>{"block_m", &C::block_m},
                      Field<C, int>{"block_n", &C::block_n},
                      Field<C, int>{"block_k", &C::block_k},
                      Field<C, int>{"thread_m", &C::thread_m},
                      Field<C, int>{"thread_n", &C::thread_n},
                      Field<C, int>{"lanes_m", &C::lanes_m},
                      Field<C, bool>{"spread", &C::spread},
                      Field<C, int>{"width_a", &C::width_a},
                      Field<C, int>{"width_b", &C::width_b},
                      Field<C, SimtCopy>{"copy", &C::copy},
                      Field<C, int>{"stages", &C::stages},
                      Field<C, bool>{"ahead", &C::ahead},
                      Field<C, SimtLines>{"lines", &C::lines},
                      Field<C, int>{"resident", &C::resident},
                      Field<C, Sharing>{"sharing", &C::sharing},
                      Field<C, int>{"splits", &C::splits},
                      Field<C, int>{"group", &C::group},
                      Field<C, SimtOrder>{"order", &C::order, 3, true},
                      Field<C, int>{"unroll", &C::unroll, 64, true}};
  }
};

}  // namespace kiln
