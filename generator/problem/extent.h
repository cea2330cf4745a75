// Which operands a problem has, of what type, and how far each reaches in memory, in elements.
// Knows layouts; knows no addresses.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <iterator>
#include <limits>
#include <vector>

#include "generator/expression/program.h"
#include "generator/problem/operand.h"
#include "kiln/gemm.hpp"

namespace kiln {

/// `lines` runs of `length` neighbouring elements each, a leading dimension apart. A vector is one
/// line.
struct Extent {
  std::int64_t length = 0;
  std::int64_t lines = 0;
};

/// Whether calls of this problem have it. C counts as present, but with a gate or scales of D:
/// whether it is read is up to beta.
bool present(const Gemm& gemm, Operand which);
/// Whether calls write it: D, its scales where they follow from it, its largest magnitude, and what
/// an expression stores.
bool is_output(const Gemm& gemm, Operand which);
/// What calls may write beside D.
inline constexpr Operand kBesideD[] = {Operand::scale_d, Operand::amax_d, Operand::y0,
                                       Operand::y1,      Operand::y2,     Operand::y3};
/// Whether some problem's calls write it: its pointer is to memory that may change.
constexpr bool may_be_written(Operand which) {
  return which == Operand::d || std::ranges::find(kBesideD, which) != std::end(kBesideD);
}
/// What the problem's expression says of one that it reads or stores; null: it has not so many.
const ExtraOperand* extra_of(const Gemm& gemm, Operand which);
/// How values become an element of one that it stores.
Reduction reduction_of(const Gemm& gemm, Operand which);
/// Whether kernels leave values that a later step reduces to it.
bool leaves_values(const Gemm& gemm, Operand which);
/// Of an expression's values: fp32, or fp64 where products are summed in it.
DType type_of_values(const Gemm& gemm);
/// Of value i that an expression keeps of each element until all are reduced.
DType type_of_kept(const Gemm& gemm, const expression::Halves& halves, std::size_t i);
/// The types of all that it reads, and of all that it stores.
expression::ExtraTypes types_of_extras(const Gemm& gemm);
/// Whether it is a list of 32-bit integers: of groups, or of rows.
bool is_list(Operand which);
/// How a matrix is stored, the residual as D is. `which` is a matrix.
const Matrix& matrix(const Gemm& gemm, Operand which);
/// Of its elements; e8m0 scales count as u8.
DType dtype_of(const Gemm& gemm, Operand which);
/// How rows of A, or of D, are indexed; null: they are not.
const Gathered* gathered_rows(const Gemm& gemm);
const Scattered* scattered_rows(const Gemm& gemm);
/// Rows of A and of D: m, or as many as there are to be indexed.
std::int64_t rows_of_a(const Gemm& gemm);
std::int64_t rows_of_d(const Gemm& gemm);
/// Of one batch; nothing for an operand that is not present.
Extent extent(const Gemm& gemm, Operand which);
/// Whether the address of these scales is as aligned as the matrices', up to 16 bytes: those of
/// fp32 for blocks along k, but of a list, where no tensor map copies them.
bool follows_alignment(const Gemm& gemm, Operand scales);
/// A power of two that divides its address in every valid call, in bytes; on a GPU that of the
/// element is as well.
int address_alignment(const Gemm& gemm, Operand which);

/// A power of two, at most the problem's alignment, that divides where each line of a matrix
/// begins, in bytes: its address, pitch and stride.
int line_alignment(const Gemm& gemm, Operand which);
/// The same of D and of the matrices that are added to it.
int alignment_of_d(const Gemm& gemm);

/// The least multiple of the problem's alignment that has so many elements of a matrix.
std::int64_t aligned_pitch(const Gemm& gemm, Operand which, std::int64_t elements);

/// Elements between lines, with 0 resolved; at least 1, and of whole bytes where there are no
/// elements. Of a list, as of batch_stride(): of the
/// places that its products have where they are verified or timed, which are as aligned as the
/// problem promises.
std::int64_t leading_dimension(const Gemm& gemm, Operand which);
/// Whether all batches see one of it: a bias without groups, of groups that share m rows whatever
/// has their rows, all lists, and the largest magnitude.
bool shared_by_batches(const Gemm& gemm, Operand which);
/// Elements between batches, with 0 resolved; at least 1, but 0 for what all batches share. A line
/// lies between the places of a list. `gemm` must be valid.
std::int64_t batch_stride(const Gemm& gemm, Operand which);
/// Elements from the first of the first batch to one past the last of the last: what a buffer must
/// hold. 0 when the operand is empty or not present. `gemm` must be valid.
std::int64_t span(const Gemm& gemm, Operand which);

/// Bytes from an operand's first element to the one that is `elements` behind it. The element
/// begins a byte: half of a byte has no address, and a rounded one is that of another element.
inline std::int64_t offset_bytes(DType type, std::int64_t elements) {
  assert(elements % elements_of_whole_bytes(type) == 0);
  return bytes_of(type, elements);
}

/// What a buffer of the operand must hold, in bytes.
std::int64_t span_bytes(const Gemm& gemm, Operand which);

/// What buffers of all that calls write beside D must hold.
std::int64_t bytes_beside_d(const Gemm& gemm);
/// Bytes of what an expression reads.
std::int64_t bytes_of_extras(const Gemm& gemm);

/// How many elements share a scale of one kind: `lines` of them (kEveryLine: all) × `along`
/// elements of k; 0 stands for all of k.
inline constexpr int kEveryLine = std::numeric_limits<int>::max();
struct ScaleBlock {
  int lines = 1, along = 0;
};
constexpr ScaleBlock scale_block(Scale s) {
  switch (s) {
    case Scale::line_128:
      return {1, 128};
    case Scale::line_32:
      return {1, 32};
    case Scale::line_64:
      return {1, 64};
    case Scale::square_128:
      return {128, 128};
    case Scale::mx_32:
      return {1, 32};
    case Scale::tensor:
      return {kEveryLine, 0};
    default:
      return {};
  }
}
/// Of the scales of A or B: those of D have blocks along n.
constexpr bool blocks_along_k(Scale s) { return scale_block(s).along > 0; }

/// Where a product lies in what scales are stored for: element p along k of the product is element
/// `first + p` of `all` that their blocks divide, and those of A are of so many `rows`. A product
/// of its own has the defaults.
struct PartOfK {
  std::int64_t first = 0, all = 0;  // all = 0: the product's own k
  std::int64_t rows = 0;            // 0: the product's own m
};

/// How the scales of A or B lie; `which` names the matrix or its scales, of others the default.
ScaleOrder order_of_scales(const Gemm& gemm, Operand which);
/// Whether those of A or B have another order than by lines.
bool orders_scales(const Gemm& gemm);
/// Of how many scales the rows of a block's are whole multiples; 0 where those of a line lie side
/// by side.
constexpr int unit_of_scales(ScaleOrder order) {
  return order == ScaleOrder::lines ? 0 : order == ScaleOrder::blocks ? 1 : 4;
}
/// Scales from one of an operand to the next, of blocks as scale_block() says.
struct ScaleStrides {
  std::int64_t line = 0;   // between those of neighbouring lines, or blocks of lines
  std::int64_t block = 0;  // between those of neighbouring blocks along k
  std::int64_t batch = 0;
};
/// `which` is A or B. Of one product, in a batch or not; `part` where it is one of a group.
ScaleStrides strides_of_scales(const Gemm& gemm, Operand which, const PartOfK& part = {});

/// The operand that holds the scales of A or B.
constexpr Operand scales_of(Operand which) {
  return which == Operand::a ? Operand::scale_a : Operand::scale_b;
}
/// The kind of A, B or D's scales; `which` names the matrix or its scales. Of A's zero points how
/// they lie.
Scale scale_of(const Gemm& gemm, Operand which);
/// Bytes of one scale of operands that are not weights.
constexpr int scale_size(Scale s) { return s == Scale::none ? 0 : s == Scale::mx_32 ? 1 : 4; }
/// Whether B holds weights (Gemm::zero).
bool has_weights(const Gemm& gemm);
/// The block of k of which k must be a multiple, or 0: mx_32 and groups of weights are whole.
int whole_blocks(const Gemm& gemm);

}  // namespace kiln
