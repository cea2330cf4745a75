/// @file
/// Problems that differ in one size, tuned as one: a range of m, n or k.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kiln/error.hpp"
#include "kiln/export.h"
#include "kiln/gemm.hpp"

namespace kiln {

/// One of the problem's three sizes.
enum class Size : std::uint8_t {
  m,  ///< rows of D
  n,  ///< columns of D
  k   ///< columns of op(A)
};

/// All problems that have this one's fields but for one size, which runs from `first` to that of
/// `gemm`. A leading dimension or batch stride that is 0 stays tight at every size; one that is
/// given is that of all.
struct KILN_API GemmRange {
  Gemm gemm;               ///< the problem of the largest size
  Size size = Size::m;     ///< which of its sizes varies
  std::int64_t first = 1;  ///< the smallest, at least 1

  /// Field by field, in order.
  auto operator<=>(const GemmRange&) const = default;

  /// The largest size.
  std::int64_t last() const;
  /// The problem of one size, which need not be of the range.
  Gemm at(std::int64_t value) const;
};

/// Whether every problem of the range is well-formed and supported. Errors: bad_input (an empty or
/// reversed range, one that begins below 1, and as for one problem), unsupported; both name the
/// field and the value.
KILN_API Status validate(const GemmRange& range);

/// The line of a problem with `first..last` in the place of the size that varies.
KILN_API std::string text(const GemmRange& range);
/// Whether a line is meant to be that of a range: one of its sizes has "..".
KILN_API bool names_range(std::string_view line);
/// The range that a line of text() describes. Errors: bad_input (the field and the value, also
/// where no size or more than one is a range).
KILN_API Result<GemmRange> parse_gemm_range(std::string_view line);
/// "m", "n" or "k".
KILN_API std::string_view name(Size size);

}  // namespace kiln
