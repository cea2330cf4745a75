// Which kind of scales an array holds, by its shape and type. Knows no Python.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "kiln/gemm.hpp"

namespace kiln::python {

/// The shape without the batch: one scale for all is not a dimension, one a line is one, blocks
/// along k are two.
struct ScaleShape {
  int dims = 0;
  std::array<std::int64_t, 2> sizes{};
};

/// Of an operand of `lines` lines, or none; and what is known, as a message names it.
Scale kind_of_scales(const ScaleShape& shape, DType type, std::int64_t lines, std::int64_t k);
std::string scales_known(std::int64_t lines, std::int64_t k);

/// The same of weights, which have whole groups.
Scale kind_of_groups(const ScaleShape& shape, DType type, std::int64_t lines, std::int64_t k);
std::string groups_known(std::int64_t lines, std::int64_t k);

}  // namespace kiln::python
