// The config types of the HIP families. Plain values; `fields()` drives text, parsing and axes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "generator/families.h"

namespace kiln {

/// How stages reach shared memory: through registers into one buffer, through registers into two
/// buffers alternately, or directly into two.
enum class Staging : std::uint8_t { single, twice, direct };
/// Schedule of a wave's reads and products: as the compiler orders them; with the waves of one
/// SIMD half a step apart, so that one reads while the other multiplies; or with the reads of the
/// next step between the products of this one.
enum class Pace : std::uint8_t { free, pingpong, interleaved };
/// Layout of a row's 16-byte units: in order, padded by 16 bytes, or swizzled by the number of the
/// row, of the pair of rows, of the four rows.
enum class Banks : std::uint8_t { plain, padded, by_row, by_pair, by_four };

inline constexpr std::array<Named<Staging>, 3> kNamesOfStaging{
    {{Staging::single, "single"}, {Staging::twice, "twice"}, {Staging::direct, "direct"}}};
inline constexpr std::array<Named<Banks>, 5> kNamesOfBanks{{{Banks::plain, "plain"},
                                                            {Banks::padded, "padded"},
                                                            {Banks::by_row, "by_row"},
                                                            {Banks::by_pair, "by_pair"},
                                                            {Banks::by_four, "by_four"}}};
inline constexpr std::array<Named<Pace>, 3> kNamesOfPace{
    {{Pace::free, "free"}, {Pace::pingpong, "pingpong"}, {Pace::interleaved, "interleaved"}}};
constexpr const auto& names_of(Pace) { return kNamesOfPace; }
constexpr const auto& names_of(Staging) { return kNamesOfStaging; }
constexpr const auto& names_of(Banks) { return kNamesOfBanks; }

/// CDNA's matrix instructions on tiles in shared memory.
struct HipMfma {
  static constexpr std::string_view kFamily = "hip_mfma";
  int rows = 16, k = 16;  // of the instruction; it has as many columns as rows
  int tile_m = 256, tile_n = 256;
  int depth = 128;  // bytes of k in one stage
  int waves_m = 2, waves_n = 4;
  Staging staging = Staging::twice;
  Banks banks = Banks::by_row;
  int splits = 1;
  int chunk = 16;         // neighbouring tiles given to one chiplet; 0: in the hardware's order
  int group = 4;          // rasterization: rows of tiles in a band
  bool priority = false;  // waves that multiply get a higher issue priority
  bool fence = false;     // the compiler keeps reads and products of a step apart
  Pace pace = Pace::free;
  bool turn = false;  // operands that are not k-major are transposed by reads from shared memory
  auto operator<=>(const HipMfma&) const = default;

  static constexpr auto fields() {
    using C = HipMfma;
    return std::tuple{
        Field<C, int>{"rows", &C::rows},          Field<C, int>{"k", &C::k},
        Field<C, int>{"tile_m", &C::tile_m},      Field<C, int>{"tile_n", &C::tile_n},
        Field<C, int>{"depth", &C::depth},        Field<C, int>{"waves_m", &C::waves_m},
        Field<C, int>{"waves_n", &C::waves_n},    Field<C, Staging>{"staging", &C::staging},
        Field<C, Banks>{"banks", &C::banks},      Field<C, int>{"splits", &C::splits},
        Field<C, int>{"chunk", &C::chunk},        Field<C, int>{"group", &C::group},
        Field<C, bool>{"priority", &C::priority}, Field<C, bool>{"fence", &C::fence},
        Field<C, Pace>{"pace", &C::pace},         Field<C, bool>{"turn", &C::turn}};
  }
};

/// CDNA4's scaled matrix instructions on packed codes of 8, 6 or 4 bits, each operand in its own
/// width, with a power of two for every 32 along k.
struct HipMx {
  static constexpr std::string_view kFamily = "hip_mx";
  int rows = 16;  // and columns of the instruction
  int tile_m = 256, tile_n = 256, tile_k = 128;
  int waves_m = 2, waves_n = 4;
  Staging staging = Staging::twice;
  int splits = 1;
  int chunk = 0;  // as in HipMfma
  int group = 4;
  auto operator<=>(const HipMx&) const = default;

  static constexpr auto fields() {
    using C = HipMx;
    return std::tuple{
        Field<C, int>{"rows", &C::rows},           Field<C, int>{"tile_m", &C::tile_m},
        Field<C, int>{"tile_n", &C::tile_n},       Field<C, int>{"tile_k", &C::tile_k},
        Field<C, int>{"waves_m", &C::waves_m},     Field<C, int>{"waves_n", &C::waves_n},
        Field<C, Staging>{"staging", &C::staging}, Field<C, int>{"splits", &C::splits},
        Field<C, int>{"chunk", &C::chunk},         Field<C, int>{"group", &C::group}};
  }
};

/// Ordinary arithmetic: every type, layout and target.
struct HipSimt {
  static constexpr std::string_view kFamily = "hip_simt";
  int tile_m = 64, tile_n = 64, tile_k = 16;
  int each_m = 4, each_n = 4;  // accumulators of a thread
  int pad = 4;                 // elements between rows of k in shared memory
  auto operator<=>(const HipSimt&) const = default;

  static constexpr auto fields() {
    using C = HipSimt;
    return std::tuple{Field<C, int>{"tile_m", &C::tile_m}, Field<C, int>{"tile_n", &C::tile_n},
                      Field<C, int>{"tile_k", &C::tile_k}, Field<C, int>{"each_m", &C::each_m},
                      Field<C, int>{"each_n", &C::each_n}, Field<C, int>{"pad", &C::pad}};
  }
};

}  // namespace kiln
