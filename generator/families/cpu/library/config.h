// The system's BLAS library among the configs, so that its times are rows like any other: a peer in
// every final race of a product that BLAS can express. Nothing is generated for it.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <tuple>

#include "generator/space/field.h"

namespace kiln {

/// Libraries that kiln can tell apart; `other` is any that exports the CBLAS interface.
enum class BlasName : std::uint8_t { openblas, blis, mkl, other };

inline constexpr std::array<Named<BlasName>, 4> kNamesOfBlasName = {
    {{BlasName::openblas, "openblas"},
     {BlasName::blis, "blis"},
     {BlasName::mkl, "mkl"},
     {BlasName::other, "other"}}};
constexpr const auto& names_of(BlasName) { return kNamesOfBlasName; }

/// One build of one library as it runs on this CPU: the verdict of a race counts for no other.
struct BlasLibrary {
  static constexpr std::string_view kFamily = "blas_library";
  BlasName library = BlasName::other;
  int version = 0;  // 0.3.21 is 3021; 0: it says none
  int build = 0;    // a hash of its file's name, its build options and the kernels that it chose
  auto operator<=>(const BlasLibrary&) const = default;

  static constexpr auto fields() {
    using C = BlasLibrary;
    constexpr int kMost = std::numeric_limits<int>::max();
    return std::tuple{Field<C, BlasName>{"library", &C::library},
                      Field<C, int>{"version", &C::version, kMost},
                      Field<C, int>{"build", &C::build, kMost}};
  }
};

}  // namespace kiln
