// Kernels of the database that serve sizes they were not tuned for: their code has the sizes as
// arguments and was proved over its envelope, so neither a compiler nor a worker is needed.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/record.h"
#include "cache/store.h"
#include "engine/plan.h"
#include "generator/space/code_class.h"
#include "tuner/search/fitted_model.h"

namespace kiln {

/// A kernel, which serves every size that its config allows and that has the same code. All but
/// what ranks it is found out when it is asked for, since few of many kernels are.
struct StoredKernel {
  KernelRow row;
  std::shared_ptr<const BestKey> like;  // its device and class of problems
  std::optional<Record> record;  // of the shape it was tuned for, without its code: after serves()
  KernelCode code;               // once it was loaded
  std::optional<bool> proved;    // over its envelope
  std::optional<CodeClass> code_class;
  bool useless = false;  // its record cannot be read, or is of code that serves no other size

  const Config& config() const { return row.config; }
  const DeviceCaps& made_on() const { return like->device; }
};

/// What a prediction says of a kernel that the problem allows.
struct RankedKernel {
  double ns = 0;
  StoredKernel* kernel = nullptr;
};

/// All kernels that were tuned for problems of the same types, layouts and epilogue on the same
/// device, and the model fitted to them.
struct KernelClass {
  /// One code may be of several problems, which differ in what other problems it serves.
  std::vector<StoredKernel> kernels;
  std::optional<FittedModel> model;  // none, or one that is no better than the analytic one
  /// Those whose configs the key's problem and class of determinism allow, by predicted
  /// nanoseconds, fastest first. Whether the problem has their very code is not asked: see
  /// serves().
  std::vector<RankedKernel> ranked(const BestKey& key);
};

/// Read from the store once for each class of problems. Not thread-safe.
class StoredKernels {
 public:
  /// Valid until forget().
  KernelClass& of(const BestKey& key, Store& store, const Validators& now);
  /// Classes of CPUs that `device` belongs to (generator/problem/device_class.h) and for which the
  /// store has kernels. Threads make no difference. Valid until forget().
  const std::vector<DeviceCaps>& classes_of_cpus(const DeviceCaps& device, Store& store);
  /// Other GPUs of the store that are relatives of `device`. Valid until forget().
  const std::vector<DeviceCaps>& relatives(const DeviceCaps& device, Store& store);
  /// After a search: its winner is new.
  void forget() {
    classes_.clear();
    classes_of_cpus_.reset();
    relatives_.reset();
  }

 private:
  std::map<std::string, KernelClass> classes_;
  std::optional<std::vector<DeviceCaps>> classes_of_cpus_, relatives_;
};

/// Whether the problem, which allows the kernel's config, is computed by its very code.
/// One of another GPU also has the launch there that it would have here: it does the same.
bool serves(StoredKernel& kernel, const Gemm& gemm, const DeviceCaps& device, Store& store);

}  // namespace kiln
