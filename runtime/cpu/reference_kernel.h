// The kernel of last resort: plain loops over the canonical problem, compiled into kiln, so that a
// call works where no compiler and no stored code is. Covers every valid problem; promises no
// speed.
#pragma once

#include <cstdint>

#include "generator/problem/canonical.h"
#include "templates/cpu/common/abi.h"

namespace kiln {

/// One thread's share of one call, as a KilnGemmFn does it: rows of D are dealt out in blocks.
/// Needs no workspace and no barrier. `problem` is what `args` were made for.
void run_reference(const Canonical& problem, const KilnArgs& args, int thread, int threads);

/// B's canonical rows without their padding, batch after batch: what a packed B is here.
std::int64_t reference_packed_bytes(const Canonical& problem);
void reference_pack(const Canonical& problem, const KilnArgs& args, void* packed);

}  // namespace kiln
