// A HIP runtime that has no GPU: every call is recorded and checked, memory is the host's, kernels
// run on the emulator where the fake compiler made an image for it. Built as libamdhip64.so.7.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "fakes/hip_control.h"
#include "fakes/hip_state.h"

namespace {

using namespace kiln::test;

constexpr std::size_t kPropertiesBytes = 1472, kArchOffset = 1160;
constexpr std::size_t kSharedBytes = 64 << 10;
constexpr unsigned kThreads = 1024;

constexpr int kRelaxed = 2;

thread_local int current_device = 0;
thread_local int capture_mode = 0;

/// Held for the length of a call, which it records.
class Call {
 public:
  explicit Call(const char* name) : hip_(FakeHip::get()), lock_(hip_.mutex), name_(name) {
    hip_.calls += fmt::format("{}\n", name);
    if (!hip_.initialised) wrong("before hipInit", kNotInitialised);
  }
  FakeHip* operator->() { return &hip_; }
  int wrong(const std::string& why, int code) {
    return hip_.wrong(fmt::format("{}: {}", name_, why), code);
  }
  /// What a synchronising call says while a stream is being captured.
  bool capturing() const {
    return std::any_of(hip_.streams.begin(), hip_.streams.end(),
                       [](const auto& s) { return s.second->capturing != nullptr; });
  }
  /// What allocates or loads says then, unless the thread allowed it to itself.
  bool unsafe() const { return capturing() && capture_mode != kRelaxed; }

 private:
  FakeHip& hip_;
  std::lock_guard<std::recursive_mutex> lock_;
  const char* name_;
};

template <typename Map>
int erased(Call& call, Map& map, void* handle) {
  if (map.erase(handle) == 1) return kOk;
  return call.wrong("unknown handle", kBadHandle);
}

int set_memory(Call& call, const FakeMemset& set, void* stream) {
  if (!call->known_stream(stream)) return call.wrong("unknown stream", kBadHandle);
  if (!call->inside(set.to, set.count * set.unit))
    return call.wrong("of what is not device memory", kBadPointer);
  FakeStream* on = call->stream(stream);
  if (on != nullptr && on->capturing)
    on->capturing->nodes.emplace_back(set);
  else
    set.run();
  return kOk;
}

bool is_device(int device) { return device >= 0 && device < int(fake_devices().size()); }

double now_ns() {  // clock: events have times as on a card
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())  // clock: the same
      .count();
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

const char* fake_hip_calls() { return FakeHip::get().calls.c_str(); }
const char* fake_hip_complaints() { return FakeHip::get().complaints.c_str(); }
int fake_hip_live() { return FakeHip::get().live(); }
void fake_hip_clear() {
  FakeHip& hip = FakeHip::get();
  hip.calls.clear();
  hip.complaints.clear();
}
void fake_hip_fail_mallocs(int count) { FakeHip::get().failing_mallocs = count; }

int hipInit(unsigned flags) {
  FakeHip::get().initialised = true;
  Call call("hipInit");
  return flags == 0 ? kOk : call.wrong("flags must be 0", kInvalidValue);
}
int hipRuntimeGetVersion(int* version) {
  Call call("hipRuntimeGetVersion");
  *version = 60342134;
  return kOk;
}
const char* hipGetErrorName(int code) {
  return code == kOutOfMemory ? "hipErrorOutOfMemory" : "hipErrorSomething";
}
const char* hipGetErrorString(int code) {
  return code == kOutOfMemory ? "out of memory" : "something is wrong";
}

int hipGetDeviceCount(int* count) {
  Call call("hipGetDeviceCount");
  *count = static_cast<int>(fake_devices().size());
  return kOk;
}
int hipDeviceGet(int* device, int ordinal) {
  Call call("hipDeviceGet");
  if (!is_device(ordinal)) return call.wrong("no such device", kNoDevice);
  *device = ordinal;
  return kOk;
}
int hipDeviceGetName(char* name, int length, int device) {
  Call call("hipDeviceGetName");
  if (!is_device(device) || length < 1) return call.wrong("no such device", kNoDevice);
  std::strncpy(name, fake_devices()[std::size_t(device)].name, std::size_t(length) - 1);
  return kOk;
}
int hipDeviceTotalMem(std::size_t* bytes, int device) {
  Call call("hipDeviceTotalMem");
  if (!is_device(device)) return call.wrong("no such device", kNoDevice);
  *bytes = fake_devices()[std::size_t(device)].memory_bytes - (64 << 20);
  return kOk;
}
int hipDeviceGetPCIBusId(char* bus, int length, int device) {
  Call call("hipDeviceGetPCIBusId");
  if (!is_device(device) || length < 13) return call.wrong("no such device", kNoDevice);
  const int number = fake_devices()[std::size_t(device)].bus;
  std::strncpy(bus, fmt::format("0000:{:02x}:00.0", number).c_str(), std::size_t(length));
  return kOk;
}
int hipDeviceGetAttribute(int* value, int attribute, int device) {
  Call call("hipDeviceGetAttribute");
  if (!is_device(device)) return call.wrong("no such device", kNoDevice);
  const FakeDevice& d = fake_devices()[std::size_t(device)];
  const std::map<int, int> known{{5, 2100000},       {56, int(kThreads)},     {57, 2048},
                                 {63, d.units},      {74, int(kSharedBytes)}, {87, 64},
                                 {10018, d.chiplets}};
  const auto found = known.find(attribute);
  // What a runtime is too old to know is not a fault of the caller's.
  if (attribute == 10018 && d.chiplets == 0) return kInvalidValue;
  if (found == known.end()) return call.wrong("unknown attribute", kInvalidValue);
  *value = found->second;
  return kOk;
}
int hipGetDevicePropertiesR0600(void* to, int device) {
  Call call("hipGetDevicePropertiesR0600");
  if (!is_device(device)) return call.wrong("no such device", kNoDevice);
  std::memset(to, 0xa5, kPropertiesBytes);
  std::strcpy(static_cast<char*>(to) + kArchOffset, fake_devices()[std::size_t(device)].arch);
  return kOk;
}
int hipGetDevice(int* device) {
  Call call("hipGetDevice");
  *device = current_device;
  return kOk;
}
int hipSetDevice(int device) {
  Call call("hipSetDevice");
  if (!is_device(device)) return call.wrong("no such device", kNoDevice);
  current_device = device;
  return kOk;
}
int hipDeviceSynchronize() {
  Call call("hipDeviceSynchronize");
  return call.capturing() ? call.wrong("during a capture", kCaptureForbids) : kOk;
}

int hipModuleLoadData(void** module, const void* image) {
  Call call("hipModuleLoadData");
  if (call.unsafe()) return call.wrong("during a capture", kCaptureForbids);
  return call->load(image, module);
}
int hipModuleUnload(void* module) {
  Call call("hipModuleUnload");
  std::erase_if(call->functions, [&](const auto& f) { return f.second->module == module; });
  return erased(call, call->modules, module);
}
int hipModuleGetFunction(void** function, void* module, const char* name) {
  Call call("hipModuleGetFunction");
  return call->function(module, name, function);
}
int hipModuleLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared_bytes, void* stream,
                          void** parameters, void** extra) {
  Call call("hipModuleLaunchKernel");
  const auto found = call->functions.find(function);
  if (found == call->functions.end()) return call.wrong("unknown function", kBadHandle);
  if (!call->known_stream(stream)) return call.wrong("unknown stream", kBadHandle);
  const kiln::Dim3 grid{gx, gy, gz}, block{bx, by, bz};
  FakeFunction& f = *found->second;
  if (grid.count() == 0 || block.count() == 0) return call.wrong("nothing to run", kInvalidValue);
  for (const auto& [blocks, threads] : {std::pair{gx, bx}, {gy, by}, {gz, bz}})
    if (std::uint64_t{blocks} * threads >= std::uint64_t{1} << 32)
      return call.wrong("2^32 work-items along one side", kInvalidValue);
  if (block.count() > f.resources.max_threads)
    return call.wrong(
        fmt::format("{} threads: the kernel is for {}", block.count(), f.resources.max_threads),
        kInvalidValue);
  if (shared_bytes + std::size_t(f.resources.shared_bytes) > kSharedBytes)
    return call.wrong("too much shared memory", kInvalidValue);
  if (parameters == nullptr || extra != nullptr)
    return call.wrong("parameters are given one by one", kInvalidValue);
  FakeStream* on = call->stream(stream);
  if (call.capturing() && (on == nullptr || !on->capturing))
    return call.wrong("another stream is being captured", kCaptureForbids);
  FakeLaunch launch{&f, grid, block};
  if (on == nullptr || !on->capturing) return call->launch(launch, parameters);
  std::memcpy(&launch.args, parameters[0], sizeof launch.args);
  if (f.resources.name == "kiln_take_list")
    std::memcpy(&launch.chunk.emplace(), parameters[1], sizeof(kiln::gpu::ListChunk));
  on->capturing->nodes.emplace_back(launch);
  return kOk;
}

int hipMalloc(void** pointer, std::size_t bytes) {
  Call call("hipMalloc");
  if (bytes == 0) return call.wrong("of nothing", kInvalidValue);
  if (call.unsafe()) return call.wrong("during a capture", kCaptureForbids);
  if (call->failing_mallocs > 0) {
    --call->failing_mallocs;
    return kOutOfMemory;
  }
  *pointer = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (*pointer == nullptr) return kOutOfMemory;
  std::memset(*pointer, 0xff, bytes);
  call->memory[static_cast<std::byte*>(*pointer)] = bytes;
  return kOk;
}
int hipFree(void* pointer) {
  Call call("hipFree");
  if (call->memory.erase(static_cast<std::byte*>(pointer)) == 0)
    return call.wrong("of what was never allocated", kBadPointer);
  std::free(pointer);
  return kOk;
}
int hipMemGetInfo(std::size_t* free, std::size_t* total) {
  Call call("hipMemGetInfo");
  *free = *total = fake_devices()[std::size_t(current_device)].memory_bytes;
  return kOk;
}
int hipMemcpyHtoDAsync(void* to, const void* from, std::size_t bytes, void*) {
  Call call("hipMemcpyHtoDAsync");
  if (call.capturing()) return call.wrong("during a capture", kCaptureForbids);
  if (!call->inside(to, bytes)) return call.wrong("to what is not device memory", kBadPointer);
  std::memcpy(to, from, bytes);
  return kOk;
}
int hipMemcpyDtoH(void* to, const void* from, std::size_t bytes) {
  Call call("hipMemcpyDtoH");
  if (call.capturing()) return call.wrong("during a capture", kCaptureForbids);
  if (!call->inside(from, bytes)) return call.wrong("from what is not device memory", kBadPointer);
  std::memcpy(to, from, bytes);
  return kOk;
}
int hipMemsetD8Async(void* to, unsigned char value, std::size_t bytes, void* stream) {
  Call call("hipMemsetD8Async");
  return set_memory(call, {to, value, bytes, 1}, stream);
}
int hipMemsetD32Async(void* to, int value, std::size_t words, void* stream) {
  Call call("hipMemsetD32Async");
  if (reinterpret_cast<std::uintptr_t>(to) % 4 != 0) return call.wrong("alignment", kBadPointer);
  return set_memory(call, {to, static_cast<unsigned>(value), words, 4}, stream);
}

int hipStreamCreateWithFlags(void** stream, unsigned flags) {
  Call call("hipStreamCreateWithFlags");
  if (flags > 1) return call.wrong("flags must be 0 or 1", kInvalidValue);
  auto made = std::make_unique<FakeStream>();
  made->device = current_device;
  *stream = made.get();
  call->streams[*stream] = std::move(made);
  return kOk;
}
int hipStreamDestroy(void* stream) {
  Call call("hipStreamDestroy");
  return erased(call, call->streams, stream);
}
int hipStreamSynchronize(void* stream) {
  Call call("hipStreamSynchronize");
  if (!call->known_stream(stream)) return call.wrong("unknown stream", kBadHandle);
  const FakeStream* on = call->stream(stream);
  const bool itself = on != nullptr && on->capturing;
  return itself || call.unsafe() ? call.wrong("during a capture", kCaptureForbids) : kOk;
}
int hipThreadExchangeStreamCaptureMode(int* mode) {
  Call call("hipThreadExchangeStreamCaptureMode");
  if (*mode < 0 || *mode > kRelaxed) return call.wrong("no such mode", kInvalidValue);
  std::swap(*mode, capture_mode);
  return kOk;
}
int hipStreamIsCapturing(void* stream, int* status) {
  Call call("hipStreamIsCapturing");
  if (!call->known_stream(stream)) return call.wrong("unknown stream", kBadHandle);
  const FakeStream* on = call->stream(stream);
  *status = on != nullptr && on->capturing ? 1 : 0;
  return kOk;
}
int hipStreamBeginCapture(void* stream, int mode) {
  Call call("hipStreamBeginCapture");
  FakeStream* on = call->stream(stream);
  if (on == nullptr || mode < 0 || mode > 2) return call.wrong("no stream to capture", kBadHandle);
  if (on->capturing) return call.wrong("twice", kCaptureForbids);
  on->capturing = std::make_unique<FakeGraph>();
  on->capturing->capture = ++call->captures;
  return kOk;
}
int hipStreamGetCaptureInfo_v2(void* stream, int* status, unsigned long long* id, void** graph,
                               const void**, std::size_t*) {
  Call call("hipStreamGetCaptureInfo_v2");
  if (!call->known_stream(stream)) return call.wrong("unknown stream", kBadHandle);
  FakeStream* on = call->stream(stream);
  *status = on != nullptr && on->capturing ? 1 : 0;
  if (*status == 1) *id = on->capturing->capture, *graph = on->capturing.get();
  return kOk;
}
int hipUserObjectCreate(void** object, void* pointer, void (*destroy)(void*), unsigned references,
                        unsigned flags) {
  Call call("hipUserObjectCreate");
  if (references != 1 || flags != 1) return call.wrong("flags must be 1", kInvalidValue);
  const std::shared_ptr<FakeUserObject> made(new FakeUserObject{pointer, destroy});
  *object = made.get();
  call->user_objects[*object] = made;
  return kOk;
}
int hipGraphRetainUserObject(void* graph, void* object, unsigned references, unsigned flags) {
  Call call("hipGraphRetainUserObject");
  const auto found = call->user_objects.find(object);
  if (found == call->user_objects.end() || references != 1 || flags != 1)
    return call.wrong("unknown object", kBadHandle);
  for (auto& [handle, stream] : call->streams)
    if (stream->capturing.get() == graph) {
      stream->capturing->held.push_back(std::move(found->second));
      call->user_objects.erase(found);
      return kOk;
    }
  return call.wrong("of a graph that is not being captured", kBadHandle);
}
int hipStreamEndCapture(void* stream, void** graph) {
  Call call("hipStreamEndCapture");
  FakeStream* on = call->stream(stream);
  if (on == nullptr || !on->capturing) return call.wrong("without a capture", kCaptureForbids);
  *graph = on->capturing.get();
  call->graphs[*graph] = std::move(on->capturing);
  return kOk;
}
int hipGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long flags) {
  Call call("hipGraphInstantiateWithFlags");
  const auto found = call->graphs.find(graph);
  if (found == call->graphs.end() || flags != 0) return call.wrong("unknown graph", kBadHandle);
  auto made = std::make_unique<FakeGraph>(*found->second);
  *exec = made.get();
  call->graph_execs[*exec] = std::move(made);
  return kOk;
}
int hipGraphLaunch(void* exec, void* stream) {
  Call call("hipGraphLaunch");
  const auto found = call->graph_execs.find(exec);
  if (found == call->graph_execs.end()) return call.wrong("unknown graph", kBadHandle);
  if (!call->known_stream(stream)) return call.wrong("unknown stream", kBadHandle);
  for (auto& node : found->second->nodes) {
    if (const auto* set = std::get_if<FakeMemset>(&node)) {
      set->run();
      continue;
    }
    auto& launch = std::get<FakeLaunch>(node);
    void* parameters[] = {&launch.args, launch.chunk ? &*launch.chunk : nullptr};
    if (const int code = call->launch(launch, parameters); code != kOk) return code;
  }
  return kOk;
}
int hipGraphExecDestroy(void* exec) {
  Call call("hipGraphExecDestroy");
  return erased(call, call->graph_execs, exec);
}
int hipGraphDestroy(void* graph) {
  Call call("hipGraphDestroy");
  return erased(call, call->graphs, graph);
}

int hipEventCreateWithFlags(void** event, unsigned flags) {
  Call call("hipEventCreateWithFlags");
  if (flags != 0) return call.wrong("flags would keep it from timing", kInvalidValue);
  auto made = std::make_unique<FakeEvent>();
  *event = made.get();
  call->events[*event] = std::move(made);
  return kOk;
}
int hipEventRecord(void* event, void* stream) {
  Call call("hipEventRecord");
  const auto found = call->events.find(event);
  if (found == call->events.end()) return call.wrong("unknown event", kBadHandle);
  if (!call->known_stream(stream)) return call.wrong("unknown stream", kBadHandle);
  *found->second = {.recorded = true,
                    .ns = call->launch_ns > 0 ? call->spent_ns
                                              : now_ns()};  // clock: events have times as on a card
  return kOk;
}
int hipEventSynchronize(void* event) {
  Call call("hipEventSynchronize");
  const auto found = call->events.find(event);
  if (found == call->events.end()) return call.wrong("unknown event", kBadHandle);
  if (!found->second->recorded) return call.wrong("of what was never recorded", kBadHandle);
  // What came before it on its stream is over, too.
  for (const auto& [handle, other] : call->events)
    if (other->recorded && other->ns <= found->second->ns) other->waited_for = true;
  return kOk;
}
int hipEventElapsedTime(float* milliseconds, void* start, void* end) {
  Call call("hipEventElapsedTime");
  const auto first = call->events.find(start), last = call->events.find(end);
  if (first == call->events.end() || last == call->events.end())
    return call.wrong("unknown event", kBadHandle);
  if (!first->second->waited_for || !last->second->waited_for)
    return call.wrong("of events that nobody waited for", kNotReady);
  *milliseconds = static_cast<float>((last->second->ns - first->second->ns) * 1e-6);
  return kOk;
}
int hipEventDestroy(void* event) {
  Call call("hipEventDestroy");
  return erased(call, call->events, event);
}
}
#pragma GCC visibility pop
