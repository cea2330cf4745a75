#include "runtime/cuda/driver.h"

#include <fmt/format.h>

#include <string>

#include "runtime/gpu/shared_library.h"

namespace kiln::cuda {
namespace {

constexpr int kOldestVersion = 11080;  // cuLaunchKernelEx

Status open_driver(gpu::Driver& d) {
  const auto library = gpu::SharedLibrary::open({"libcuda.so.1", "libcuda.so"});
  if (!library)
    return fail(ErrorCode::device, "no NVIDIA driver on this machine: " + library.error().message);
  std::string missing;
  const auto load = [&](auto& function, const char* name) {
    if (!library->load(function, name) && missing.empty()) missing = name;
  };
  load(d.cuInit, "cuInit");
  load(d.cuDriverGetVersion, "cuDriverGetVersion");
  load(d.cuGetErrorName, "cuGetErrorName");
  load(d.cuGetErrorString, "cuGetErrorString");
  load(d.cuDeviceGetCount, "cuDeviceGetCount");
  load(d.cuDeviceGet, "cuDeviceGet");
  load(d.cuDeviceGetName, "cuDeviceGetName");
  load(d.cuDeviceGetAttribute, "cuDeviceGetAttribute");
  load(d.cuDeviceTotalMem, "cuDeviceTotalMem_v2");
  load(d.cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId");
  load(d.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  load(d.cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
  load(d.cuCtxGetCurrent, "cuCtxGetCurrent");
  load(d.cuCtxPushCurrent, "cuCtxPushCurrent_v2");
  load(d.cuCtxPopCurrent, "cuCtxPopCurrent_v2");
  load(d.cuCtxSynchronize, "cuCtxSynchronize");
  load(d.cuModuleLoadData, "cuModuleLoadData");
  load(d.cuModuleUnload, "cuModuleUnload");
  load(d.cuModuleGetFunction, "cuModuleGetFunction");
  load(d.cuFuncSetAttribute, "cuFuncSetAttribute");
  load(d.cuLaunchKernelEx, "cuLaunchKernelEx");
  load(d.cuMemAlloc, "cuMemAlloc_v2");
  load(d.cuMemFree, "cuMemFree_v2");
  load(d.cuMemGetInfo, "cuMemGetInfo_v2");
  load(d.cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
  load(d.cuMemcpyDtoH, "cuMemcpyDtoH_v2");
  load(d.cuMemsetD8Async, "cuMemsetD8Async");
  load(d.cuMemsetD32Async, "cuMemsetD32Async");
  load(d.cuStreamCreate, "cuStreamCreate");
  load(d.cuStreamDestroy, "cuStreamDestroy_v2");
  load(d.cuStreamSynchronize, "cuStreamSynchronize");
  load(d.cuStreamIsCapturing, "cuStreamIsCapturing");
  load(d.cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode");
  load(d.cuStreamBeginCapture, "cuStreamBeginCapture_v2");
  load(d.cuStreamEndCapture, "cuStreamEndCapture");
  load(d.cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags");
  load(d.cuGraphLaunch, "cuGraphLaunch");
  load(d.cuGraphExecDestroy, "cuGraphExecDestroy");
  load(d.cuGraphDestroy, "cuGraphDestroy");
  load(d.cuEventCreate, "cuEventCreate");
  load(d.cuEventRecord, "cuEventRecord");
  load(d.cuEventSynchronize, "cuEventSynchronize");
  load(d.cuEventElapsedTime, "cuEventElapsedTime");
  load(d.cuEventDestroy, "cuEventDestroy_v2");
  if (!library->load(d.cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled"))
    d.cuTensorMapEncodeTiled = nullptr;
  if (!library->load(d.cuStreamGetCaptureInfo, "cuStreamGetCaptureInfo_v2") ||
      !library->load(d.cuUserObjectCreate, "cuUserObjectCreate") ||
      !library->load(d.cuGraphRetainUserObject, "cuGraphRetainUserObject"))
    d.cuStreamGetCaptureInfo = nullptr, d.cuUserObjectCreate = nullptr,
    d.cuGraphRetainUserObject = nullptr;
  if (!missing.empty())
    return fail(
        ErrorCode::device,
        fmt::format("the NVIDIA driver has no {}: kiln needs one for CUDA 11.8 or newer", missing));
  return {};
}

Status start(const gpu::Driver& d) {
  if (Status ok = gpu::check(d, d.cuInit(0), "cuInit"); !ok) return ok;
  int version = 0;
  if (Status ok = gpu::check(d, d.cuDriverGetVersion(&version), "cuDriverGetVersion"); !ok)
    return ok;
  if (version < kOldestVersion)
    return fail(ErrorCode::device, fmt::format("the NVIDIA driver is for CUDA {}: kiln needs one "
                                               "for 11.8 or newer",
                                               version_text(version)));
  return {};
}

}  // namespace

Result<const gpu::Driver*> driver() {
  static gpu::Driver table{};
  static const auto& opened = *new Status([] {
    Status ok = open_driver(table);
    return ok ? start(table) : ok;
  }());
  if (!opened) return tl::unexpected(opened.error());
  return &table;
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace kiln::cuda
