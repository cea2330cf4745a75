/// @file
/// The problem, as a value: D = activation(alpha * op(A) * op(B) + beta * C + bias) + residual,
/// where elements of A and B may have scales; or, with a gate, D = gate(P1) * P2 + residual,
/// element by element, where P1 and P2 are the halves of alpha * op(A) * op(B) + bias. D may be
/// codes of eight bits with scales, and its largest magnitude a result beside it. Knows shapes,
/// types and layouts; knows no device and no kernel.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "kiln/dtype.hpp"
#include "kiln/error.hpp"
#include "kiln/export.h"
#include "kiln/expression.hpp"

namespace kiln {

/// How a matrix lies in memory: elements of a row are adjacent, or those of a column.
enum class Order : std::uint8_t {
  row_major,    ///< elements of a row are adjacent
  column_major  ///< elements of a column are adjacent
};
/// Function applied after the bias, before the residual.
enum class Activation : std::uint8_t {
  none,       ///< none
  relu,       ///< max(x, 0)
  gelu_tanh,  ///< GELU, tanh approximation
  gelu_erf,   ///< GELU, exact
  silu        ///< x / (1 + exp(−x))
};
/// Function of the first of the two products of which a gated problem takes the elementwise
/// product.
enum class Gate : std::uint8_t {
  relu = 1,   ///< max(x, 0)
  gelu_tanh,  ///< GELU, tanh approximation
  gelu_erf,   ///< GELU, exact
  silu,       ///< x / (1 + exp(−x)): SwiGLU
  sigmoid,    ///< 1 / (1 + exp(−x)): GLU
  expression  ///< Epilogue::expression, which names both products, makes of them what D gets
};
/// Where the 2n columns of a gated problem's op(B), and of its bias, stand.
enum class GateOrder : std::uint8_t {
  stacked,     ///< n columns of the product that goes through the gate, then n of the other
  interleaved  ///< alternately, one of either
};
/// A gate: op(B) has 2n columns, of two products of A, and D = function(one) * other + residual, or
/// what an expression makes of both.
struct Gated {
  Gate function = Gate::silu;            ///< of the first product
  GateOrder order = GateOrder::stacked;  ///< of op(B)'s columns, and of the bias
  /// Field by field, in order.
  auto operator<=>(const Gated&) const = default;
};
/// Shape of the bias vector, which all batches share. Groups have one each, behind one another; but
/// a bias per row of groups of rows has m values in all, one for each row of the D that they share.
enum class Bias : std::uint8_t {
  none,       ///< no bias
  per_row,    ///< m values, one for each row of D
  per_column  ///< n values, one for each column of op(B)
};

/// Scales of an operand: each of its elements is multiplied by one before the product. A line is a
/// row of op(A) or a column of op(B); of D it is a row, and n stands for k. Whatever the operand's
/// layout, its scales are a tight row-major matrix [lines, blocks along k], or as ScaleOrder says,
/// batch behind batch; the last block of either side may be short.
enum class Scale : std::uint8_t {
  none,        ///< no scales
  line,        ///< an fp32 for each line
  line_128,    ///< an fp32 for each 128 elements of a line
  square_128,  ///< an fp32 for each 128 lines × 128 elements
  mx_32,       ///< an e8m0 (one byte, a power of two) for each 32 elements of a line
  /// An fp32 for the whole operand, in a batch one for each. Of groups of rows one of A, of D and
  /// of zero_a for all groups, which share them, and one of B for each; of masked groups and of
  /// groups of k one of each operand for each group.
  tensor,
  line_32,  ///< one for each 32 elements of a column of weights
  line_64,  ///< one for each 64 elements of a column of weights
};

/// How an operand's scales of line_128 lie in memory, batch behind batch.
enum class ScaleOrder : std::uint8_t {
  lines,     ///< [lines, blocks along k], row-major and tight: a line's scales are adjacent
  blocks,    ///< [blocks along k, lines], row-major and tight: a block's scales are adjacent
  blocks_4,  ///< the same, each block's row padded to a multiple of four scales, 16 bytes; the
             ///< padding is not read
};

/// Zero points: an element counts as (code − zero point) · scale.
enum class Zero : std::uint8_t {
  none,      ///< no zero points: they count as 0
  integer,   ///< of weights: one for each scale, lying as the scales do, of B's type; four bits
             ///< each lie side by side without gaps
  floating,  ///< of weights: the same, of the scales' type; an infinity of A counts as one or as
             ///< NaN
  line,      ///< of A: an s32 for each row
  tensor     ///< of A: an s32 for all of it, in a batch one for each (see Scale::tensor)
};

/// What the codes of a matrix stand for: code · scale, or (code − zero point) · scale.
struct Quantisation {
  Scale scale = Scale::none;             ///< which elements share one
  ScaleOrder order = ScaleOrder::lines;  ///< of scales of line_128
  DType type = DType::fp32;              ///< of the scales; those of mx_32 are e8m0
  Zero zero = Zero::none;                ///< zero points
  /// Field by field, in order.
  auto operator<=>(const Quantisation&) const = default;
};

/// How much of its types a product must keep.
enum class Numerics : std::uint8_t {
  ieee,   ///< what the type gives: 8-bit floats are summed in fp32 after each 128 elements of k
  fast,   ///< 8-bit floats may be summed along all of k in the few bits of a tensor core's
          ///< accumulator (14 on Hopper): CUBLASLT_MATMUL_DESC_FAST_ACCUM. Of weights with scales,
          ///< the scales, and what (code − zero point) · scale gives, may be rounded to A's type
  tensor  ///< fp32 may be multiplied by tensor cores in parts of half precision, each line scaled
          ///< by a power of two: errors of fp32's size, but an element below 2^-29 of the largest
          ///< of its line keeps 2^-51 of that largest one, and an infinity counts as NaN
};

/// What the `batch` products of a grouped problem are. How many rows, or how much of k, each group
/// has the operand `groups` says, in memory of the device, when the call runs; what the products of
/// a list are the call itself says, in memory of the host.
enum class Grouping : std::uint8_t {
  none,  ///< no groups: a batch of equal products
  rows,  ///< the rows of all groups are those of one A and one D, group behind group, and each has
         ///< a B of its own; `groups` has the row behind the last one of each, rising and at most
         ///< m. An entry beyond that counts as m, one below 0 as 0, and a group whose entry is
         ///< below an earlier one is empty: each begins behind all groups before it. Rows of D
         ///< behind the last group are not written
  masked,  ///< each group has an A and a D of m rows and a B; `groups` has the number of rows that
           ///< are there, at most m. Other rows of A are not used, those of D not written
  k,       ///< the k of all groups is that of one A and one B, group behind group, and each has a D
           ///< (and C, bias and residual) of its own; `groups` has the index along k behind the
           ///< last one of each, rising and at most k; what it may not say is taken as with `rows`.
           ///< An empty group has a product of zeros.
           ///< Blocks of scales divide all of k, whatever the groups: element p of a line has the
           ///< scale of block p / 128, which two groups may share
  list     ///< each product has sizes, leading dimensions and operands of its own, which
           ///< Operands::list gives (see ListEntry); m, n and k are the largest that any may have
};

/// Rows of A by index: row r of the product is computed of row index_a[r] of A. Tokens need not be
/// put in the order of their groups before the product. Rows of A are lines of memory (row-major,
/// not transposed), and scales of A are those of its rows. An index that A has no row of counts as
/// the nearest that it has.
struct Gathered {
  std::int64_t rows = 0;  ///< of A; 0: m
  /// Field by field, in order.
  auto operator<=>(const Gathered&) const = default;
};
/// Where the rows of the product go.
enum class Scatter : std::uint8_t {
  rows = 1,  ///< row r is written to row index_d[r] of D. Indices of rows that are of a group are
             ///< distinct; rows of D that none names are not written
  add,       ///< row r is added to row index_d[r] of D, in the order of r, in fp32 (fp64 where D is
             ///< fp64), and D is rounded once: the experts' results of each token. A row of D that
             ///< none names is beta * C. A negative index adds its row to none
  weighted   ///< the same, each row times row_weights[r] before: the router's weights
};
/// Rows of D by index. There is no residual and no d.q.scale. An index that D has no row of counts
/// as the nearest that it has, but a negative one where rows are added. With Scatter::rows there is
/// no C (beta = 0). Where rows are added, bias, activation and gate are applied to each row before,
/// beta * C (stored as D is, of as many rows) is added once to each row of D; D is a floating type,
/// m is not 0, and the bias is not bias_as_d.
struct Scattered {
  Scatter how = Scatter::rows;  ///< what becomes of each row
  std::int64_t rows = 0;        ///< of D; 0: m
  /// Field by field, in order.
  auto operator<=>(const Scattered&) const = default;
};

/// @name Kinds of groups, with what each kind alone can have
/// @{

/// Grouping::rows.
struct GroupsOfRows {
  std::optional<Gathered> gather;    ///< nothing: row r of the product is computed of row r of A
  std::optional<Scattered> scatter;  ///< nothing: row r of the product is row r of D
  /// Field by field, in order.
  auto operator<=>(const GroupsOfRows&) const = default;
};
/// Grouping::masked.
struct MaskedGroups {
  /// Rows of a group, on average: kernels are timed, and chosen, for so many (at most m). 0: half
  /// of m. Any number of rows is computed.
  std::int64_t expected_rows = 0;
  /// Field by field, in order.
  auto operator<=>(const MaskedGroups&) const = default;
};
/// Grouping::k.
struct GroupsOfK {
  /// All are equal.
  auto operator<=>(const GroupsOfK&) const = default;
};
/// Grouping::list.
struct ProductList {
  /// All are equal.
  auto operator<=>(const ProductList&) const = default;
};
/// One of them, in the order of Grouping.
using Groups = std::variant<std::monostate, GroupsOfRows, MaskedGroups, GroupsOfK, ProductList>;
/// @}

/// How one matrix is stored. `transposed` says that what is stored is the transpose of what enters
/// the product: a row-major transposed A is stored as [k, m].
struct Matrix {
  DType dtype = DType::fp32;       ///< of its elements
  Order order = Order::row_major;  ///< row- or column-major
  bool transposed = false;         ///< the transpose of what enters the product is stored
  std::int64_t ld = 0;             ///< elements between rows (row-major) or columns; 0 = tight
  /// Elements between batches; 0 = tight (ld * extent). A, B and C are only read, so any positive
  /// stride is legal and their batches may overlap; those of D must not: each lies behind the one
  /// before it, or beside it within the same lines (stride ≥ a line, all batches within ld).
  std::int64_t batch_stride = 0;
  /// Field by field, in order.
  auto operator<=>(const Matrix&) const = default;
};

/// A matrix whose elements may be codes with scales and zero points.
struct ScaledMatrix : Matrix {
  Quantisation q;  ///< of its elements
  /// Field by field, in order.
  auto operator<=>(const ScaledMatrix&) const = default;
};

/// What happens after the product, in this order: `+ beta*C`, `+ bias`, `activation`, `+ residual`.
/// Everything up to the store is done in the accumulator's type. Of s32 accumulators: in 32 bits
/// that wrap, so exactly wherever the result fits, where D is s32, alpha and beta are whole numbers
/// of 32 bits, and there is no bias and no activation but relu; else in fp32, unless the sums are
/// only stored.
struct Epilogue {
  Bias bias = Bias::none;                    ///< of fp32 (fp64 when D is fp64) or as bias_as_d
  Activation activation = Activation::none;  ///< applied after the bias
  bool residual = false;   ///< a matrix stored exactly as D is (dtype, order, ld, stride)
  bool bias_as_d = false;  ///< the bias has D's dtype, which is then fp16 or bf16
  /// There is then no C (beta = 0) and no activation, and D is row-major.
  std::optional<Gated> gate;
  /// In place of all of the above: any function of alpha * op(A) * op(B) + beta * C, which it calls
  /// `acc`. One that names `acc0` and `acc1` stands beside Gate::expression, and no other gate.
  /// There are then no list of products, no scales of D and no amax_d.
  Expression expression;
  /// Field by field, in order.
  auto operator<=>(const Epilogue&) const = default;
};

struct GemmRange;

/// The problem. A value: equal problems have equal fields, and the text form names every field that
/// is not the default.
struct KILN_API Gemm {
  std::int64_t m = 0;      ///< rows of D
  std::int64_t n = 0;      ///< columns of D; op(B) has as many, with a gate twice as many
  std::int64_t k = 0;      ///< columns of op(A), rows of op(B)
  std::int64_t batch = 1;  ///< products of the same shape, or groups
  /// A as stored. Scales are for operands of at most eight bits. Either both operands have scales
  /// of blocks along k or neither has; the fp6 and fp4 types need mx_32. Integers have those of
  /// lines and of tensors, beside a floating D or one with scales: sums are exact, then rounded to
  /// fp32 and multiplied. `q.order` is of scales of line_128, where B holds no weights and rows of
  /// A are not gathered.
  ///
  /// Zero points of A, where it is s8 or u8 and has scales: an element counts as (code − zero
  /// point) · scale: a sum of products less the row's zero point times the sum of B's column, which
  /// the call is given (Operands::column_sums_b). Both are taken in 32 bits that wrap, so the
  /// difference is exact where it fits them: up to k = 33025 (65793 with a B of s8) where the zero
  /// points are numbers of A's type. D is row-major; groups of k have none.
  ScaledMatrix a;
  /// B as stored; its scales as A's. Weights, a B of integers, of fp8_e4m3 or of fp4_e2m1 that
  /// meets an A of 16 bits, have scales of B alone: of groups of 32, 64 or 128 elements along k, of
  /// line or square_128, or of floats mx_32, with a k of whole groups. Theirs may be fp32, bf16 or
  /// fp16 (`q.type`), and weights that are integers may have zero points (`q.zero`).
  ScaledMatrix b;
  Matrix c;  ///< C as stored, in D's order
  /// D as stored. With scales it is codes of fp8_e4m3 or s8 (c.dtype is d.dtype), whose values are
  /// code · scale: `tensor` reads a positive scale, of line and line_128 the call writes the
  /// scales, one for each row of D or for each 128 elements of a row, as the next product reads
  /// those of its A. With x the fp32 value of an element and L the largest number of the type, 448
  /// or 127, in fp32:
  ///     scale = max |x| / L, or 1 where that is below 2^-126; code = x · (1 / scale),
  /// each operation rounded to nearest, the code rounded to nearest even and saturated. With n = 0
  /// the scales of `line` are 1; not those of an entry of a list, which is then skipped, nor on a
  /// GPU those of groups of rows and masked groups, whose rows only the device knows. A NaN does
  /// not count for the scale; it becomes a NaN, in s8 0. An infinity makes the scale infinite, of
  /// which finite elements become 0 and infinite ones as a NaN does. D is row-major; there is no C
  /// (beta = 0), no residual and no packed B. Scales of D are fp32 and in the order of lines; it
  /// has no zero points.
  ScaledMatrix d;
  DType accumulator = DType::fp32;  ///< type in which products are accumulated
  Epilogue epilogue;                ///< what follows the product
  /// With groups a bias has values of each group's own (but see Bias), D is row-major and B is not
  /// packed. Groups of k have no gate, no weights and no scales of blocks of 32. A list may have a
  /// column-major D; it has no weights, no scales of blocks of 32, no zero points of A, no packed B
  /// and no amax_d, and its matrices have no leading dimension and no stride here. `alignment` then
  /// promises the leading dimensions of entries as well, in bytes.
  Groups groups;
  /// A power of two that divides the address of A, B, C, D and the residual, in bytes; kernels may
  /// rely on it, and see for each operand how far its pitch and stride have it too. 1 promises
  /// nothing. Scales of blocks along k have it up to 16 bytes, and 4 at least.
  int alignment = 1;
  /// B arrives packed by `Engine::pack_b`: another problem, tuned on its own.
  bool b_packed = false;
  /// `fast` needs two operands of 8-bit floats without scales of blocks along k, `tensor` two of
  /// fp32.
  Numerics numerics = Numerics::ieee;
  /// The call also writes the largest |value| of D over all batches and groups, one fp32
  /// (Operands::amax_d), from which delayed scaling chooses the next scale of D: of the values that
  /// are rounded to D's type, before they are divided by a scale. It is NaN where any of them is, 0
  /// where there are none; rows of no group do not count. D is of floats, or of codes with
  /// one scale (`tensor`).
  bool amax_d = false;

  /// Field by field, in order.
  auto operator<=>(const Gemm&) const = default;

  /// A, B, C and D.
  std::array<Matrix*, 4> matrices() { return {&a, &b, &c, &d}; }
  /// A, B, C and D.
  std::array<const Matrix*, 4> matrices() const { return {&a, &b, &c, &d}; }
  /// What `groups` holds.
  Grouping grouping() const { return static_cast<Grouping>(groups.index()); }

  /// Row-major A [m,k], B [k,n], C and D [m,n], tight, with the usual accumulator and output:
  /// fp32→fp32, fp64→fp64, fp16→fp16 (fp32 acc), bf16→bf16 (fp32 acc), s8→s32, u8 (times s8)→s32,
  /// smaller floats→bf16 (fp32 acc).
  static Gemm row_major(std::int64_t m, std::int64_t n, std::int64_t k, DType t = DType::fp32);
  /// The same, column-major.
  static Gemm column_major(std::int64_t m, std::int64_t n, std::int64_t k, DType t = DType::fp32);

  /// @name Changed copies, so that a problem reads as one expression
  /// @{

  /// A copy with this field changed.
  Gemm transpose_a() const;
  Gemm transpose_b() const;
  Gemm output(DType t) const;              ///< dtype of C and D
  Gemm batched(std::int64_t count) const;  ///< tight strides
  /// `count` groups; m is the rows of all of them (rows) or the most of one (masked). With
  /// Grouping::k the k is that of all of them, with
  /// Grouping::list m, n and k are the most of one product.
  Gemm grouped(std::int64_t count, Grouping how) const;
  /// The same with what that kind of groups has: `grouped(32, MaskedGroups{.expected_rows = 20})`.
  Gemm grouped(std::int64_t count, Groups how) const {
    Gemm copy = batched(count);
    copy.groups = how;
    return copy;
  }
  /// Rows of A by index, of which it has so many; 0: m. Other groups become groups of rows.
  Gemm gathered(std::int64_t rows = 0) const;
  /// Rows of D by index, of which it has so many; 0: m. Other groups become groups of rows.
  Gemm scattered(std::int64_t rows = 0, Scatter how = Scatter::rows) const;
  /// `as_d`: its values have D's dtype.
  Gemm with_bias(Bias where, bool as_d = false) const {
    Gemm copy = *this;
    copy.epilogue.bias = where;
    copy.epilogue.bias_as_d = as_d;
    return copy;
  }
  Gemm with_activation(Activation f) const {
    Gemm copy = *this;
    copy.epilogue.activation = f;
    return copy;
  }
  Gemm with_gate(Gate f, GateOrder order = GateOrder::stacked) const {
    Gemm copy = *this;
    copy.epilogue.gate = Gated{f, order};
    return copy;
  }
  Gemm with_residual() const {
    Gemm copy = *this;
    copy.epilogue.residual = true;
    return copy;
  }
  /// With Gate::expression where it names a gate's products (stacked, unless the problem has that
  /// gate), and without it where it does not.
  Gemm with_expression(Expression e) const;
  Gemm with_packed_b() const {
    Gemm copy = *this;
    copy.b_packed = true;
    return copy;
  }
  Gemm scaled(Scale of_a, Scale of_b) const {
    Gemm copy = *this;
    copy.a.q.scale = of_a;
    copy.b.q.scale = of_b;
    return copy;
  }
  Gemm scaled(Scale of_both) const { return scaled(of_both, of_both); }
  /// How scales of line_128 lie.
  Gemm with_scale_order(ScaleOrder of_a, ScaleOrder of_b = ScaleOrder::lines) const {
    Gemm copy = *this;
    copy.a.q.order = of_a;
    copy.b.q.order = of_b;
    return copy;
  }
  /// B holds weights: s4, u4, s8, fp8_e4m3 or fp4_e2m1, a scale (and a zero point) for each
  /// `group`.
  Gemm with_weights(DType type, Scale group, DType of_scales = DType::fp32,
                    Zero points = Zero::none) const {
    Gemm copy = *this;
    copy.b.dtype = type;
    copy.b.q.scale = group;
    copy.b.q.type = of_scales;
    copy.b.q.zero = points;
    return copy;
  }
  /// D is codes of `type`, fp8_e4m3 or s8, with scales.
  Gemm quantised(DType type, Scale of_d) const {
    Gemm copy = *this;
    copy.c.dtype = copy.d.dtype = type;
    copy.d.q.scale = of_d;
    return copy;
  }
  /// A, of s8 or u8, has zero points beside its scales.
  Gemm with_zero_points_of_a(Zero of_a = Zero::line) const {
    Gemm copy = *this;
    copy.a.q.zero = of_a;
    return copy;
  }
  Gemm with_numerics(Numerics kind) const {
    Gemm copy = *this;
    copy.numerics = kind;
    return copy;
  }
  /// Writes the largest magnitude of D beside it.
  Gemm with_amax_d() const {
    Gemm copy = *this;
    copy.amax_d = true;
    return copy;
  }
  /// @}

  /// @name Ranges of a size, `first` (at least 1) to `last`, to be tuned as one (kiln/range.hpp)
  /// @{

  /// This problem with this size as a range.
  GemmRange with_m(std::int64_t first, std::int64_t last) const;
  GemmRange with_n(std::int64_t first, std::int64_t last) const;
  GemmRange with_k(std::int64_t first, std::int64_t last) const;
  /// @}

  /// @name Leading dimensions and strides, with 0 resolved
  /// In elements: between rows of a row-major matrix as stored, columns of a column-major one, and
  /// between batches.
  /// @{

  /// The value, 0 resolved.
  std::int64_t lda() const;
  std::int64_t ldb() const;
  std::int64_t ldc() const;
  std::int64_t ldd() const;
  std::int64_t stride_a() const;
  std::int64_t stride_b() const;
  std::int64_t stride_c() const;
  std::int64_t stride_d() const;
  /// @}
  /// Columns of op(B): n, with a gate 2n.
  std::int64_t columns_of_b() const { return epilogue.gate ? 2 * n : n; }
  /// Elements of D of all batches: m·n·batch; of groups that share m rows m·n.
  double outputs() const {
    return double(m) * double(n) * (grouping() == Grouping::rows ? 1.0 : double(batch));
  }
  /// Floating-point operations of all batches: 2·m·n·k·batch, with a gate twice as many; of groups
  /// at most so many, which share m or k, and so of a list.
  double flops() const {
    const double products = grouping() == Grouping::k ? double(m) * double(n) : outputs();
    return 2.0 * products * double(k) * (epilogue.gate ? 2.0 : 1.0);
  }
};

/// Whether the problem is well-formed and supported: sizes ≥ 0, leading dimensions large
/// enough, a supported (A, B, accumulator, D) combination, C stored in D's order, … Errors:
/// bad_input and, for combinations that no kernel covers, unsupported; both name the field and the
/// value.
KILN_API Status validate(const Gemm& gemm);

/// One line, `dtype ta tb m n k [key=value …]`; `parse_gemm(text(g)) == g` for every valid g.
/// `int8` is s8·s8 → s32, `u8s8` and `s8u8` are the mixed pairs; `#` starts a comment. Keys: batch=
/// lda= ldb= ldc= ldd= stride_a= … order= (row|column|per-matrix `rcrr`) out= acc= epilogue=
/// (bias_row|bias_col|relu|gelu|gelu_erf|silu|residual joined by +, or an Expression's text) align=
/// packed_b=1 scale=
/// (none|line|1x128|128x128|mx32|tensor, of both operands or as A's:B's)
/// numerics=(ieee|fast|tensor) gate=(relu|gelu|gelu_erf|silu|sigmoid, with :interleaved behind it
/// for such columns of B), groups= with grouped=(rows|masked|k|list) and expected_rows= in place
/// of batch=, and of weights (bf16_int4, fp16_uint4, bf16_fp8, bf16_fp4, …)
/// group=(32|64|128|k|128x128|mx32) scale_type= zero=(none|int|float); scale_d=(tensor|line|1x128)
/// of a D with out=(fp8_e4m3|s8); zero_a=(line|tensor) of an A of integers with scales;
/// gather=rows rows_of_a= and scatter=(rows|add|weighted) rows_of_d= of grouped=rows; amax=1;
/// scale_order=(lines|blocks|blocks_4, of both operands or as A's:B's) of scales of 1x128.
KILN_API std::string text(const Gemm& gemm);
/// The problem that a line of text() describes. Errors: bad_input (the field and the value).
KILN_API Result<Gemm> parse_gemm(std::string_view line);

/// @name Names, as in a problem's text
/// @{

/// The name.
KILN_API std::string_view name(Activation f);
KILN_API std::string_view name(Gate f);
KILN_API std::string_view name(Bias b);
KILN_API std::string_view name(Scale s);
KILN_API std::string_view name(ScaleOrder o);
KILN_API std::string_view name(Numerics n);
KILN_API std::string_view name(Zero z);
KILN_API std::string_view name(Grouping g);
KILN_API std::string_view name(Scatter s);
/// @}

}  // namespace kiln
