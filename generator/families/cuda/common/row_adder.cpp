#include "generator/families/cuda/common/row_adder.h"

#include <algorithm>

#include "generator/families/cuda/common/cuda.h"
#include "generator/problem/indices.h"

namespace kiln::cuda {

void add_row_parameters(Parameters& to, const Problem& problem) {
  const Gemm& g = problem.gemm;
  to.constants.push_back({"using", "TypeSum", std::string(c_type(g.d.dtype)),
                          "elements of D, whose rows are sums of rows of the product"});
  to.values["indexed"] = weighs_rows(g) ? "weighted" : "added";
}

void add_row_steps(GpuLaunch& to, const Problem& problem, const DeviceCaps& device) {
  constexpr std::int64_t kUnit = 256;
  constexpr std::int64_t kColumns = 1024;        // of a block of kiln_add_rows
  constexpr std::int64_t kWarps = 4;             // of one of kiln_list_rows
  constexpr std::int64_t kMostBlocks = 1 << 24;  // which then take several pieces each
  const Gemm& g = problem.gemm;
  const std::int64_t rows = rows_of_d(g);
  if (g.n == 0) return;
  // The lists of rows lie before the product, as row_lists() has them.
  to.product_at = round_up(to.workspace_bytes, kUnit) + round_up((rows + g.m) * 4, kUnit);
  to.workspace_bytes = to.product_at + g.m * line_bytes(in_order(g), Operand::d);
  GpuStep list;
  list.entry = "kiln_list_rows";
  list.block.x = kWarps * 32;
  list.grid.x =
      static_cast<unsigned>(std::min<std::int64_t>(device.compute_units, ceil_div(rows, kWarps)));
  to.steps.push_back(list);
  GpuStep add;
  add.entry = "kiln_add_rows";
  add.block.x = 256;
  add.grid.x = static_cast<unsigned>(std::min(kMostBlocks, rows * ceil_div(g.n, kColumns)));
  to.steps.push_back(add);
}

}  // namespace kiln::cuda
