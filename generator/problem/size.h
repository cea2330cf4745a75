// The size that a range varies, of any problem.
#pragma once

#include "kiln/range.hpp"

namespace kiln {

/// The member that holds a size.
constexpr std::int64_t Gemm::*member_of(Size size) {
  return size == Size::m ? &Gemm::m : size == Size::n ? &Gemm::n : &Gemm::k;
}

inline constexpr Size kSizes[] = {Size::m, Size::n, Size::k};

/// What all problems of a range have in common, each in the same spelling: the varying size is 0,
/// and of pitches and strides those are left out that are tight whatever that size is.
Gemm without_size(Gemm gemm, Size size);

}  // namespace kiln
