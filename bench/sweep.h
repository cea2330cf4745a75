// `kiln sweep`: problems that differ in m, n or k, from what people write, and the pictures of
// their race. Pure.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "bench/report.h"

namespace kiln {

/// The values of one size: "512", "1,2,3", "64:1024:64" (first:last:step), "64..1024" (each twice
/// the one before), "2^6..2^12", "64..4096*4" (each four times), and lists of these. The last one
/// named is among them where the steps meet it. Errors: bad_input, naming `size` and the text.
Result<std::vector<std::int64_t>> sweep_values(std::string_view size, std::string_view text);

/// Values of m, n and k; an empty one is not swept.
using SweepValues = std::array<std::vector<std::int64_t>, 3>;

/// A line in which m, n or k stand for sizes, "fp32 N T m n 512" or "fp32 N N m m m", with all
/// combinations of their values, m outermost. Errors: bad_input (a letter without values, values
/// without a letter, too many combinations), and those of parse_gemm().
Result<std::vector<Gemm>> sweep_gemms(std::string_view line, const SweepValues& values);

/// GFLOP/s of kiln and its peers over the size with most values: one panel for each thread count
/// and combination of the others, at most `kMostPanels`.
inline constexpr std::size_t kMostPanels = 24;
std::string sweep_svg(const BenchReport& report);

}  // namespace kiln
