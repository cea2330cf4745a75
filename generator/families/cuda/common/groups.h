// What kernels of grouped problems need beside others (templates/cuda/common/groups.h). Knows no
// family.
#pragma once

#include "generator/space/parameters.h"

namespace kiln::cuda {

/// Groups whose tables fit shared memory.
inline constexpr int kMostGroups = 4096;

/// Groups that a kernel's tables have room for; 0 without groups. Some sizes stand for all, so that
/// few kernels serve any number of groups.
int room_for_groups(const Gemm& gemm);
/// Bytes of those tables, of which one has a word more.
constexpr std::int64_t bytes_of_tables(int room, int tables = 2) {
  return room == 0 ? 0 : (tables * std::int64_t{room} + 1) * 4;
}

/// Constants of the template: `rows` of A are a tile, `depth` elements along k a stage, which
/// groups of k and lists ask for, and `columns` of D a tile, which lists do.
void add_groups(Parameters& to, const Gemm& gemm, std::int64_t rows, std::int64_t depth = 0,
                std::int64_t columns = 0);

}  // namespace kiln::cuda
