// What an engine is opened for, as its calls, keys and records name it. Constant afterwards.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "cache/record.h"
#include "generator/problem/device_caps.h"
#include "kiln/engine.hpp"
#include "runtime/backend.h"
#include "runtime/cpu/affinity.h"

namespace kiln {

class GpuResources;

struct Target {
  OpenOptions options;
  Backend backend;
  gpu::SharedDevice gpu;                     // null: the CPU
  std::shared_ptr<GpuResources> gpu_shared;  // of all plans; null: the CPU
  DeviceCaps device;      // with every core this process may use; calls set compute_units
  int named_threads = 0;  // of the options, or all of a GPU; 0: usable_threads()

  /// Finds the device that the options name. Errors: bad_input, device.
  Status find();
  /// Threads of a call that names none: may change while the process runs.
  int default_threads() const { return named_threads != 0 ? named_threads : usable_threads(); }
  /// `threads` as a call gave it, 0 resolved. Errors: bad_input.
  Result<int> threads_of(int threads) const;
  /// The problem as its plans and records have it: on a GPU one that promises no alignment has the
  /// usual one.
  Gemm with_defaults(const Gemm& gemm) const;
  GemmRange with_defaults(const GemmRange& range) const;
  /// The same with the alignment of a call's addresses.
  Gemm with_defaults(const Gemm& gemm, const Operands& operands) const;
  BestKey key_of(const Gemm& gemm, int threads, TuningPolicy policy = TuningPolicy::cool) const;
  /// As keys have it.
  std::string policy_name(TuningPolicy policy) const {
    return std::string(policy == TuningPolicy::sustained ? backend.sustained : backend.policy);
  }
  /// The policies under which a problem may have a record, in the order in which calls ask for one.
  std::span<const TuningPolicy> policies() const;
  /// `policy` of a search, without `automatic`. Errors: unsupported (this device has no such).
  Result<TuningPolicy> policy_of(const Gemm& gemm, TuningPolicy policy) const;
};

}  // namespace kiln
