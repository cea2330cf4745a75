/// @file
/// Converts fp32 matrices to operands of eight bits and fewer, scales included, and back. The codes
/// and scales have the layout that Engine::gemm() takes. Knows no kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kiln/dtype.hpp"
#include "kiln/error.hpp"
#include "kiln/export.h"
#include "kiln/gemm.hpp"

namespace kiln {

/// An operand whose lines (rows of op(A), columns of op(B)) lie one behind the other, each along k:
/// a row-major A, or a row-major B that is transposed.
struct Quantised {
  DType type = DType::fp8_e4m3;   ///< of the codes
  Scale scale = Scale::none;      ///< how scales lie
  std::int64_t lines = 0;         ///< rows of op(A), or columns of op(B)
  std::int64_t k = 0;             ///< elements of a line
  std::vector<std::byte> codes;   ///< packed as the type is stored
  std::vector<std::byte> scales;  ///< fp32, or bytes of e8m0; aligned for either
};

/// `values` holds `lines` × `k` numbers, a line's side by side. Each becomes the nearest code, ties
/// to even, and the largest one of its sign where it is out of range. An fp32 scale maps the
/// largest magnitude of its block to the type's largest number; an e8m0 one is the power of two
/// that maps the largest magnitude's exponent to the type's largest exponent, as OCP's MX
/// specification has it, so that numbers just below the next power of two may saturate. Blocks of
/// zeros have scale 1. Errors: bad_input (sizes; a type of more than eight bits; k no whole blocks
/// of mx_32, no whole bytes; a number that is not finite, by its place), unsupported (scales that
/// the type cannot have).
KILN_API Result<Quantised> quantise(std::span<const float> values, std::int64_t lines,
                                    std::int64_t k, DType type, Scale scale);

/// The numbers that the codes stand for, scales applied, in fp32.
KILN_API std::vector<float> dequantise(const Quantised& operand);

}  // namespace kiln
