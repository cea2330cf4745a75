/// @file
/// Converts fp32 matrices to operands of eight bits and fewer, scales included, and back, and reads
/// weights of checkpoints. The codes and scales have the layout that Engine::gemm() takes. Knows no
/// kernels.
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
  std::vector<std::int32_t> zeros =
      {};  ///< zero points, one for each scale (Gemm::a, its q.zero), or none
};

/// `values` holds `lines` × `k` numbers, a line's side by side. Each becomes the nearest code, ties
/// to even, and the largest one of its sign where it is out of range. An fp32 scale maps the
/// largest magnitude of its block to the type's largest number; an e8m0 one is the power of two
/// that maps the largest magnitude's exponent to the type's largest exponent, as OCP's MX
/// specification has it, so that numbers just below the next power of two may saturate. Blocks of
/// zeros have scale 1. The largest number of s8 is 127, of u8 255; both have scales of lines, of
/// the tensor or none. Errors: bad_input (sizes; a type of more than eight bits; k no whole blocks
/// of mx_32, no whole bytes; a number that is not finite, or negative beside u8, by its place),
/// unsupported (scales that the type cannot have).
KILN_API Result<Quantised> quantise(std::span<const float> values, std::int64_t lines,
                                    std::int64_t k, DType type, Scale scale);

/// Codes of s8 or u8 with a zero point beside each scale, of lines or of the tensor: an A with
/// Gemm::a, its q.zero. The smallest and the largest number that share a scale, zero among them,
/// become the first and the last code: scale = (largest − smallest) / 255, zero point = first −
/// smallest / scale and code = number / scale + zero point, the quotients rounded to nearest, ties
/// to even, and the code saturated. Errors: bad_input (sizes; a number that is not finite),
/// unsupported (types, scales).
KILN_API Result<Quantised> quantise_asymmetric(std::span<const float> values, std::int64_t lines,
                                               std::int64_t k, DType type, Scale scale);

/// The numbers that the codes stand for, zero points and scales applied, in fp32.
KILN_API std::vector<float> dequantise(const Quantised& operand);

/// Operands::column_sums_b of a problem whose A and B are integers: the sum of each column of op(B)
/// as the problem says it is stored, before it is packed, one product's behind another's. They wrap
/// as 32 bits do, which the difference that they serve survives. Made once for weights that stay.
/// Errors: those of validate(), bad_input (b is null), unsupported (types).
KILN_API Result<std::vector<std::int32_t>> column_sums(const Gemm& gemm, const void* b);

/// A B of weights as Engine::gemm() takes it: columns one behind the other, each along k (a
/// row-major B that is transposed), scales and zero points [n, groups], or [⌈n / 128⌉, k / 128] of
/// squares.
struct KILN_API Weights {
  DType type = DType::s4;          ///< of the codes: s4, u4, s8, fp8_e4m3 or fp4_e2m1
  Scale group = Scale::line_128;   ///< line_32, line_64, line_128, line, square_128 or mx_32
  DType scale_type = DType::fp32;  ///< of the scales: fp32, bf16 or fp16; fp32 where they are e8m0
  Zero zero = Zero::none;          ///< kind of the zero points; floats have none
  std::int64_t n = 0;              ///< columns of B
  std::int64_t k = 0;              ///< elements of a column
  std::vector<std::byte> codes;    ///< B
  std::vector<std::byte> scales;   ///< scale_b
  std::vector<std::byte> zeros;    ///< zero_b
  /// Row-major, tight: `m` rows of A, which is bf16 or fp16, times these weights.
  Gemm problem(std::int64_t m, DType a) const;
};

/// Weights of numbers: `values` holds `n` × `k`, a column's side by side, as the weights of a
/// linear layer lie in PyTorch. Without zero points a scale maps the largest magnitude of its group
/// to the largest code; with them scale and zero point map the smallest and the largest number to
/// the first and the last code (integer ones: zero too lies among the codes). Scales of mx_32 are
/// those of quantise(). Rounds to nearest, ties to even, and saturates. Errors: bad_input (sizes, k
/// no whole groups, a number that is not finite or too large for a scale of its type), unsupported
/// (types, groups; u4 without zero points, floats with them, integers with mx_32).
KILN_API Result<Weights> quantise_weights(std::span<const float> values, std::int64_t n,
                                          std::int64_t k, DType type, Scale group,
                                          DType scale_type = DType::fp32, Zero zero = Zero::none);

/// How a checkpoint stores weights. Words are of 32 bits, eight codes of four bits each.
enum class StoredAs : std::uint8_t {
  gptq,     ///< qweight [k/8, n], eight of a column in a word; qzeros [groups, n/8], one too small
  gptq_v2,  ///< the same with qzeros as they are
  awq,      ///< qweight [k, n/8], qzeros [groups, n/8]: columns 0 2 4 6 1 3 5 7 of eight in a word
  plain,    ///< codes [n, k], one a byte, of fp4_e2m1 two, the first in the low half; scales
            ///< [n, groups] ([⌈n / 128⌉, k / 128] of squares), zero points alike, one a byte
};

/// The tensors of one layer. Scales are [groups, n], but of `plain`.
struct StoredWeights {
  StoredAs as = StoredAs::gptq;    ///< their layout
  std::int64_t n = 0;              ///< output features
  std::int64_t k = 0;              ///< input features
  Scale group = Scale::line_128;   ///< consecutive input features that share a scale
  DType scale_type = DType::fp16;  ///< of the scales; those of mx_32 are e8m0 whatever it is
  const void* codes = nullptr;     ///< qweight
  const void* scales = nullptr;    ///< scales
  const void* zeros = nullptr;     ///< qzeros; null: 8 everywhere, as symmetric weights have it
  /// Of the codes: u4, or of `plain` fp8_e4m3 or fp4_e2m1, which have no qzeros.
  DType type = DType::u4;
};

/// Weights of u4 with integer zero points or, where one of GPTQ's is 16, floating ones; or of
/// floats. Groups are consecutive along k: weights that were reordered by activation (desc_act
/// with a g_idx that is not sorted) must be sorted first. Errors: bad_input (sizes, null tensors),
/// unsupported (types; squares of words).
KILN_API Result<Weights> weights_from(const StoredWeights& stored);

/// The numbers that weights stand for, in fp32: n × k.
KILN_API std::vector<float> dequantise(const Weights& weights);

}  // namespace kiln
