// Seeded contents for the operands of a problem, in the caller's own layout. Knows what each kind
// of check needs of its data; knows no kernels and no expectations.
#pragma once

#include <cstdint>
#include <string_view>

#include "generator/problem/extent.h"
#include "kiln/gemm.hpp"

namespace kiln {

/// uniform: floating types in [-1, 1], s8 and u8 over their whole range; C and residual of integer
///   type likewise (s32: within ±1000). Weights of floats: all finite codes, and in every
///   kLinesOfLowest-th line in memory zeros and denormals alone.
/// exact: small integers such that every intermediate of D is exact in any accumulator, in any
/// order
///   of summation. One operand holds -1, 0, 1; the other is sparse when the problem is big (at
///   least 16 nonzeros a line, spread over all of k, its first and last step always among them), so
///   that the whole of D can be predicted cheaply (integer_products). Scales are 1, 2, 4 or 8.
enum class Data : std::uint8_t { uniform, exact };
std::string_view name(Data data);

/// Largest values of C, bias and residual on exact data: small beside fp32's 2^24. Where D's own
/// type is too short for a result, the one right rounding is known, since what is rounded is exact.
inline constexpr int kExactLargest = 8;

/// The same of C and residual where everything is an integer of 32 bits: odd ones have no fp32.
/// Twice their sum fits 32 bits.
inline constexpr int kExactLargestInteger = 1 << 29;

/// Largest codes and zero points of weights on exact data: twice that times a scale of 8 is at most
/// 127, which integer_products() wants.
inline constexpr int kExactWeights = 7;

/// Of so many lines one holds the smallest codes alone, where weights are floats.
inline constexpr std::int64_t kLinesOfLowest = 4;

/// A stream of 64-bit values (splitmix64): the same seed gives the same values on every machine.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream);
  std::uint64_t next();
  /// 0 … bound-1; bound ≥ 1. Its bias is below bound/2^64.
  std::int64_t below(std::int64_t bound);

 private:
  std::uint64_t state_;
};

/// Rows, or elements along k, of one group on exact data, of `left` that there are: few, or beside
/// a boundary that tiles have.
std::int64_t hostile_count(Random& random, std::int64_t left);

/// Fills every element of one operand, of all batches; what lies between lines is left alone, and
/// so is an operand that the problem does not have. `data` is batch 0's first element and reaches
/// as far as span() says. Uniform scales lie between a quarter and 4; those of mx_32 are powers of
/// two between 2⁻⁶ and 2⁶. Groups are about equal on uniform data; on exact ones some are empty and
/// most are beside usual tile boundaries. Of a list `groups` alone is filled so: the others are in
/// pieces (fillings() of drawn_list.h).
void fill(const Gemm& gemm, Operand which, Data kind, std::uint64_t seed, void* data);

/// Largest whole number that exact data of an operand hold.
int exact_limit(const Gemm& gemm, Operand which);

}  // namespace kiln
