#include "generator/problem/extent.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "generator/expression/halves.h"
#include "generator/expression/program.h"
#include "generator/problem/fields.h"
#include "generator/problem/gemm_types.h"
#include "generator/problem/indices.h"
#include "generator/problem/product_list.h"
#include "generator/problem/spelling.h"

namespace kiln {
namespace {

/// Of an operand whose layout a Matrix describes.
Extent matrix_extent(const Gemm& gemm, Operand which) {
  const Matrix& stored = matrix(gemm, which);
  std::int64_t rows = which == Operand::a   ? rows_of_a(gemm)
                      : which == Operand::b ? gemm.k
                                            : rows_of_d(gemm);
  std::int64_t columns = which == Operand::a   ? gemm.k
                         : which == Operand::b ? gemm.columns_of_b()
                                               : gemm.n;
  if (stored.transposed) std::swap(rows, columns);
  if (stored.order == Order::row_major) return {.length = columns, .lines = rows};
  return {.length = rows, .lines = columns};
}

Extent scale_extent(const Gemm& gemm, Operand which) {
  const auto [lines, along] = scale_block(scale_of(gemm, which));
  // Blocks of the scales of D divide its rows, which have n elements.
  const std::int64_t length = which == Operand::scale_d ? gemm.n : gemm.k;
  const bool of_b =
      which == Operand::scale_b || which == Operand::zero_b || which == Operand::column_sums_b;
  const std::int64_t of = of_b                        ? gemm.columns_of_b()
                          : which == Operand::scale_a ? rows_of_a(gemm)
                                                      : gemm.m;
  Extent e{.length = along == 0 ? 1 : length / along + (length % along != 0),
           .lines = of / lines + (of % lines != 0)};
  if (order_of_scales(gemm, which) != ScaleOrder::lines) std::swap(e.length, e.lines);
  return e;
}

/// `[m,n]` and `[n,m]` are lines, what lacks one of the two is a line, or an element.
Extent extra_extent(const Gemm& gemm, const ExtraOperand& extra) {
  Extent e{.length = 1, .lines = 1};
  for (const Index index : extra.index) {
    if (index == Index::batch) continue;
    e.lines = e.length;
    e.length = index == Index::m ? expression::Line::count(extra.per_m, gemm.m)
                                 : expression::Line::count(extra.per_n, gemm.n);
  }
  return e;
}

/// Whether all groups of k share one of it: A, B, and those scales of theirs whose blocks divide
/// the k of all groups. The scales of D divide n, and each group has a D of its own.
bool shared_by_groups_of_k(const Gemm& gemm, Operand which) {
  if (which == Operand::scale_a || which == Operand::scale_b)
    return blocks_along_k(scale_of(gemm, which));
  return which == Operand::a || which == Operand::b;
}

/// Elements between lines, or batches, of a tight operand that has no elements: a byte's at least.
std::int64_t pitch_of_nothing(const Gemm& gemm, Operand which) {
  return row_of(which).matrix ? elements_of_whole_bytes(matrix(gemm, which).dtype) : 1;
}

/// Whether groups may begin at any of the elements of a matrix that lie side by side.
bool begins_within_lines(const Gemm& gemm, Operand which) {
  const Matrix& stored = matrix(gemm, which);
  const bool columns_are_lines = (stored.order == Order::row_major) == stored.transposed;
  if (gemm.grouping() == Grouping::rows) return which == Operand::a && columns_are_lines;
  if (gemm.grouping() != Grouping::k) return false;
  return which == Operand::b ? columns_are_lines : which == Operand::a && !columns_are_lines;
}

}  // namespace

const Gathered* gathered_rows(const Gemm& gemm) { return GatheredPart::of(gemm); }

const Scattered* scattered_rows(const Gemm& gemm) { return ScatteredPart::of(gemm); }

std::int64_t rows_of_a(const Gemm& gemm) {
  const Gathered* const gathered = gathered_rows(gemm);
  return gathered == nullptr || gathered->rows == 0 ? gemm.m : gathered->rows;
}

std::int64_t rows_of_d(const Gemm& gemm) {
  const Scattered* const scattered = scattered_rows(gemm);
  return scattered == nullptr || scattered->rows == 0 ? gemm.m : scattered->rows;
}

bool present(const Gemm& gemm, Operand which) {
  switch (which) {
    case Operand::a:
    case Operand::b:
    case Operand::d:
      return true;
    case Operand::c:
      return !gemm.epilogue.gate && gemm.d.q.scale == Scale::none && !scatters(gemm);
    case Operand::bias:
      return gemm.epilogue.bias != Bias::none;
    case Operand::residual:
      return gemm.epilogue.residual;
    case Operand::scale_a:
    case Operand::scale_b:
    case Operand::scale_d:
      return scale_of(gemm, which) != Scale::none;
    case Operand::zero_b:
      return gemm.b.q.zero != Zero::none;
    case Operand::groups:
      return gemm.grouping() != Grouping::none;
    case Operand::zero_a:
    case Operand::column_sums_b:
      return gemm.a.q.zero != Zero::none;
    case Operand::index_a:
      return gathers(gemm);
    case Operand::index_d:
      return scattered_rows(gemm) != nullptr;
    case Operand::amax_d:
      return gemm.amax_d;
    case Operand::row_weights:
      return weighs_rows(gemm);
    case Operand::x0:
    case Operand::x1:
    case Operand::x2:
    case Operand::x3:
    case Operand::x4:
    case Operand::x5:
    case Operand::x6:
    case Operand::x7:
    case Operand::y0:
    case Operand::y1:
    case Operand::y2:
    case Operand::y3:
      return extra_of(gemm, which) != nullptr;
  }
  return false;
}

namespace {

/// Whether it is one that only kernels of a half of an expression store.
bool is_hidden(const Gemm& gemm, Operand which) {
  const Expression& all = gemm.epilogue.expression;
  const expression::Halves* const halves = all.empty() ? nullptr : all.program()->half_of;
  return halves != nullptr && is_extra_output(which) && index_of_extra(which) >= halves->outputs;
}

}  // namespace

const ExtraOperand* extra_of(const Gemm& gemm, Operand which) {
  const Expression& all = gemm.epilogue.expression;
  const auto in = [&](auto some) { return index_of_extra(which) < some.size(); };
  if (is_extra(which) && in(all.operands())) return &all.operands()[index_of_extra(which)];
  if (is_extra_output(which) && in(all.outputs()))
    return &all.outputs()[index_of_extra(which)].target;
  return nullptr;
}

bool leaves_values(const Gemm& gemm, Operand which) {
  const Expression product = expression::of_product(gemm.epilogue.expression);
  return is_extra_output(which) && index_of_extra(which) < product.outputs().size() &&
         expression::is_reduced(product.outputs()[index_of_extra(which)]);
}

Reduction reduction_of(const Gemm& gemm, Operand which) {
  if (!is_extra_output(which) || extra_of(gemm, which) == nullptr) return Reduction::none;
  return gemm.epilogue.expression.outputs()[index_of_extra(which)].reduction;
}

DType type_of_values(const Gemm& gemm) {
  return gemm.accumulator == DType::fp64 ? DType::fp64 : DType::fp32;
}

DType type_of_kept(const Gemm& gemm, const expression::Halves& halves, std::size_t i) {
  return halves.product.outputs[halves.first_kept() + i].target.dtype.value_or(
      type_of_values(gemm));
}

expression::ExtraTypes types_of_extras(const Gemm& gemm) {
  expression::ExtraTypes types;
  for (const Operand which : kOperands)
    if (extra_of(gemm, which) != nullptr)
      (is_extra(which) ? types.operands : types.outputs).push_back(dtype_of(gemm, which));
  return types;
}

bool is_output(const Gemm& gemm, Operand which) {
  if (which == Operand::scale_d)
    return gemm.d.q.scale != Scale::none && gemm.d.q.scale != Scale::tensor;
  if (is_extra_output(which)) return present(gemm, which);
  return which == Operand::d || (which == Operand::amax_d && gemm.amax_d);
}

const Matrix& matrix(const Gemm& gemm, Operand which) {
  assert(row_of(which).matrix);
  switch (which) {
    case Operand::a:
      return gemm.a;
    case Operand::b:
      return gemm.b;
    case Operand::c:
      return gemm.c;
    default:
      return gemm.d;
  }
}

bool is_list(Operand which) {
  return which == Operand::groups || which == Operand::index_a || which == Operand::index_d;
}

DType dtype_of(const Gemm& gemm, Operand which) {
  if (is_list(which)) return DType::s32;
  if (which == Operand::zero_a || which == Operand::column_sums_b) return DType::s32;
  if (row_of(which).matrix) return matrix(gemm, which).dtype;
  if (const ExtraOperand* const extra = extra_of(gemm, which)) {
    if (extra->dtype) return *extra->dtype;
    if (is_hidden(gemm, which)) return type_of_values(gemm);
    // C's type is that of the caller's D whatever kernels see (of_kernels()).
    const DType d = gemm.c.dtype;
    if (expression::is_matrix(*extra) && expression::is_operand_type(d)) return d;
    return d == DType::fp64 ? DType::fp64 : DType::fp32;
  }
  if (which == Operand::bias) {
    if (gemm.epilogue.bias_as_d) return gemm.d.dtype;
    return gemm.d.dtype == DType::fp64 ? DType::fp64 : DType::fp32;
  }
  if (which == Operand::zero_b && gemm.b.q.zero == Zero::integer) return gemm.b.dtype;
  if (which == Operand::scale_d || which == Operand::amax_d || which == Operand::row_weights)
    return DType::fp32;
  return scale_of(gemm, which) == Scale::mx_32 ? DType::u8 : gemm.b.q.type;
}

Extent extent(const Gemm& gemm, Operand which) {
  if (!present(gemm, which)) return {};
  if (row_of(which).matrix) return matrix_extent(gemm, which);
  if (const ExtraOperand* const extra = extra_of(gemm, which)) return extra_extent(gemm, *extra);
  if (which == Operand::bias)
    return {.length = gemm.epilogue.bias == Bias::per_row ? gemm.m : gemm.columns_of_b(),
            .lines = 1};
  if (which == Operand::groups)
    return {.length = gemm.batch * (lists_products(gemm) ? kNumbersOfEntry : 1), .lines = 1};
  if (is_list(which) || which == Operand::row_weights) return {.length = gemm.m, .lines = 1};
  if (which == Operand::amax_d) return {.length = 1, .lines = 1};
  return scale_extent(gemm, which);
}

bool follows_alignment(const Gemm& gemm, Operand scales) {
  const Scale scale = scale_of(gemm, scales);
  if (lists_products(gemm)) return false;
  return !has_weights(gemm) && (scale == Scale::line_128 || scale == Scale::square_128);
}

int address_alignment(const Gemm& gemm, Operand which) {
  if (row_of(which).matrix) return gemm.alignment;
  if (which == Operand::bias || is_extra(which) || is_extra_output(which)) return 1;
  if (is_list(which)) return size_of(DType::s32);
  if (which == Operand::scale_d || which == Operand::amax_d || which == Operand::row_weights)
    return size_of(DType::fp32);
  if (has_weights(gemm)) return size_of(dtype_of(gemm, which));
  // Scales are read four bytes at a time, or copied by tensor maps, which ask for 16.
  return follows_alignment(gemm, which) ? std::clamp(gemm.alignment, 4, 16) : 4;
}

int line_alignment(const Gemm& gemm, Operand which) {
  if (which == Operand::b && gemm.b_packed) return gemm.alignment;
  if (lists_products(gemm)) return gemm.alignment;
  // Unsigned: sizes that are not checked yet may wrap.
  const auto each = static_cast<std::uint64_t>(bits_of(matrix(gemm, which).dtype));
  std::uint64_t bits = std::uint64_t{8} * static_cast<std::uint64_t>(gemm.alignment);
  const auto add = [&](std::int64_t elements) {
    bits |= static_cast<std::uint64_t>(elements) * each;
  };
  add(leading_dimension(gemm, which));
  if (gemm.batch > 1) add(batch_stride(gemm, which));
  if (begins_within_lines(gemm, which)) add(1);
  return static_cast<int>(std::max<std::uint64_t>(8, bits & (~bits + 1)) / 8);
}

int alignment_of_d(const Gemm& gemm) {
  // The residual is stored as D is.
  const int d = line_alignment(gemm, Operand::d);
  return present(gemm, Operand::c) ? std::min(d, line_alignment(gemm, Operand::c)) : d;
}

bool shared_by_batches(const Gemm& gemm, Operand which) {
  if (is_list(which) || which == Operand::amax_d) return true;
  if (const ExtraOperand* const extra = extra_of(gemm, which))
    return !expression::has_index(*extra, Index::batch);
  if (gemm.grouping() == Grouping::k) return shared_by_groups_of_k(gemm, which);
  const bool rows = gemm.grouping() == Grouping::rows;
  if (which == Operand::bias)
    return gemm.grouping() == Grouping::none || (rows && gemm.epilogue.bias == Bias::per_row);
  return rows && which != Operand::b && which != Operand::scale_b && which != Operand::zero_b &&
         which != Operand::column_sums_b;
}

std::int64_t aligned_pitch(const Gemm& gemm, Operand which, std::int64_t elements) {
  const int unit = std::max(1, gemm.alignment * 8 / bits_of(matrix(gemm, which).dtype));
  return (elements + unit - 1) / unit * unit;
}

std::int64_t leading_dimension(const Gemm& gemm, Operand which) {
  const ExtraOperand* const extra = extra_of(gemm, which);
  const std::int64_t ld = extra != nullptr       ? extra->ld
                          : row_of(which).matrix ? matrix(gemm, which).ld
                                                 : 0;
  if (ld != 0) return ld;
  const std::int64_t length = extent(gemm, which).length;
  const std::int64_t tight = length > 0 ? length : pitch_of_nothing(gemm, which);
  if (const int unit = unit_of_scales(order_of_scales(gemm, which));
      unit > 1 && !row_of(which).matrix)
    return (tight + unit - 1) / unit * unit;
  return lists_products(gemm) && row_of(which).matrix ? aligned_pitch(gemm, which, tight) : tight;
}

std::int64_t batch_stride(const Gemm& gemm, Operand which) {
  if (shared_by_batches(gemm, which)) return 0;
  const std::int64_t stride = row_of(which).matrix ? matrix(gemm, which).batch_stride : 0;
  if (stride != 0) return stride;
  if (lists_products(gemm) && row_of(which).matrix)
    return leading_dimension(gemm, which) * (extent(gemm, which).lines + 1);
  const std::int64_t lines = extent(gemm, which).lines;
  return lines > 0 ? leading_dimension(gemm, which) * lines : pitch_of_nothing(gemm, which);
}

std::int64_t span(const Gemm& gemm, Operand which) {
  const Extent e = extent(gemm, which);
  if (e.length == 0 || e.lines == 0) return 0;
  return (gemm.batch - 1) * batch_stride(gemm, which) +
         (e.lines - 1) * leading_dimension(gemm, which) + e.length;
}

std::int64_t span_bytes(const Gemm& gemm, Operand which) {
  return bytes_of(dtype_of(gemm, which), span(gemm, which));
}

std::int64_t bytes_beside_d(const Gemm& gemm) {
  std::int64_t bytes = 0;
  for (const Operand which : kBesideD)
    if (is_output(gemm, which)) bytes += span_bytes(gemm, which);
  return bytes;
}

std::int64_t bytes_of_extras(const Gemm& gemm) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < gemm.epilogue.expression.operands().size(); ++i)
    bytes += span_bytes(gemm, extra_operand(i));
  return bytes;
}

Scale scale_of(const Gemm& gemm, Operand which) {
  switch (which) {
    case Operand::a:
    case Operand::scale_a:
      return gemm.a.q.scale;
    case Operand::b:
    case Operand::scale_b:
    case Operand::zero_b:
      return gemm.b.q.scale;
    case Operand::d:
    case Operand::scale_d:
      return gemm.d.q.scale;
    case Operand::zero_a:
      return gemm.a.q.zero == Zero::line     ? Scale::line
             : gemm.a.q.zero == Zero::tensor ? Scale::tensor
                                             : Scale::none;
    default:
      return Scale::none;
  }
}

ScaleOrder order_of_scales(const Gemm& gemm, Operand which) {
  switch (which) {
    case Operand::a:
    case Operand::scale_a:
      return gemm.a.q.order;
    case Operand::b:
    case Operand::scale_b:
      return gemm.b.q.order;
    default:
      return ScaleOrder::lines;
  }
}

bool orders_scales(const Gemm& gemm) {
  return gemm.a.q.order != ScaleOrder::lines || gemm.b.q.order != ScaleOrder::lines;
}

ScaleStrides strides_of_scales(const Gemm& gemm, Operand which, const PartOfK& part) {
  Gemm whole = gemm;
  if (part.all != 0) whole.k = part.all;
  if (part.rows != 0) whole.m = part.rows;
  const Operand scales = scales_of(which);
  const std::int64_t pitch = leading_dimension(whole, scales);
  const bool lines = order_of_scales(gemm, which) == ScaleOrder::lines;
  return {.line = lines ? pitch : 1,
          .block = lines ? 1 : pitch,
          .batch = pitch * extent(whole, scales).lines};
}

bool has_weights(const Gemm& gemm) { return are_weights(gemm.a.dtype, gemm.b.dtype); }

int whole_blocks(const Gemm& gemm) {
  for (const Scale scale : {gemm.a.q.scale, gemm.b.q.scale})
    if (scale == Scale::mx_32 || (has_weights(gemm) && blocks_along_k(scale)))
      return scale_block(scale).along;
  return 0;
}

}  // namespace kiln
