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

void add_groups(Parameters& to, const Gemm& gemm, std::int64_t tile, std::int64_t depth) {
  if (!grouped(gemm)) return;
  if (gemm.grouping == Grouping::k)
    to.constants.push_back(number("kGroupDepth", depth, "k of one stage"));
  else
    to.constants.push_back(number("kGroupRows", tile, "rows of A in a tile, of a cluster if any"));
  to.constants.push_back(
      number("kMostGroups", room_for_groups(gemm), "room in the tables of groups"));
}

}  // namespace kiln::cuda
