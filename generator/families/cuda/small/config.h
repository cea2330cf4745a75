// The config of family cuda_small.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "generator/space/field.h"

namespace kiln {

/// How operands reach shared memory, and how D leaves: each lane finishes its elements, or a block
/// those of all its products out of shared memory, in the order of D.
enum class SmallCopy : std::uint8_t { registers, async };
enum class SmallStore : std::uint8_t { direct, shared };

inline constexpr std::array<Named<SmallCopy>, 2> kNamesOfSmallCopy{
    {{SmallCopy::registers, "registers"}, {SmallCopy::async, "async"}}};
inline constexpr std::array<Named<SmallStore>, 2> kNamesOfSmallStore{
    {{SmallStore::direct, "direct"}, {SmallStore::shared, "shared"}}};
constexpr const auto& names_of(SmallCopy) { return kNamesOfSmallCopy; }
constexpr const auto& names_of(SmallStore) { return kNamesOfSmallStore; }

/// Batches of small products: the whole shape is in the code, and a block has many products.
struct CudaSmall {
  static constexpr std::string_view kFamily = "cuda_small";
  int products = 8;              // of a block at once
  int lanes_m = 4, lanes_n = 4;  // that share a product, along m and along n
  int depth = 4;                 // steps of k whose factors are read together
  bool matrix = false;           // by matrix instructions
  SmallCopy copy = SmallCopy::registers;
  int width = 4;   // bytes copied at once
  int stages = 1;  // pipeline stages in shared memory
  SmallStore store = SmallStore::direct;
  int turns = 1;     // groups of products that a block takes in turn; 0: as its share is
  int resident = 1;  // occupancy, in blocks, for which registers are allotted
  auto operator<=>(const CudaSmall&) const = default;

  static constexpr auto fields() {
    using C = CudaSmall;
    return std::tuple{
        Field<C, int>{"products", &C::products},  Field<C, int>{"lanes_m", &C::lanes_m},
        Field<C, int>{"lanes_n", &C::lanes_n},    Field<C, int>{"depth", &C::depth},
        Field<C, bool>{"matrix", &C::matrix},     Field<C, SmallCopy>{"copy", &C::copy},
        Field<C, int>{"width", &C::width},        Field<C, int>{"stages", &C::stages},
        Field<C, SmallStore>{"store", &C::store}, Field<C, int>{"turns", &C::turns},
        Field<C, int>{"resident", &C::resident}};
  }
};

}  // namespace kiln
