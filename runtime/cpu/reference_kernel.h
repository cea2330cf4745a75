// The kernel of last resort: plain loops over the canonical problem, compiled into kiln, so that a
// call works where no compiler and no stored code is. Covers every valid problem; promises no
// speed.
#pragma once

#include "generator/families/cpu/common/packed_layout.h"
#include "generator/problem/extent.h"
#include "generator/problem/problem.h"
#include "templates/cpu/common/abi.h"

namespace kiln {

/// One thread's share of one call, as a KilnGemmFn does it: rows of D are dealt out in blocks.
/// Needs no workspace and no barrier. `problem` is what `args` were made for. `packed`: how the
/// packed B at `args.b` lies; null: B lies as the problem says. Of groups it also takes the steps
/// that follow an expression. Errors: device (no memory for what these reduce).
Status run_reference(const Problem& problem, const KilnArgs& args, const PackedLayout* packed,
                     int thread, int threads);
/// The same of a problem without groups, with which the above computes each group. `k`: where its k
/// lies in the k that blocks of scales divide.
void run_ungrouped_reference(const Problem& problem, const KilnArgs& args,
                             const PackedLayout* packed, int thread, int threads,
                             const PartOfK& k = {});

}  // namespace kiln
