// The state of the fake HIP runtime: what is alive, what was called, what was wrong. Knows no
// HIP function by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/emulator/kernel.h"
#include "runtime/gpu/kernel.h"
#include "runtime/hip/code_object.h"

namespace kiln::test {

enum HipCode : int {
  kOk = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialised = 3,
  kBadPointer = 17,
  kNoDevice = 101,
  kBadImage = 200,
  kWrongTarget = 209,
  kBadHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kCaptureForbids = 900,
};

struct FakeModule {
  int device = 0;
  hip::CodeObject object;
  std::vector<std::byte> emulated;  // empty: cannot run
};

struct FakeFunction {
  FakeModule* module = nullptr;
  hip::KernelResources resources;
  std::map<Dim3, std::shared_ptr<EmulatedKernel>> by_grid;
};

/// One launch, as the runtime was asked for it.
struct FakeLaunch {
  FakeFunction* function = nullptr;
  Dim3 grid, block;
  // Of a captured launch copies of its parameters.
  KilnGpuArgs args{};
  std::optional<gpu::ListChunk> chunk;
};

struct FakeMemset {
  void* to = nullptr;
  unsigned value = 0;
  std::size_t count = 0;
  std::size_t unit = 1;  // bytes of the value: 1 or 4

  void run() const {
    for (std::size_t i = 0; i < count; ++i)
      std::memcpy(static_cast<std::byte*>(to) + i * unit, &value, unit);
  }
};

/// Calls its function when the last graph that holds it is gone.
struct FakeUserObject {
  void* pointer;
  void (*destroy)(void*);
  ~FakeUserObject() { destroy(pointer); }
};

struct FakeGraph {
  std::vector<std::variant<FakeLaunch, FakeMemset>> nodes;
  std::vector<std::shared_ptr<FakeUserObject>> held;
  std::uint64_t capture = 0;
};

struct FakeStream {
  int device = 0;
  std::unique_ptr<FakeGraph> capturing;
};

struct FakeEvent {
  bool recorded = false, waited_for = false;
  double ns = 0;
};

struct FakeDevice {
  const char *name, *arch;
  int units, chiplets;  // chiplets 0: this runtime does not tell
  std::size_t memory_bytes;
  int bus = 0x0c;  // of its address
};

/// One for the process.
struct FakeHip {
  FakeHip();
  static FakeHip& get();

  std::recursive_mutex mutex;
  bool initialised = false;
  int failing_mallocs = 0;
  std::string calls, complaints;
  std::map<std::byte*, std::size_t> memory;
  std::map<void*, std::unique_ptr<FakeModule>> modules;
  std::map<void*, std::unique_ptr<FakeFunction>> functions;
  std::map<void*, std::unique_ptr<FakeStream>> streams;
  std::map<void*, std::unique_ptr<FakeEvent>> events;
  std::map<void*, std::unique_ptr<FakeGraph>> graphs, graph_execs;
  std::map<void*, std::shared_ptr<FakeUserObject>> user_objects;  // not yet held by a graph
  std::uint64_t captures = 0;
  /// What each launch takes on a clock of the fake's own, by $KILN_FAKE_HIP_LAUNCH_NS; 0: as long
  /// as the emulator does.
  double launch_ns = 0;
  double spent_ns = 0;  // on that clock

  int live() const;
  /// Notes a wrong call and hands on the code that it gets.
  int wrong(const std::string& sentence, int code);
  bool inside(const void* pointer, std::size_t bytes) const;
  /// The default stream is always there.
  bool known_stream(void* stream) const { return stream == nullptr || streams.count(stream) > 0; }
  FakeStream* stream(void* handle) const;
  int load(const void* image, void** module);
  int function(void* module, const char* name, void** function);
  int launch(const FakeLaunch& launch, void** parameters);
};

/// Three cards; or a node of those that $KILN_FAKE_HIP_CARDS names by their places among the three,
/// "0,0,0,1", each at an address of its own, of which a process sees what $ROCR_VISIBLE_DEVICES
/// says.
const std::vector<FakeDevice>& fake_devices();

}  // namespace kiln::test
