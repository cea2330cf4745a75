// A plainly right GEMM over the caller's own layout: what every element of D should be, and how far
// a right kernel may be from it. Accumulates in double (fp64 problems: in double-double; integers
// are exact in double). Knows no kernel, no device and no canonical form.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "generator/problem/extent.h"
#include "generator/problem/gate.h"
#include "kiln/engine.hpp"

namespace kiln {

/// Chosen rows of one batch's D, or chosen columns.
struct Lines {
  enum class Along : std::uint8_t { rows, columns };
  Along along = Along::rows;
  std::int64_t batch = 0;
  std::vector<std::int64_t> index;
};

/// Which lines of D hold whole blocks of what its expression reduces; nothing: it has no blocks.
std::optional<Lines::Along> along_blocks(const Gemm& gemm);

/// Sums of op(A)*op(B) before any epilogue, line after line. With a gate a row has 2n elements, as
/// op(B) has columns, and a column of D two lines: of the product that goes through the gate, and
/// of the other.
struct Products {
  Lines lines;
  std::int64_t length = 0;  ///< elements of one line: columns of op(B) for rows, m for columns
  std::vector<double> sum;  ///< lines × length
  std::vector<double>
      magnitude;  ///< lines × length: sum of |a||b|, what rounding errors scale with
};

/// Of the operands that have them, and zero points; batch 0's first. Blocks along k divide the k
/// that `k` is a part of.
struct Scales {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* zero_b = nullptr;
  const void* zero_a = nullptr;
  const void* column_sums_b = nullptr;
  PartOfK k = {};
};
/// Those of a call, or of a kernel's arguments.
template <typename Pointers>
Scales scales_in(const Pointers& of, const PartOfK& k = {}) {
  return {of.scale_a, of.scale_b, of.zero_b, of.zero_a, of.column_sums_b, k};
}

/// Costs lines × length × k multiply-adds. `a` and `b` are batch 0's first elements; `gemm` is
/// valid.
Products products(const Gemm& gemm, const void* a, const void* b, Lines lines,
                  const Scales& scales = {});

/// Some sums of one line of D, from its element `begin` on, out of that line of products.
template <typename Sum>
struct LineOf {
  const Sum *first = nullptr, *second = nullptr;  ///< of element 0; second: with a gate
  std::int64_t stride = 1;                        ///< between elements of D
  void read(std::int64_t begin, std::span<double> one, std::span<double> other) const {
    const auto some = [&](const Sum* from, std::span<double> to) {
      if (from == nullptr) return;
      for (std::size_t i = 0; i < to.size(); ++i)
        to[i] = static_cast<double>(from[(begin + static_cast<std::int64_t>(i)) * stride]);
    };
    some(first, one);
    some(second, other);
  }
};
/// `line` is where D's line stands among products, as Products says.
template <typename Sum>
LineOf<Sum> line_of(const Gemm& gemm, Lines::Along along, std::int64_t length, const Sum* line) {
  if (!gated(gemm)) return {line};
  if (along == Lines::Along::columns) return {line, line + length};
  const FactorColumns second = columns_of(gemm, Factor::second);
  return {line, line + second.offset, second.step};
}

/// Sums of one whole batch when op(A) and op(B), scales included, hold small integers, |b| ≤ 127, A
/// mostly zeros. In
/// the order of D's memory: rows × columns of op(B) when D is row-major, else columns × m. Costs
/// about one addition for each nonzero of the operand that runs along lines and each element of the
/// line.
std::vector<std::int32_t> integer_products(const Gemm& gemm, const void* a, const void* b,
                                           std::int64_t batch, const Scales& scales = {});

/// alpha and beta, whether the data make every intermediate exact in the accumulator, and what each
/// product or addition may lose by flushing denormals.
struct Scaling {
  double alpha = 1.0, beta = 0.0;
  bool exact = false;
  double flushed = 0;
};

/// How far a right kernel may be off, as shares of what its roundings scale with.
struct Allowance {
  double per_sum = 0;               ///< of sum |a||b|
  double per_step = 0;              ///< of each term of the epilogue
  double per_residual = 0;          ///< of the terms of the last addition
  double unit = 0;                  ///< roundoff of the arithmetic between accumulating and storing
  double steepest = 0, factor = 0;  ///< slope of a smooth activation; roundoffs of its factor
  double per_gate = 0;              ///< of the product of a gate and what it lets through
};
Allowance allowance(const Gemm& gemm, const Scaling& scaling);

/// Of one batch what a value that an expression reduces is expected to be, for each row of D, for
/// each column, or once: with an error as of expect(), infinite where nothing is known. Empty of
/// blocks: what those are expected to be follows from each run of elements that has all of them.
struct ExpectedLines {
  bool m = false, n = false;
  std::vector<double> value, error;
};

/// A run of elements of D: of each operand that is a term, by its index, the values there. Those of
/// an operand that the problem does not have, and C's where beta is 0, are not looked at.
struct Terms {
  /// Of a product, before alpha; of the second one with a gate, as its bias.
  struct Second {
    std::span<const double> sum, magnitude, bias;
  };
  std::span<const double> sum, magnitude;
  std::array<std::span<const double>, kOperandCount> of = {};
  Second second = {};
  Lines::Along along = Lines::Along::rows;
  std::int64_t line = 0, first = 0;  ///< of D: the line, and the run's first element in it
  std::int64_t rows_before = 0;      ///< that a D which groups share has before this product's
  /// What the expression reduces and reads, in its program's order; none: nothing is known of whole
  /// lines.
  std::span<const ExpectedLines> reduced = {};
  std::span<const double>& operator[](Operand which) { return of[index_of(which)]; }
  const std::span<const double>& operator[](Operand which) const { return of[index_of(which)]; }
};

/// Which value of an expression is wanted: D's, or the number of one of its program.
inline constexpr int kValueOfD = -1;

/// value[i] = activation(alpha*sum + beta*c + bias) + residual, with a gate gate(alpha*sum + bias)
/// * (alpha*second.sum + second.bias) + residual, before rounding to D's type, and error[i] = how
/// far a right kernel's value may be from it there. error is 0 where only equality is right, and
/// where value is NaN or infinite; of an expression it is infinite where anything is right. All
/// spans are of sum's length.
void expect(const Gemm& gemm, const Scaling& scaling, const Terms& terms, std::span<double> value,
            std::span<double> error, int wanted = kValueOfD);

/// Whether `got`, read from D, is what a right kernel may store: between the roundings to D's type
/// of value - error and value + error. NaN wants NaN, infinity wants the same infinity.
bool accepts(DType dtype, double value, double error, double got);

/// Whole D, rounded to its type. Slow and simple; for small problems. Errors: bad_input (invalid
/// problem, a missing operand).
Status reference_gemm(const Gemm& gemm, const Operands& operands);

}  // namespace kiln
