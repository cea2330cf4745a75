// Rows of A and D by index, and the same product of rows that lie in order: what families and
// references see that know no indices. Pure.
#pragma once

#include <cstdint>

#include "generator/problem/extent.h"
#include "generator/problem/problem.h"

namespace kiln {

inline bool gathers(const Gemm& gemm) { return gathered_rows(gemm) != nullptr; }
/// Whether rows of the product are written to rows of D.
inline bool scatters(const Gemm& gemm) {
  const Scattered* const rows = scattered_rows(gemm);
  return rows != nullptr && rows->how == Scatter::rows;
}
/// Whether rows of the product are added to rows of D.
inline bool adds_rows(const Gemm& gemm) {
  const Scattered* const rows = scattered_rows(gemm);
  return rows != nullptr && rows->how != Scatter::rows;
}
/// The same, each times a weight.
inline bool weighs_rows(const Gemm& gemm) {
  const Scattered* const rows = scattered_rows(gemm);
  return rows != nullptr && rows->how == Scatter::weighted;
}
inline bool indexed(const Gemm& gemm) { return gathers(gemm) || scatters(gemm) || adds_rows(gemm); }

/// As many rows of A and of D as the product has.
void index_every_row(Gemm& gemm);

/// Whether the lists of rows, and what they are of, make sense. Errors: bad_input, unsupported.
Status check_indices(const Gemm& gemm);

/// The product of rows in order: of a tight copy of A's rows and their scales, into a tight D whose
/// rows are copied to their places afterwards, or are of fp32 (fp64) and added. `gemm` itself where
/// it has no indices.
Gemm in_order(const Gemm& gemm);
/// The product whose rows are added, into a tight D of fp32 (fp64): A's rows stay where they are.
Problem product_to_add(const Problem& problem);

/// D's row of a row of the product that is added, negative: none.
std::int64_t row_to_add_to(const void* index, std::int64_t row, std::int64_t rows);
/// How many rows of the product are of a group, by the list of groups.
std::int64_t rows_in_groups(const Gemm& gemm, const void* groups);

/// What a list says of a row of the product, of `rows` that there are: what it may not say becomes
/// the nearest that it may.
std::int64_t row_at(const void* index, std::int64_t row, std::int64_t rows);

/// Whether a row of the product has a line of this operand by index_a, or by index_d.
bool is_gathered(const Gemm& gemm, Operand which);
bool is_scattered(const Gemm& gemm, Operand which);
/// Bytes of one such line, and from its first to the next one's.
std::int64_t line_bytes(const Gemm& gemm, Operand which);
std::int64_t pitch_bytes(const Gemm& gemm, Operand which);
/// Bytes from the operand's first line to this one.
std::int64_t line_offset(const Gemm& gemm, Operand which, std::int64_t line);

/// `count` rows of the product from the first on that `index` names.
struct IndexedRows {
  const void* index = nullptr;
  std::int64_t first = 0, count = 0;
};
/// Their lines of an operand, one behind the other, into `to`.
void gather_lines(const Gemm& gemm, Operand which, const void* operand, const IndexedRows& rows,
                  void* to);
/// The way back.
void scatter_lines(const Gemm& gemm, Operand which, const void* from, const IndexedRows& rows,
                   void* operand);

}  // namespace kiln
