#include "runtime/hip/hiprtc.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace kiln::hip {
namespace {

/// Newest first; up to ROCm 5 the compiler is part of the HIP runtime.
std::vector<std::string> library_names() {
  return gpu::rocm_names({"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so",
                          "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                          "libamdhip64.so"});
}

}  // namespace

Result<Hiprtc> Hiprtc::open() {
  const auto library = gpu::SharedLibrary::open(library_names());
  if (!library)
    return fail(ErrorCode::compiler, fmt::format("hipRTC: {}", library.error().message));
  Hiprtc h;
  h.library = library->name();
  const bool all =
      library->load(h.version, "hiprtcVersion") && library->load(h.create, "hiprtcCreateProgram") &&
      library->load(h.compile, "hiprtcCompileProgram") &&
      library->load(h.log_size, "hiprtcGetProgramLogSize") &&
      library->load(h.log, "hiprtcGetProgramLog") &&
      library->load(h.code_size, "hiprtcGetCodeSize") && library->load(h.code, "hiprtcGetCode") &&
      library->load(h.destroy, "hiprtcDestroyProgram") &&
      library->load(h.error_text, "hiprtcGetErrorString");
  if (!all)
    return fail(ErrorCode::compiler,
                fmt::format("hipRTC: {} has no hipRTC entry points", h.library));
  if (const int code = h.version(&h.major, &h.minor); code != 0)
    return fail(ErrorCode::compiler, fmt::format("hipRTC: {} does not report its version: {}",
                                                 h.library, h.error_text(code)));
  return h;
}

bool Hiprtc::may_abort(const std::string& arch) const {
  constexpr int kUntold = 9;
  constexpr std::array<std::string_view, 6> kKnownTo5{"gfx900", "gfx906",  "gfx908",
                                                      "gfx90a", "gfx1030", "gfx1031"};
  const bool old = major < 6 || major == kUntold;
  return old && std::find(kKnownTo5.begin(), kKnownTo5.end(), arch) == kKnownTo5.end();
}

}  // namespace kiln::hip
