// The problem, as a value: D = activation(alpha * op(A) * op(B) + beta * C + bias) + residual,
// where elements of A and B may have scales. Knows shapes, types and layouts; knows no device and
// no kernel.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kiln/dtype.hpp"
#include "kiln/error.hpp"
#include "kiln/export.h"

namespace kiln {

enum class Order : std::uint8_t { row_major, column_major };
enum class Activation : std::uint8_t { none, relu, gelu_tanh, gelu_erf, silu };
/// Where a bias vector lies: one value a row of D (m values) or one a column of D (n values).
enum class Bias : std::uint8_t { none, per_row, per_column };

/// What elements of A or B are multiplied by before they meet. A line is what is summed along: a
/// row of op(A) or a column of op(B). Wherever the operand itself lies, its scales are a matrix of
/// their own, [lines, blocks along k], the blocks of a line side by side, tight, batch behind
/// batch; the last block of either side may be short.
enum class Scale : std::uint8_t {
  none,
  line,        ///< an fp32 for each line
  line_128,    ///< an fp32 for each 128 elements of a line
  square_128,  ///< an fp32 for each 128 lines × 128 elements
  mx_32,       ///< an e8m0 (one byte, a power of two) for each 32 elements of a line
};

/// How one matrix is stored. `transposed` says that what is stored is the transpose of what enters
/// the product: a row-major transposed A is stored as [k, m].
struct Matrix {
  DType dtype = DType::fp32;
  Order order = Order::row_major;
  bool transposed = false;
  std::int64_t ld = 0;  ///< elements between rows (row-major) or columns; 0 = tight
  /// Elements between batches; 0 = tight (ld * extent). A, B and C are only read, so any positive
  /// stride is legal and their batches may overlap; those of D must not: each lies behind the one
  /// before it, or beside it within the same lines (stride ≥ a line, all batches within ld).
  std::int64_t batch_stride = 0;
  auto operator<=>(const Matrix&) const = default;
};

/// What happens after the product, in this order: `+ beta*C`, `+ bias`, `activation`, `+ residual`.
/// Everything up to the store is done in the accumulator's type (fp32 for s32 accumulators when any
/// floating step is asked for).
struct Epilogue {
  Bias bias = Bias::none;  ///< dtype fp32 (fp64 when D is fp64)
  Activation activation = Activation::none;
  bool residual = false;  ///< a matrix stored exactly as D is (dtype, order, ld, stride)
  auto operator<=>(const Epilogue&) const = default;
};

struct KILN_API Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
  Matrix a, b, c, d;
  DType accumulator = DType::fp32;
  Epilogue epilogue;
  /// A power of two that divides every operand's address and row pitch and, in a batch, its batch
  /// stride, in bytes; kernels may rely on it. 1 promises nothing.
  int alignment = 1;
  /// B arrives packed by `Engine::pack_b`: another problem, tuned on its own.
  bool b_packed = false;
  /// Of operands of at most eight bits. Blocks along k are a matter of both operands or of none;
  /// the fp6 and fp4 types need mx_32.
  Scale scale_a = Scale::none, scale_b = Scale::none;

  auto operator<=>(const Gemm&) const = default;

  /// Row-major A [m,k], B [k,n], C and D [m,n], tight, with the usual accumulator and output:
  /// fp32→fp32, fp64→fp64, fp16→fp16 (fp32 acc), bf16→bf16 (fp32 acc), s8→s32, u8 (times s8)→s32,
  /// smaller floats→bf16 (fp32 acc).
  static Gemm row_major(std::int64_t m, std::int64_t n, std::int64_t k, DType t = DType::fp32);
  static Gemm column_major(std::int64_t m, std::int64_t n, std::int64_t k, DType t = DType::fp32);

  // Changed copies, so that a problem reads as one expression.
  Gemm transpose_a() const;
  Gemm transpose_b() const;
  Gemm output(DType t) const;              ///< dtype of C and D
  Gemm batched(std::int64_t count) const;  ///< tight strides
  Gemm with_bias(Bias where) const;
  Gemm with_activation(Activation f) const;
  Gemm with_residual() const;
  Gemm with_packed_b() const;
  Gemm scaled(Scale of_a, Scale of_b) const;
  Gemm scaled(Scale of_both) const;

  // Derived, with 0 resolved. Rows and columns are those of the stored matrix's major walk.
  std::int64_t lda() const;
  std::int64_t ldb() const;
  std::int64_t ldc() const;
  std::int64_t ldd() const;
  std::int64_t stride_a() const;  ///< elements between batches
  std::int64_t stride_b() const;
  std::int64_t stride_c() const;
  std::int64_t stride_d() const;
  double flops() const { return 2.0 * double(m) * double(n) * double(k) * double(batch); }
};

/// Every rule a problem must obey before anything looks at it: sizes ≥ 0, leading dimensions large
/// enough, a supported (A, B, accumulator, D) combination, C stored in D's order, … Errors:
/// bad_input and, for combinations that no kernel covers, unsupported; both name the field and the
/// value.
KILN_API Status validate(const Gemm& gemm);

/// One line, `dtype ta tb m n k [key=value …]`; `parse_gemm(text(g)) == g` for every valid g.
/// `int8` is s8·s8 → s32, `u8s8` and `s8u8` are the mixed pairs; `#` starts a comment. Keys: batch=
/// lda= ldb= ldc= ldd= stride_a= … order= (row|column|per-matrix `rcrr`) out= acc= epilogue=
/// (bias_row|bias_col|relu|gelu|gelu_erf|silu|residual joined by +) align= packed_b=1 scale=
/// (none|line|1x128|128x128|mx32, of both operands or as A's:B's).
KILN_API std::string text(const Gemm& gemm);
KILN_API Result<Gemm> parse_gemm(std::string_view line);

KILN_API std::string_view name(Activation f);
KILN_API std::string_view name(Bias b);
KILN_API std::string_view name(Scale s);

}  // namespace kiln
