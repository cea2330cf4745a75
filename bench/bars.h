// Bars and sparklines in a line of text, for terminals. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// Columns of a UTF-8 text of single-width characters: continuation bytes take none.
std::size_t columns_of(std::string_view text);

/// A bar of `cells` columns, filled from the left to the eighth of a cell: "███▌    ".
std::string share_bar(double share, int cells);

/// Eleven columns about a line that stands for 1, on a logarithmic scale: to the right of it above
/// 1, to the left below, full at 2 and 1/2. "     │██▌  ". Empty where there is no ratio (0).
std::string ratio_bar(double ratio);

/// One column for each value, from the least (▁) to the most (█); of more values than `cells` the
/// last of each part. Values that are not positive are blank.
std::string sparkline(const std::vector<double>& values, std::size_t cells);

}  // namespace kiln
