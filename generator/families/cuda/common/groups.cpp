#include "generator/families/cuda/common/groups.h"

#include "generator/families/cuda/common/cuda.h"
#include "generator/problem/groups.h"

namespace kiln::cuda {

int room_for_groups(const Gemm& gemm) {
  if (!grouped(gemm)) return 0;
  for (const int room : {64, 256, 1024})
    if (gemm.batch <= room) return room;
  return kMostGroups;
}

void add_groups(Parameters& to, const Gemm& gemm, std::int64_t rows, std::int64_t depth,
                std::int64_t columns) {
  if (!grouped(gemm)) return;
  const bool list = gemm.grouping() == Grouping::list;
  if (list || gemm.grouping() == Grouping::k)
    to.constants.push_back(number("kGroupDepth", depth, "k of one stage"));
  if (list) to.constants.push_back(number("kListColumns", columns, "columns of D in a tile"));
  if (gemm.grouping() != Grouping::k)
    to.constants.push_back(number("kGroupRows", rows, "rows of A in a tile, of a cluster if any"));
  to.constants.push_back(
      number("kMostGroups", room_for_groups(gemm), "room in the tables of groups"));
}

}  // namespace kiln::cuda
