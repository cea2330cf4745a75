// Which other problem one kernel's code must also get right. Knows the generator; runs nothing.
#pragma once

#include <optional>

#include "generator/space/space.h"

namespace kiln {

/// Leading dimensions `extra` alignments (or elements) beyond the least for the sizes, and batches
/// after one another. Lines are as aligned as those of `like`; a column of it that code sees as a
/// row (with_joined_lines) stays tight.
void loosen_pitches(Gemm& gemm, const Gemm& like, std::int64_t extra);

/// Multiply-adds that a core makes in about a tenth of a second.
inline constexpr double kCheapToProve = 0x1p26;

/// The first ragged neighbour of `gemm` (tuner/verify/verify.h) for which `config` is legal and
/// would be rendered with the very same constants, hints aside, so that the code made for `gemm` is
/// its code as well. Nothing when the sizes are in the code.
std::optional<Gemm> ragged_problem_for(const Gemm& gemm, const DeviceCaps& device,
                                       const Config& config);

/// A problem of at most `most_work` multiply-adds that is the same code; where the code promises
/// itself multiples of something, its sizes are odd multiples of that. Nothing when there is none.
std::optional<Gemm> small_problem_for(const Gemm& gemm, const DeviceCaps& device,
                                      const Config& config, double most_work);

/// On which problem a check that has to be short proves `config`'s code for `gemm`: itself when a
/// core multiplies it in about a tenth of a second, or where its sizes are in the code; else a
/// ragged neighbour. On a GPU, which works its references out in milliseconds, itself.
Gemm proof_problem(const Gemm& gemm, const DeviceCaps& device, const Config& config);

}  // namespace kiln
