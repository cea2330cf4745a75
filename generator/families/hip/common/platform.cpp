// What all kernels for AMD's GPUs share.
#include "generator/space/platform.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <regex>
#include <utility>

#include "generator/families/hip/common/hip.h"
#include "generator/families/hip/common/instructions.h"

namespace kiln::hip {
namespace {

/// gfx942's own fp8 formats.
bool is_fnuz(DType t) { return t == fp8_e4m3fnuz || t == fp8_e5m2fnuz; }

/// The same eight bits shared out likewise, in the other spelling; other types as they are.
DType as_hip_type(DType t) {
  constexpr std::pair<DType, DType> kPairs[] = {{fp8_e4m3, fp8_e4m3fnuz}, {fp8_e5m2, fp8_e5m2fnuz}};
  for (const auto& [ocp, fnuz] : kPairs) {
    if (t == ocp) return fnuz;
    if (t == fnuz) return ocp;
  }
  return t;
}

bool has_mfma(const DeviceCaps& device, DType a, DType b) {
  return std::any_of(std::begin(kMfma), std::end(kMfma), [&](const MfmaInstruction& i) {
    return mfma_for(device.arch, b, a, i.mn, i.k) == &i;
  });
}

std::string slow_types(const Gemm& gemm, const DeviceCaps& device) {
  const DType a = gemm.a.dtype, b = gemm.b.dtype, other_a = as_hip_type(a),
              other_b = as_hip_type(b);
  if (a == other_a && b == other_b) return {};
  if (has_mfma(device, a, b) || !has_mfma(device, other_a, other_b)) return {};
  return fmt::format(
      "{}: {} has no matrix instruction for {} and {}, so a SIMT kernel computes it, more than ten "
      "times slower than {} and {} (shapes that begin with {}), for which it has one; their "
      "encoding differs, so the data must be converted",
      text(gemm), device.arch, name(a), name(b), name(other_a), name(other_b),
      is_fnuz(other_a) ? "fp8fnuz" : "fp8");
}

/// Matrix instructions by the names that the compiler has for them.
std::string prepared(std::string text) {
  // The one attribute that is an error elsewhere and not merely without meaning.
  static const auto& occupancy = *new std::regex(R"(__attribute__\(\(amdgpu_\w+\([^)]*\)\)\))");
  text = std::regex_replace(text, occupancy, "");
  static const auto& matrix = *new std::regex(R"(__builtin_amdgcn_(s?mfma\w+))");
  return std::regex_replace(text, matrix, "KILN_EMU_MATRIX(\"$1\")");
}

constexpr std::array<std::string_view, 9> kCheckFiles{
    "cuda/common/abi.h",    "hip/common/types.h",     "hip/check/device.h",
    "cuda/check/check.cu",  "cuda/check/functions.h", "cuda/check/intervals.h",
    "cuda/check/reduced.h", "cuda/check/judge.cu",    "cuda/check/judge_expression.cu"};

}  // namespace

Platform platform() {
  return {.vendor = Vendor::amd,
          .extension = "hip",
          .command =
              "clang++ -x hip --cuda-device-only --no-gpu-bundle-output -nogpuinc -nogpulib "
              "{flags} {file} -o kernel.hsaco",
          .flags = flags,
          .slow_types = slow_types,
          .check_files = kCheckFiles,
          .emulation = Emulation{.keywords = "emu/hip_keywords.h",
                                 .wrappers = "emu/hip_wrappers.h",
                                 .wrapper_headers = "_gcn.h",
                                 .prepared = prepared}};
}

}  // namespace kiln::hip
