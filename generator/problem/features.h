// What problems ask of kernels beyond a plain product, a bit each: a problem needs some, a family
// offers some. The table in features.cpp lists what follows from several fields or from one value;
// a field that has a rule in kGemmFields is a feature by itself (taken.h).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "kiln/gemm.hpp"

namespace kiln {

enum class Feature : std::uint8_t {
  weights,             ///< B holds weights (has_weights)
  scales_of_integers,  ///< of A or B, integers: applied to sums of 32 bits
  scales_of_lines,     ///< of A or B, floats: one for a row, a column or a whole matrix
  scales_of_blocks,    ///< of A and B, floats: one for 128 elements along k
  scales_mx_32,        ///< of A and B: e8m0, one for 32 elements along k
  scale_orders,        ///< scales of blocks that do not lie line by line
  groups_of_rows,      ///< Grouping::rows
  masked_groups,       ///< Grouping::masked
  groups_of_k,         ///< Grouping::k
  lists,               ///< Grouping::list
  indexed_rows,        ///< rows of A or D by index
  added_rows,          ///< rows of the product are added to rows of D
  scale_of_d,          ///< D is divided by a scale that is given
  scales_of_d          ///< scales of D are found and written
};

/// A set of features.
class Features {
 public:
  constexpr Features() = default;
  constexpr Features(std::initializer_list<Feature> all) {
    for (const Feature each : all) kinds_ |= bit(static_cast<std::size_t>(each));
  }
  /// That a field has another value than its default: `row` is its place in kGemmFields.
  static constexpr Features of_field(std::size_t row) { return {0, bit(row)}; }
  constexpr bool has(Feature feature) const {
    return (kinds_ & bit(static_cast<std::size_t>(feature))) != 0;
  }
  constexpr bool has_field(std::size_t row) const { return (fields_ & bit(row)) != 0; }
  constexpr bool none() const { return kinds_ == 0 && fields_ == 0; }
  friend constexpr Features operator|(Features x, Features y) {
    return {x.kinds_ | y.kinds_, x.fields_ | y.fields_};
  }
  /// Those of `x` that are not of `y`.
  friend constexpr Features operator-(Features x, Features y) {
    return {x.kinds_ & ~y.kinds_, x.fields_ & ~y.fields_};
  }
  constexpr auto operator<=>(const Features&) const = default;

 private:
  constexpr Features(std::uint64_t kinds, std::uint64_t fields) : kinds_(kinds), fields_(fields) {}
  static constexpr std::uint64_t bit(std::size_t index) { return std::uint64_t{1} << index; }
  std::uint64_t kinds_ = 0;
  std::uint64_t fields_ = 0;
};

inline constexpr Features kAnyGroups{Feature::groups_of_rows, Feature::masked_groups,
                                     Feature::groups_of_k};

/// What a valid problem needs.
Features features_of(const Gemm& gemm);
/// The rule that forbids configs of a family without the first of these; empty where there is none.
std::string_view rule_for(Features missing);

}  // namespace kiln
