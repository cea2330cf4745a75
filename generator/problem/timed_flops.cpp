#include "generator/problem/timed_flops.h"

#include "generator/problem/groups.h"
#include "generator/problem/product_list.h"

namespace kiln {

double timed_flops(const Gemm& gemm) {
  if (lists_products(gemm)) return usual_product(gemm).flops();
  if (gemm.grouping() == Grouping::masked && gemm.m > 0)
    return gemm.flops() * expected_rows_of(gemm) / double(gemm.m);
  return gemm.flops();
}

}  // namespace kiln
