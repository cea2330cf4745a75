// The sizes over which a kernel's code is proved once, so that it serves every size afterwards.
// Knows the generator; runs nothing.
#pragma once

#include <vector>

#include "generator/space/space.h"

namespace kiln {

/// Which problems `envelope()` lists for CPUs and for GPUs, as numbers that stored proofs name:
/// each is raised when its list changes.
inline constexpr int kHostEnvelope = 2, kGpuEnvelope = 1;

/// Whether the config's code has sizes as arguments, at least one of them, so that it has an
/// envelope. The config breaks no rule.
bool has_envelope(const Gemm& gemm, const DeviceCaps& device, const Config& config);

/// Problems with the code of `gemm` (generator/space/code_class.h) that stand for all others: each
/// size below, at and above one tile and several, k from 1 over each side of a stage to a hundred
/// stages, several waves of tiles, batches, pitches tight and loose; on a CPU either side of a
/// cache block and every part of a tile that has code of its own; all epilogues where they are
/// arguments; the smallest first. Of at most
/// `most_work` multiply-adds each. Empty: all sizes are constants of the code.
std::vector<Gemm> envelope(const Gemm& gemm, const DeviceCaps& device, const Config& config,
                           double most_work);

}  // namespace kiln
