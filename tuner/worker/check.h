// Checking without timing: kernels of one problem, run and verified in a worker process. Knows no
// search, no lock and no clock; `kiln verify` is built on it.
#pragma once

#include <filesystem>
#include <optional>

#include "generator/problem/device_caps.h"
#include "runtime/backend.h"
#include "tuner/verify/verify.h"
#include "tuner/worker/own_check.h"
#include "tuner/worker/process.h"

namespace kiln {

/// Where the code that is checked runs: on the CPU or a GPU as the device says, or on the emulator,
/// which takes the images of emulated kernels (generator/render/emulated.h).
struct CheckedOn {
  int device_index = 0;  // which of the GPUs
  bool emulated = false;
};

/// Seconds that a GPU may take for the references of one check, which it computes in fp64.
double reference_seconds(const Gemm& gemm, const DeviceCaps& device);

/// Move-only; not thread-safe. Operands and references are made by the first check and kept.
class Checker {
 public:
  /// Errors: device (no worker to be found or started).
  static Result<Checker> start(const Gemm& gemm, const DeviceCaps& device,
                               const VerifyOptions& options, const CheckedOn& where = {});

  /// Verifies one kernel of the problem, then its code on a ragged neighbour where it covers one;
  /// for code that runs on this CPU the worker's word is not enough, and OwnCheck comes last. A
  /// crash or a hang is this kernel's Failure; the next check starts a new worker.
  Verdict check(const Config& config, const Binary& binary);

  /// Verifies the kernel of any problem on this device on every problem of its code's envelope
  /// (tuner/verify/envelope.h); that of a class of CPUs on several numbers of threads, whatever
  /// this CPU has. A Failure names the problem. `resources` where the envelope is empty: nothing is
  /// proved then.
  Verdict check_envelope(const Gemm& gemm, const Config& config, const Binary& binary);

 private:
  Checker(const Gemm& gemm, const DeviceCaps& device, const VerifyOptions& options,
          const CheckedOn& where)
      : gemm_(gemm), device_(device), options_(options), where_(where), own_check_(gemm, device) {}
  bool on_cpu() const { return kiln::on_host(device_) && !where_.emulated; }
  /// What the worker says; of a ragged neighbour too.
  Verdict asked(const Gemm& gemm, const DeviceCaps& device, const Config& config,
                const Binary& binary, bool ragged);
  bool on_gpu() const { return !kiln::on_host(device_) && !where_.emulated; }
  double seconds_allowed(const Gemm& gemm) const;

  Gemm gemm_;
  DeviceCaps device_;
  VerifyOptions options_;
  CheckedOn where_;
  OwnCheck own_check_;
  std::filesystem::path executable_;
  std::optional<WorkerProcess> worker_;
};

}  // namespace kiln
