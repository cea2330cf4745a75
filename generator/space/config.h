// One point of a family's space: plain structs with a canonical text form, e.g.
// "host_packed isa=avx512 mr=6 nv=4 kc=384 …". Adding a family adds a struct and a variant entry.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "generator/families/cpu/amx/config.h"
#include "generator/families/cpu/amx_weights/config.h"
#include "generator/families/cpu/dot/config.h"
#include "generator/families/cpu/library/config.h"
#include "generator/families/cpu/packed/config.h"
#include "generator/families/cpu/small/config.h"
#include "generator/families/cpu/weights/config.h"
#include "generator/families/cuda/gemv/config.h"
#include "generator/families/cuda/gemv_n/config.h"
#include "generator/families/cuda/gemv_weights/config.h"
#include "generator/families/cuda/library/config.h"
#include "generator/families/cuda/mma/config.h"
#include "generator/families/cuda/simt/config.h"
#include "generator/families/cuda/weights/config.h"
#include "generator/families/cuda/wgmma/config.h"
#include "generator/families/cuda/wgmma_weights/config.h"
#include "generator/families/hip/mfma/config.h"
#include "generator/families/hip/mx/config.h"
#include "generator/families/hip/simt/config.h"
#include "kiln/error.hpp"

namespace kiln {

using Config =
    std::variant<HostPacked, HostDot, HostSmall, HostAmx, CudaWgmma, CudaMma, CudaSimt, CudaGemv,
                 CudaLibrary, HipMfma, HipMx, HipSimt, BlasLibrary, HostWeights, CudaWeights,
                 HostAmxWeights, CudaWgmmaWeights, CudaGemvWeights, CudaGemvN>;

/// "family field=value …", fields in declaration order; `parse_config(text(c)) == c`.
std::string text(const Config& config);
/// Errors: bad_input, naming the family, field or value that is wrong.
Result<Config> parse_config(std::string_view line);
/// Whether bias, activation and residual are arguments of the config's code: it serves problems of
/// every epilogue.
bool takes_epilogue(const Config& config);
std::string_view family_name(const Config& config);
/// Whether it stands for a library's own kernel, of which kiln knows times and no code.
inline bool is_library(const Config& config) {
  return std::holds_alternative<CudaLibrary>(config) || std::holds_alternative<BlasLibrary>(config);
}
/// What of it is in its code: its family and the values of the fields that are not arguments of the
/// kernel. Configs that agree in it share binaries.
std::vector<int> code_fields(const Config& config);

}  // namespace kiln
