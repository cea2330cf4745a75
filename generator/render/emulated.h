// A GPU kernel's source as one that the host's compiler takes and the emulator runs: the same text,
// but for the headers of wrappers around instructions, which are exchanged. Knows no emulator, only
// the names that templates/emu defines.
#pragma once

#include "generator/render/render.h"
#include "generator/space/gpu_launch.h"

namespace kiln {

/// `source` comes from render(), or is such a text with changes; `launch` names its entries. Entry
/// `kiln_gemm` becomes callable as `void kiln_emu_kiln_gemm(const KilnGpuArgs*, const
/// KilnTensorMap* const* maps)`. Errors: internal (no sections in the source).
Result<Source> emulated(const Source& source, const GpuLaunch& launch, Vendor vendor);

/// The same from a GPU family's config. Errors: as render().
Result<Source> render_emulated(const Problem& problem, const DeviceCaps& device,
                               const Config& config);

}  // namespace kiln
