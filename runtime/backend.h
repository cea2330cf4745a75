// The kinds of devices, one row each: what differs between CPUs and the vendors of GPUs outside of
// their kernels. All GPUs stand behind one table of driver functions (runtime/gpu/driver.h), so
// that loading, launching, timing and checking are written once for them. Knows no kernels.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/compiler.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/gpu/device.h"

namespace kiln {

struct Backend {
  Vendor vendor;
  /// "cpu"; "cuda" of device "cuda:0", and of its lock.
  std::string_view name;
  /// How calls are timed, a part of every record's key; tuner/measure/measure.h and gpu_timing.h
  /// say what it stands for.
  std::string_view policy;
  /// The same of races under load (tuner/measure/load_race.h); empty: calls are timed in one way.
  std::string_view sustained = {};
  /// What makes code for these devices. Errors: compiler.
  Result<Compiler*> (*compiler)();
  /// GPUs here; both or none of these two. Errors: device (no driver).
  Result<int> (*count)() = nullptr;
  /// Null: kernels run on this machine's CPU, in the caller's memory and on as many threads as a
  /// call asks for; operands lie at any address; B can be packed; and the built-in reference kernel
  /// computes what no other does. Errors: device (no driver, no such device), naming the device.
  Result<gpu::SharedDevice> (*open)(int ordinal) = nullptr;
  /// cuBLASLt, or a library behind its class, for a problem and at most so many bytes of workspace:
  /// a peer in every race. Null: none is known. Errors: unsupported (not installed, or nothing for
  /// the problem).
  Result<cuda::CublasLt> (*library)(gpu::SharedDevice device, const Problem& problem,
                                    std::size_t workspace_bytes) = nullptr;

  bool host() const { return open == nullptr; }
};

/// The CPU first.
std::span<const Backend> backends();
/// The row of a vendor that has one. The reference holds until rows are added or removed.
const Backend& backend_of(Vendor vendor);
/// Whether its kernels run on this machine's CPU.
bool on_host(const DeviceCaps& device);

/// Adds a row; the destructor removes it, the last added first. Tests and programs bring a device
/// of their own so. Not while other threads ask for rows.
class AddedBackend {
 public:
  explicit AddedBackend(const Backend& row);
  ~AddedBackend();
  AddedBackend(const AddedBackend&) = delete;
  AddedBackend& operator=(const AddedBackend&) = delete;
};

/// Whether the name is of the kind "cuda:N" or "hip:N".
bool names_gpu(std::string_view device);

/// Errors: bad_input (no such kind of name), device (no driver, no such device).
Result<gpu::SharedDevice> open_gpu(std::string_view name);
Result<gpu::SharedDevice> open_gpu(Vendor vendor, int ordinal);

/// "cuda:0", "cuda:1", …, "hip:0", …: those that drivers here see.
std::vector<std::string> gpus_here();
/// "cuda:N or hip:N": what names_gpu() knows, for messages.
std::string gpu_names();

}  // namespace kiln
