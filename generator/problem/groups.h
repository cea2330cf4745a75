// A grouped problem as the products of its groups. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "generator/problem/canonical.h"
#include "generator/problem/extent.h"
#include "generator/problem/operand.h"

namespace kiln {

inline bool grouped(const Gemm& gemm) { return gemm.grouping != Grouping::none; }

/// Rows of A and D, counted from the first of its matrix.
struct GroupRows {
  std::int64_t first = 0, count = 0;
};
/// Those of one group, by the list of groups. What the list may not say is taken to be the nearest
/// that it may, as kernels do.
GroupRows rows_of_group(const Gemm& gemm, const void* groups, std::int64_t group);

/// The product of one group alone: a problem without groups, whose pitches are spelt out.
Gemm alone(const Gemm& gemm, std::int64_t rows);
/// The same in canonical form, whatever the rows are.
Canonical alone(const Canonical& problem, std::int64_t rows);

/// Tiles of `tile` rows along A's rows, of all batches: of groups that share m rows each may add
/// one that is not full.
std::int64_t tiles_of_rows(const Gemm& gemm, std::int64_t tile);
/// Rows of a masked group that count, on average.
double expected_rows_of(const Gemm& gemm);

/// Elements of an operand from its first to a group's first.
std::int64_t to_group(const Gemm& gemm, Operand which, std::int64_t group, std::int64_t first_row);

/// One product: the whole problem, or one group of it.
struct ProductPart {
  Gemm gemm;  // without groups
  std::int64_t group = 0;
  GroupRows rows;
};
/// The products of which D is made: of groups those that have rows. The list is read where there
/// are groups.
std::vector<ProductPart> parts_of(const Gemm& gemm, const void* groups);

/// Moves a call's pointers to one group's, `groups` aside. Null stays null.
template <typename Pointers>
void move_to_group(const Gemm& gemm, Pointers& pointers, std::int64_t group,
                   const GroupRows& rows) {
  for_each_operand([&](auto which) {
    auto& at = pointer<which>(pointers);
    if (which == Operand::groups || at == nullptr || !present(gemm, which)) return;
    // What is written is not const in any struct of pointers.
    auto* const bytes = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(at)));
    at = bytes + bytes_of(dtype_of(gemm, which), to_group(gemm, which, group, rows.first));
  });
}

}  // namespace kiln
