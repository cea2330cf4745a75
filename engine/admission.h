// Which code may run in the caller's process: what was verified for the very problem and thread
// count, or over the envelope of its code, once, in a worker where there is one.
#pragma once

#include <atomic>
#include <span>
#include <string>

#include "cache/record.h"
#include "cache/store.h"
#include "engine/code_cache.h"
#include "engine/stored_kernels.h"
#include "engine/warnings.h"
#include "runtime/backend.h"
#include "runtime/compiler.h"

namespace kiln {

class GpuResources;

/// Code for one config, with what is stored about it.
struct Built {
  KernelCode kernel;
  StoredBinary binary;
};

class Admission {
 public:
  /// What is taken from the engine, which has them as long as this. `gpu` and what it holds are
  /// null on the CPU; the store is opened later.
  struct Parts {
    const Backend& backend;
    const gpu::SharedDevice& gpu;
    const std::shared_ptr<GpuResources>& gpu_shared;
    const std::unique_ptr<Store>& store;
    const Validators& now;
    Warnings& warn;
  };
  explicit Admission(const Parts& parts) : engine_(parts) {}

  /// The compiler of this device's code. Errors: compiler.
  Result<Compiler*> compiler() const { return engine_.backend.compiler(); }
  /// Errors: device (not code for this device).
  Result<KernelCode> load(std::span<const std::byte> image) const;
  /// Stored code that was not loaded: quarantined where the error is the code's own, else the
  /// machine's refusal is noted.
  void not_loaded(const std::string& binary_key, const Error& error);

  /// Out of the database, else compiled and stored. Not proved.
  Result<Built> build(const BestKey& key, const Config& config);
  /// build(), and proved for this problem.
  Result<Built> admitted(const BestKey& key, const Config& config);
  /// That code gives right results for the problem on `key.device.compute_units` threads, checked
  /// once and remembered. What fails is quarantined. Errors: verification; device (no worker could
  /// be started, or the machine had no room: that says nothing about the code).
  Status prove(const BestKey& key, const Config& config, const KernelCode& kernel,
               const StoredBinary& code);
  /// The same over the envelope of a record, which is stored and whose code `image` is: it may run
  /// at every size from then on. It has an envelope. Errors: verification, device.
  Status prove_envelope(const Record& record, std::span<const std::byte> image);
  /// Loads a stored kernel's code; false where that, or its proof, is not to be had. One at a time.
  bool make_ready(StoredKernel& kernel);

  /// Before a look-up: whether the machine refuses something is seen anew.
  void ask_again() { machine_refused_ = false; }
  /// The machine refused something since; it says nothing about code. A search may note it too:
  /// then a plan is looked up once more than needed.
  bool machine_refused() const { return machine_refused_; }

 private:
  const Parts engine_;
  std::atomic<bool> machine_refused_{false};
};

}  // namespace kiln
