// A grouped problem as the products of its groups. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "generator/problem/extent.h"
#include "generator/problem/operand.h"
#include "generator/problem/problem.h"

namespace kiln {

inline bool grouped(const Gemm& gemm) { return gemm.grouping() != Grouping::none; }

/// What a group has: rows of A and D, or with Grouping::k elements along k of A and B, counted from
/// the first of the matrix.
struct Segment {
  std::int64_t first = 0, count = 0;
};
/// That of one group, by the list of groups. An entry that is out of range counts as the nearest
/// one that is not. A group begins behind the last row (or element along k) of all groups before
/// it, the largest entry so far: where the list falls, the group is empty. So no row is of two
/// groups. Every kernel follows the same rule.
Segment segment_of(const Gemm& gemm, const void* groups, std::int64_t group);
/// The segments of groups that are asked for in order: each entry of the list is read once.
class Segments {
 public:
  Segments(const Gemm& gemm, const void* groups) : gemm_(gemm), groups_(groups) {}
  /// `group` is that of the last call or a later one.
  Segment of(std::int64_t group);

 private:
  std::int64_t listed(std::int64_t group) const;

  const Gemm& gemm_;
  const void* groups_;
  std::int64_t next_ = 0, first_ = 0;  // where group `next_` begins, by the entries before it
};
/// Which row of D that all groups share is the first of a group's: 0 where each has a D of its own.
inline std::int64_t first_row_of(const Gemm& gemm, const Segment& segment) {
  return gemm.grouping() == Grouping::rows ? segment.first : 0;
}
/// Where a group's product lies in what scales are stored for: those of blocks along the k of all
/// groups are everybody's, those of A of all rows.
PartOfK part_of_k(const Gemm& gemm, const Segment& segment);
/// Whether calls write the D of a group with this segment: an empty group of k has a D of its own.
bool writes_d(const Gemm& gemm, const Segment& segment);

/// The product of one group alone, `count` rows or elements along k, which lie in order: a problem
/// without groups, whose pitches are spelt out.
Gemm alone(const Gemm& gemm, std::int64_t count);
/// The same in canonical form, whatever the count is.
Problem alone(const Problem& problem, std::int64_t count);

/// Tiles of `tile` rows along A's rows, of all batches: of groups that share m rows each may add
/// one that is not full.
std::int64_t tiles_of_rows(const Gemm& gemm, std::int64_t tile);
/// Rows of a masked group that count, on average.
double expected_rows_of(const Gemm& gemm);
/// Elements along k of one product, on average: groups of k share it.
double k_of_product(const Gemm& gemm);
/// Pipeline stages of `depth` along k of one tile, on average: the last one of a group of k is half
/// full, and an empty group has one.
double stages_of_tile(const Gemm& gemm, std::int64_t depth);

/// Elements of an operand from its first to a group's first. `gemm` has its rows in order.
std::int64_t to_group(const Gemm& gemm, Operand which, std::int64_t group, const Segment& segment);

/// One product: the whole problem, or one group of it.
struct ProductPart {
  Gemm gemm;  // without groups
  std::int64_t group = 0;
  Segment segment;
};
/// The products of which D is made: of groups those that write any. The list is read where there
/// are groups.
std::vector<ProductPart> parts_of(const Gemm& gemm, const void* groups);

/// Lines of A (or of D) that no row of a part is, by their list of rows, in order.
std::vector<std::int64_t> unnamed_rows(const Gemm& gemm, Operand which, const void* index,
                                       const std::vector<ProductPart>& parts);
/// Elements along k that are of no group and lie within `reach` behind one's last, in order; none
/// but with groups of k.
std::vector<std::int64_t> k_behind_groups(const Gemm& gemm, const std::vector<ProductPart>& parts,
                                          std::int64_t reach);

/// Moves a call's pointers to one group's, lists aside. Null stays null. `gemm` has its rows in
/// order.
template <typename Pointers>
void move_to_group(const Gemm& gemm, Pointers& pointers, std::int64_t group,
                   const Segment& segment) {
  for_each_operand([&](auto which) {
    auto& at = pointer<which>(pointers);
    if (is_list(which) || at == nullptr || !present(gemm, which)) return;
    // What is written is not const in any struct of pointers.
    auto* const bytes = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(at)));
    at = bytes + offset_bytes(dtype_of(gemm, which), to_group(gemm, which, group, segment));
  });
}

}  // namespace kiln
