#include "runtime/hip/driver.h"

#include <fmt/format.h>

#include <vector>

#include "runtime/gpu/shared_library.h"

namespace kiln::hip {
namespace {

using gpu::Code;

constexpr Code kInvalidContext = 201;
constexpr Code kNotSupported = 801;
/// hipDeviceProp_t of ROCm 5, and of 6 and later under a name of its own.
constexpr std::size_t kArchOffset5 = 396, kArchOffset6 = 1160;

/// Calls whose form differs from CUDA's: the functions below give them that form.
struct Differing {
  const char* (*error_name)(Code);
  const char* (*error_string)(Code);
  Code (*get_device)(int*);
  Code (*set_device)(int);
  Code (*launch)(gpu::Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                 unsigned shared_bytes, gpu::Stream, void** parameters, void** extra);
};
Differing hip{};
Runtime& the_runtime = *new Runtime;

Code error_name(Code code, const char** name) {
  *name = hip.error_name(code);
  return gpu::kSuccess;
}

Code error_string(Code code, const char** text) {
  *text = hip.error_string(code);
  return gpu::kSuccess;
}

// Where CUDA has a current context, HIP has a current device: its number plus one is the handle.
gpu::Context context_of(int device) {
  return reinterpret_cast<gpu::Context>(static_cast<std::intptr_t>(device) + 1);
}
int device_of(gpu::Context context) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(context)) - 1;
}

Code retain(gpu::Context* context, gpu::Device device) {
  *context = context_of(device);
  return gpu::kSuccess;
}

Code release(gpu::Device) { return gpu::kSuccess; }

Code current(gpu::Context* context) {
  int device = 0;
  const Code code = hip.get_device(&device);
  *context = code == gpu::kSuccess ? context_of(device) : nullptr;
  return code;
}

/// Devices that were current when push() was called, innermost last.
thread_local std::vector<int> left_behind;

Code push(gpu::Context context) {
  int before = 0;
  if (const Code code = hip.get_device(&before); code != gpu::kSuccess) return code;
  if (const Code code = hip.set_device(device_of(context)); code != gpu::kSuccess) return code;
  left_behind.push_back(before);
  return gpu::kSuccess;
}

Code pop(gpu::Context* context) {
  if (left_behind.empty()) return kInvalidContext;
  if (const Code code = current(context); code != gpu::kSuccess) return code;
  const int before = left_behind.back();
  left_behind.pop_back();
  return hip.set_device(before);
}

/// Clusters and overlapping launches, which attributes ask for, are NVIDIA's alone.
Code launch(const gpu::LaunchConfig* c, gpu::Function function, void** parameters, void** extra) {
  if (c->attribute_count != 0) return kNotSupported;
  return hip.launch(function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1],
                    c->block[2], c->dynamic_shared_bytes, c->stream, parameters, extra);
}

Status open_runtime(gpu::Driver& d) {
  const auto library = gpu::SharedLibrary::open(gpu::rocm_names(
      {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"}));
  if (!library)
    return fail(ErrorCode::device, "no HIP runtime on this machine: " + library.error().message);
  std::string missing;
  const auto load = [&](auto& function, const char* name) {
    if (!library->load(function, name) && missing.empty()) missing = name;
  };
  load(d.cuInit, "hipInit");
  load(d.cuDriverGetVersion, "hipRuntimeGetVersion");
  load(d.cuDeviceGetCount, "hipGetDeviceCount");
  load(d.cuDeviceGet, "hipDeviceGet");
  load(d.cuDeviceGetName, "hipDeviceGetName");
  load(d.cuDeviceTotalMem, "hipDeviceTotalMem");
  load(d.cuDeviceGetPCIBusId, "hipDeviceGetPCIBusId");
  load(d.cuCtxSynchronize, "hipDeviceSynchronize");
  load(d.cuModuleLoadData, "hipModuleLoadData");
  load(d.cuModuleUnload, "hipModuleUnload");
  load(d.cuModuleGetFunction, "hipModuleGetFunction");
  load(d.cuMemAlloc, "hipMalloc");
  load(d.cuMemFree, "hipFree");
  load(d.cuMemGetInfo, "hipMemGetInfo");
  load(d.cuMemcpyHtoDAsync, "hipMemcpyHtoDAsync");
  load(d.cuMemcpyDtoH, "hipMemcpyDtoH");
  load(d.cuMemsetD8Async, "hipMemsetD8Async");
  load(d.cuMemsetD32Async, "hipMemsetD32Async");
  load(d.cuStreamCreate, "hipStreamCreateWithFlags");
  load(d.cuStreamDestroy, "hipStreamDestroy");
  load(d.cuStreamSynchronize, "hipStreamSynchronize");
  load(d.cuStreamIsCapturing, "hipStreamIsCapturing");
  load(d.cuStreamBeginCapture, "hipStreamBeginCapture");
  load(d.cuStreamEndCapture, "hipStreamEndCapture");
  load(d.cuGraphInstantiateWithFlags, "hipGraphInstantiateWithFlags");
  load(d.cuGraphLaunch, "hipGraphLaunch");
  load(d.cuGraphExecDestroy, "hipGraphExecDestroy");
  load(d.cuGraphDestroy, "hipGraphDestroy");
  load(d.cuEventCreate, "hipEventCreateWithFlags");
  load(d.cuEventRecord, "hipEventRecord");
  load(d.cuEventSynchronize, "hipEventSynchronize");
  load(d.cuEventElapsedTime, "hipEventElapsedTime");
  load(d.cuEventDestroy, "hipEventDestroy");
  if (!library->load(d.cuThreadExchangeStreamCaptureMode, "hipThreadExchangeStreamCaptureMode"))
    d.cuThreadExchangeStreamCaptureMode = nullptr;
  if (!library->load(d.cuStreamGetCaptureInfo, "hipStreamGetCaptureInfo_v2") ||
      !library->load(d.cuUserObjectCreate, "hipUserObjectCreate") ||
      !library->load(d.cuGraphRetainUserObject, "hipGraphRetainUserObject"))
    d.cuStreamGetCaptureInfo = nullptr, d.cuUserObjectCreate = nullptr,
    d.cuGraphRetainUserObject = nullptr;
  load(hip.error_name, "hipGetErrorName");
  load(hip.error_string, "hipGetErrorString");
  load(hip.get_device, "hipGetDevice");
  load(hip.set_device, "hipSetDevice");
  load(hip.launch, "hipModuleLaunchKernel");
  load(the_runtime.attribute, "hipDeviceGetAttribute");
  the_runtime.arch_offset = kArchOffset6;
  if (!library->load(the_runtime.properties, "hipGetDevicePropertiesR0600")) {
    the_runtime.arch_offset = kArchOffset5;
    load(the_runtime.properties, "hipGetDeviceProperties");
  }
  the_runtime.library = library->name();
  if (!missing.empty())
    return fail(ErrorCode::device, fmt::format("the HIP runtime {} has no {}: kiln needs ROCm 5 or "
                                               "newer",
                                               library->name(), missing));
  d.cuGetErrorName = error_name;
  d.cuGetErrorString = error_string;
  d.cuDevicePrimaryCtxRetain = retain;
  d.cuDevicePrimaryCtxRelease = release;
  d.cuCtxGetCurrent = current;
  d.cuCtxPushCurrent = push;
  d.cuCtxPopCurrent = pop;
  d.cuLaunchKernelEx = launch;
  return {};
}

}  // namespace

Result<const gpu::Driver*> driver() {
  static gpu::Driver table{};
  static const auto& opened = *new Status([] {
    if (Status ok = open_runtime(table); !ok) return ok;
    const Code code = table.cuInit(0);
    if (code == gpu::kSuccess) return Status{};
    return Status(
        fail(ErrorCode::device, fmt::format("{} finds no AMD GPU: hipInit: {}", the_runtime.library,
                                            hip.error_string(code))));
  }());
  if (!opened) return tl::unexpected(opened.error());
  return &table;
}

const Runtime& runtime() { return the_runtime; }

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 10000000, version % 10000000 / 100000);
}

}  // namespace kiln::hip
