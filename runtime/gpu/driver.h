// The CUDA driver's functions as a table, opened at run time: kiln builds without CUDA installed
// and runs without it. Other vendors fill the same table (runtime/hip/driver.h). Only what kiln
// calls is declared, by hand, from the driver's documented binary interface. Knows no kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kiln/error.hpp"

namespace kiln::gpu {

using Code = int;  // CUresult; 0 is success
using Device = int;
using DevicePointer = std::uint64_t;
using Context = struct CUctx_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Graph = struct CUgraph_st*;
using GraphExec = struct CUgraphExec_st*;
using UserObject = struct CUuserObject_st*;

inline constexpr Code kSuccess = 0;

/// CUdevice_attribute.
enum class Attribute : int {
  max_threads_block = 1,
  warp_size = 10,
  clock_khz = 13,
  multiprocessors = 16,
  memory_clock_khz = 36,
  memory_bus_bits = 37,
  l2_bytes = 38,
  max_threads_unit = 39,
  capability_major = 75,
  capability_minor = 76,
  shared_unit_bytes = 81,
  registers_unit = 82,
  shared_block_optin = 97,
};

/// CUfunction_attribute.
enum class FunctionAttribute : int { max_dynamic_shared = 8, non_portable_cluster = 14 };

/// CUlaunchAttribute: an id, then a 64-byte union of which kiln fills these two members.
struct LaunchAttribute {
  enum Id : int { cluster_dimension = 4, programmatic_stream_serialization = 6 };
  Id id;
  int padding;
  union {
    unsigned cluster[3];
    int allowed;
    char bytes[64];
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned dynamic_shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

enum class CaptureMode : int { global, thread_local_only, relaxed };
inline constexpr unsigned kNonBlockingStream = 1;

/// Members are named as the driver's functions; those with a newer binary interface are opened
/// under its name (cuMemAlloc is cuMemAlloc_v2).
struct Driver {
  Code (*cuInit)(unsigned flags);
  Code (*cuDriverGetVersion)(int*);
  Code (*cuGetErrorName)(Code, const char**);
  Code (*cuGetErrorString)(Code, const char**);
  Code (*cuDeviceGetCount)(int*);
  Code (*cuDeviceGet)(Device*, int ordinal);
  Code (*cuDeviceGetName)(char*, int length, Device);
  Code (*cuDeviceGetAttribute)(int*, Attribute, Device);
  Code (*cuDeviceTotalMem)(std::size_t*, Device);
  Code (*cuDeviceGetPCIBusId)(char*, int length, Device);
  Code (*cuDevicePrimaryCtxRetain)(Context*, Device);
  Code (*cuDevicePrimaryCtxRelease)(Device);
  Code (*cuCtxGetCurrent)(Context*);
  Code (*cuCtxPushCurrent)(Context);
  Code (*cuCtxPopCurrent)(Context*);
  Code (*cuCtxSynchronize)();
  Code (*cuModuleLoadData)(Module*, const void* image);
  Code (*cuModuleUnload)(Module);
  Code (*cuModuleGetFunction)(Function*, Module, const char* name);
  Code (*cuFuncSetAttribute)(Function, FunctionAttribute, int value);
  Code (*cuLaunchKernelEx)(const LaunchConfig*, Function, void** parameters, void** extra);
  Code (*cuMemAlloc)(DevicePointer*, std::size_t);
  Code (*cuMemFree)(DevicePointer);
  Code (*cuMemGetInfo)(std::size_t* free, std::size_t* total);
  Code (*cuMemcpyHtoDAsync)(DevicePointer, const void*, std::size_t, Stream);
  Code (*cuMemcpyDtoH)(void*, DevicePointer, std::size_t);
  Code (*cuMemsetD8Async)(DevicePointer, unsigned char, std::size_t, Stream);
  Code (*cuMemsetD32Async)(DevicePointer, unsigned, std::size_t words, Stream);
  Code (*cuStreamCreate)(Stream*, unsigned flags);
  Code (*cuStreamDestroy)(Stream);
  Code (*cuStreamSynchronize)(Stream);
  Code (*cuStreamIsCapturing)(Stream, int* status);
  /// Null where the runtime has none.
  Code (*cuThreadExchangeStreamCaptureMode)(CaptureMode*);
  /// These three are null where the runtime lacks one of them.
  Code (*cuStreamGetCaptureInfo)(Stream, int* status, std::uint64_t* capture, Graph*,
                                 const void** dependencies, std::size_t* count);
  Code (*cuUserObjectCreate)(UserObject*, void* pointer, void (*destroy)(void*),
                             unsigned references, unsigned flags);
  Code (*cuGraphRetainUserObject)(Graph, UserObject, unsigned references, unsigned flags);
  Code (*cuStreamBeginCapture)(Stream, CaptureMode);
  Code (*cuStreamEndCapture)(Stream, Graph*);
  Code (*cuGraphInstantiateWithFlags)(GraphExec*, Graph, unsigned long long flags);
  Code (*cuGraphLaunch)(GraphExec, Stream);
  Code (*cuGraphExecDestroy)(GraphExec);
  Code (*cuGraphDestroy)(Graph);
  Code (*cuEventCreate)(Event*, unsigned flags);
  Code (*cuEventRecord)(Event, Stream);
  Code (*cuEventSynchronize)(Event);
  Code (*cuEventElapsedTime)(float* milliseconds, Event start, Event end);
  Code (*cuEventDestroy)(Event);
  /// Null before CUDA 12.0, which is before the devices that have tensor maps.
  Code (*cuTensorMapEncodeTiled)(void* map, int element, std::uint32_t rank, void* address,
                                 const std::uint64_t* dims, const std::uint64_t* strides,
                                 const std::uint32_t* box, const std::uint32_t* element_strides,
                                 int interleave, int swizzle, int promotion, int fill);
};

/// The driver's own words: "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access …".
std::string describe(const Driver& driver, Code code);

/// Nothing on success. Errors: device, "<call>: <the driver's words>".
Status check(const Driver& driver, Code code, const char* call);

}  // namespace kiln::gpu
