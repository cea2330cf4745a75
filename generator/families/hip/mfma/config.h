// The config of family hip_mfma.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "generator/families/hip/common/choices.h"

namespace kiln {

/// Schedule of a wave's reads and products: as the compiler orders them; with the waves of one
/// SIMD half a step apart, so that one reads while the other multiplies; or with the reads of the
/// next step between the products of this one.
enum class Pace : std::uint8_t { free, pingpong, interleaved };
/// Layout of a row's 16-byte units: in order, padded by 16 bytes, or swizzled by the number of the
/// row, of the pair of rows, of the four rows.
enum class Banks : std::uint8_t { plain, padded, by_row, by_pair, by_four };

inline constexpr std::array<Named<Banks>, 5> kNamesOfBanks{{{Banks::plain, "plain"},
                                                            {Banks::padded, "padded"},
                                                            {Banks::by_row, "by_row"},
                                                            {Banks::by_pair, "by_pair"},
                                                            {Banks::by_four, "by_four"}}};
inline constexpr std::array<Named<Pace>, 3> kNamesOfPace{
    {{Pace::free, "free"}, {Pace::pingpong, "pingpong"}, {Pace::interleaved, "interleaved"}}};
constexpr const auto& names_of(Pace) { return kNamesOfPace; }
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

}  // namespace kiln
