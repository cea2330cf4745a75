// What problems ask of kernels beyond a plain product, a bit each: a problem needs some, a family
// offers some. The table in features.cpp is the only list of them.
#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "kiln/gemm.hpp"

namespace kiln {

enum class Feature : std::uint8_t {
  weights,           ///< B holds weights (has_weights)
  scales_of_sums,    ///< of A or B, integers: applied to sums of 32 bits
  scales_of_lines,   ///< of A or B, floats: one for a row, a column or a whole matrix
  scales_of_blocks,  ///< of A and B, floats: one for 128 elements along k
  scales_mx_32,      ///< of A and B: e8m0, one for 32 elements along k
  scale_orders,      ///< scales of blocks that do not lie line by line
  gates,             ///< two products of A, of which one gates the other
  groups_of_rows,    ///< Grouping::rows
  masked_groups,     ///< Grouping::masked
  groups_of_k,       ///< Grouping::k
  lists,             ///< Grouping::list
  indexed_rows,      ///< rows of A or D by index
  added_rows,        ///< rows of the product are added to rows of D
  scale_of_d,        ///< D is divided by a scale that is given
  scales_of_d,       ///< scales of D are found and written
  amax_of_d          ///< the largest magnitude of D is written
};

/// A set of features.
class Features {
 public:
  constexpr Features() = default;
  constexpr Features(std::initializer_list<Feature> all) {
    for (const Feature each : all) bits_ |= bit(each);
  }
  constexpr bool has(Feature feature) const { return (bits_ & bit(feature)) != 0; }
  constexpr bool none() const { return bits_ == 0; }
  friend constexpr Features operator|(Features x, Features y) {
    return Features(x.bits_ | y.bits_);
  }
  /// Those of `x` that are not of `y`.
  friend constexpr Features operator-(Features x, Features y) {
    return Features(x.bits_ & ~y.bits_);
  }
  constexpr auto operator<=>(const Features&) const = default;

 private:
  constexpr explicit Features(std::uint32_t bits) : bits_(bits) {}
  static constexpr std::uint32_t bit(Feature feature) {
    return std::uint32_t{1} << static_cast<unsigned>(feature);
  }
  std::uint32_t bits_ = 0;
};

inline constexpr Features kAnyGroups{Feature::groups_of_rows, Feature::masked_groups,
                                     Feature::groups_of_k};

/// What a valid problem needs.
Features features_of(const Gemm& gemm);
/// The rule that forbids configs of a family without the first of these; empty where there is none.
std::string_view rule_for(Features missing);

}  // namespace kiln
