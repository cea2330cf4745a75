// Rows of the product added to rows of D: the steps that follow any family's own, by
// templates/cuda/common/add_rows.cu.
#pragma once

#include "generator/space/typed_family.h"

namespace kiln::cuda {

void add_row_parameters(Parameters& to, const Problem& problem);
void add_row_steps(GpuLaunch& to, const Problem& problem, const DeviceCaps& device);

inline constexpr RowAdder kRowAdder{add_row_parameters, add_row_steps};

}  // namespace kiln::cuda
