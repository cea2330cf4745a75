// Lists of shapes: those compiled in (bench/shapes) and the format that all share, one problem a
// line with # comments. Knows no device and runs nothing.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generator/render/embedded.h"
#include "kiln/gemm.hpp"
#include "kiln/range.hpp"

namespace kiln {

/// One problem of a list, or a range of problems, and where it stands.
struct ListedShape {
  Gemm gemm;            // of a range, that of the largest size
  std::string origin;   // "llama-3-8b:4", the list and its line
  std::string comment;  // what follows # on that line
  std::optional<GemmRange> range = {};
};

/// A line's problem, or range. Errors: those of parse_gemm() and parse_gemm_range().
Result<ListedShape> parse_shape(std::string_view line);

/// Files of bench/shapes, e.g. {"bert-base.txt", …}.
std::span<const EmbeddedFile> embedded_shapes();

/// "bert-base", "cpu", …, in order.
std::vector<std::string> suite_names();

/// A compiled-in list by name, with an optional size: "llama-3-8b:16" is 16 tokens (m of every
/// layer), "resnet-50:4" is 4 images (m times 4). Errors: bad_input (no such list, a size that is
/// not a positive number, a list that has no size).
Result<std::vector<ListedShape>> suite(std::string_view name);

/// Parses and validates lines; `name` stands before the line number in messages and origins.
/// Errors: bad_input, "name:line: …".
Result<std::vector<ListedShape>> parse_shapes(std::string_view text, std::string_view name);

}  // namespace kiln
