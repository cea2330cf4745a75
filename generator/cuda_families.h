// The config types of the CUDA families. Plain values; `fields()` drives text, parsing and axes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "generator/families.h"

namespace kiln {

/// How tiles and k are divided among blocks: `tiles` (data-parallel); `split` (split-K, reduced by
/// the block that finishes a tile last); `stream` (stream-K: the k of the last waves is divided
/// evenly among all blocks); `summed` (split-K, reduced by a launch of its own).
enum class Sharing : std::uint8_t { tiles, split, stream, summed };
/// Rasterization: bands of tiles along the left or the right side of D, so that L2 serves what
/// neighbouring tiles read, or a Hilbert curve through squares of tiles.
enum class Along : std::uint8_t { left, right, hilbert };

inline constexpr std::array<Named<Sharing>, 4> kNamesOfSharing{{{Sharing::tiles, "tiles"},
                                                                {Sharing::split, "split"},
                                                                {Sharing::stream, "stream"},
                                                                {Sharing::summed, "summed"}}};
inline constexpr std::array<Named<Along>, 3> kNamesOfAlong{
    {{Along::left, "left"}, {Along::right, "right"}, {Along::hilbert, "hilbert"}}};
constexpr const auto& names_of(Sharing) { return kNamesOfSharing; }
constexpr const auto& names_of(Along) { return kNamesOfAlong; }

/// Hopper: TMA, wgmma, warp-specialized. "Left" gives the
/// instruction's 64 rows, "right" its columns; left is A, or B when swapped.
struct CudaWgmma {
  static constexpr std::string_view kFamily = "cuda_wgmma";
  int left = 128, right = 256;  // rows of either operand in a tile
  int stages = 4;               // of 128 bytes of k each
  int warpgroups = 2;           // consumers
  bool pingpong = false;        // consumer warpgroups take whole tiles alternately
  bool swap = false;
  int cluster_left = 1, cluster_right = 1;  // neighbouring tiles; multicast copies
  Sharing sharing = Sharing::tiles;
  int splits = 1;
  Along along = Along::left;
  int group = 8;                        // tiles across a band; side of a Hilbert square
  bool pack_a = false, pack_b = false;  // copied into an aligned, k-major workspace first
  bool keep_right = false;              // L2 hint: keep the right operand, evict the left one first
  bool promote = false;                 // 8-bit floats: each stage's accumulators are added in fp32
  bool paired = false;  // rows of D at any address: stored by pairs straight from registers
  auto operator<=>(const CudaWgmma&) const = default;

  static constexpr auto fields() {
    using C = CudaWgmma;
    return std::tuple{Field<C, int>{"left", &C::left},
                      Field<C, int>{"right", &C::right},
                      Field<C, int>{"stages", &C::stages},
                      Field<C, int>{"warpgroups", &C::warpgroups},
                      Field<C, bool>{"pingpong", &C::pingpong},
                      Field<C, bool>{"swap", &C::swap},
                      Field<C, int>{"cluster_left", &C::cluster_left},
                      Field<C, int>{"cluster_right", &C::cluster_right},
                      Field<C, Sharing>{"sharing", &C::sharing},
                      Field<C, int>{"splits", &C::splits},
                      Field<C, Along>{"along", &C::along},
                      Field<C, int>{"group", &C::group},
                      Field<C, bool>{"pack_a", &C::pack_a},
                      Field<C, bool>{"pack_b", &C::pack_b},
                      Field<C, bool>{"keep_right", &C::keep_right},
                      Field<C, bool>{"promote", &C::promote},
                      Field<C, bool>{"paired", &C::paired, 1, true}};
  }
};

/// Exchanges within lines of shared memory: `bits` bits of a byte's place, from bit `base` on, with
/// those of the line's number from bit `shift` on.
struct Exchange {
  int bits = 0, base = 0, shift = 0;
  auto operator<=>(const Exchange&) const = default;
};

/// A warp's matrix instructions on tiles in shared memory: Turing and everything since.
struct CudaMma {
  static constexpr std::string_view kFamily = "cuda_mma";
  int block_m = 128, block_n = 128;
  int block_k = 64;  // of one stage, in elements
  int warps_m = 2, warps_n = 4;
  int stages = 4;
  int instruction_k = 16;  // of the matrix instruction
  int bits_a = 3, base_a = 4, shift_a = 0;
  int bits_b = 3, base_b = 4, shift_b = 0;
  bool ahead = false;   // operands of the next step are read while one multiplies
  int group = 8;        // rasterization: rows of tiles in a band
  int splits = 1;       // split-K
  bool stream = false;  // stream-K: the k of the last waves is divided evenly among all blocks
  auto operator<=>(const CudaMma&) const = default;

  constexpr Sharing sharing() const {
    return stream ? Sharing::stream : splits > 1 ? Sharing::split : Sharing::tiles;
  }
  constexpr Exchange exchange_a() const { return {bits_a, base_a, shift_a}; }
  constexpr Exchange exchange_b() const { return {bits_b, base_b, shift_b}; }

  static constexpr auto fields() {
    using C = CudaMma;
    return std::tuple{Field<C, int>{"block_m", &C::block_m},
                      Field<C, int>{"block_n", &C::block_n},
                      Field<C, int>{"block_k", &C::block_k},
                      Field<C, int>{"warps_m", &C::warps_m},
                      Field<C, int>{"warps_n", &C::warps_n},
                      Field<C, int>{"stages", &C::stages},
                      Field<C, int>{"instruction_k", &C::instruction_k},
                      Field<C, int>{"bits_a", &C::bits_a},
                      Field<C, int>{"base_a", &C::base_a},
                      Field<C, int>{"shift_a", &C::shift_a},
                      Field<C, int>{"bits_b", &C::bits_b},
                      Field<C, int>{"base_b", &C::base_b},
                      Field<C, int>{"shift_b", &C::shift_b},
                      Field<C, bool>{"ahead", &C::ahead},
                      Field<C, int>{"group", &C::group},
                      Field<C, int>{"splits", &C::splits},
                      Field<C, bool>{"stream", &C::stream, 1, true}};
  }
};
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

/// Memory-bound: at most 16 rows on one side, the other side's rows along k.
struct CudaGemv {
  static constexpr std::string_view kFamily = "cuda_gemv";
  int rows = 1;         // of the wide operand, a warp
  int width = 8;        // elements read at once; 0: aligned words of 16 bytes, wherever rows begin
  int warps = 4;        // a block
  bool swap = false;    // thin is B
  bool matrix = false;  // 16 rows of a block by matrix instructions, its warps along k
  auto operator<=>(const CudaGemv&) const = default;

  static constexpr auto fields() {
    using C = CudaGemv;
    return std::tuple{Field<C, int>{"rows", &C::rows}, Field<C, int>{"width", &C::width},
                      Field<C, int>{"warps", &C::warps}, Field<C, bool>{"swap", &C::swap},
                      Field<C, bool>{"matrix", &C::matrix, 1, true}};
  }
};

}  // namespace kiln
