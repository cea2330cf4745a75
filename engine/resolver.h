// From a problem to a plan: the policy on a miss, and what is known of stored kernels. One miss is
// worked out at a time.
#pragma once

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "cache/rows/range_table.h"
#include "engine/outlook.h"
#include "engine/plan_source.h"
#include "engine/plan_table.h"
#include "engine/unsettled.h"
#include "kiln/engine.hpp"

namespace kiln {

class KILN_LOCAL Resolver {
 public:
  explicit Resolver(Engine::Impl& engine) : engine_(engine) {}

  /// A plan of this code. `as`: the problem as the code was made for it, where it promises less (of
  /// alignment) than `gemm` does; null: `gemm` itself. `made_for`: the class of CPUs that the code
  /// was made for; empty: this device. Errors: device.
  Result<SharedPlan> bound_plan(const Gemm& gemm, int threads, Match match, const Config& config,
                                std::string reason, KernelCode code, const Gemm* as = nullptr,
                                std::string_view made_for = {});
  /// The plan that was made for the problem, or a new one. Errors: any.
  Result<SharedPlan> plan_for(const Gemm& gemm, int threads);
  /// A plan of what the races of one policy found for the problem, whatever calls take: it stands
  /// in no table. Nothing: there is no such record, or its code may not run.
  std::optional<SharedPlan> plan_of_policy(const Gemm& gemm, int threads, TuningPolicy policy);
  /// The plan of a problem that has one. No lock is taken.
  const Plan::Impl* known(const Gemm& gemm, int threads) const {
    const PlanKey key = plan_key(gemm, threads);
    return plans_.find(key, hash_of(key));
  }
  /// Plans of this problem, whatever its pitches and promises say, take the winner's kernel; that
  /// of `gemm` itself is made at least. Works when the database could not be written, too.
  void install(const Gemm& gemm, const BestKey& key, const Config& config,
               const std::string& reason, const KernelCode& code);
  /// Plans of a range's sizes that were made before take its kernels.
  void install_range(const GemmRange& range, int threads);
  /// Loads the kernels that tables name for sizes of the range. The most bytes of workspace that
  /// any of these sizes needs.
  std::int64_t prepare_range(const GemmRange& range, int threads);
  /// After a search: what the store has is read again.
  void forget_stored();
  /// Configs of stored kernels that have the key's code: nothing need be compiled for them.
  std::vector<Config> stored_configs(const BestKey& key);
  /// See engine/outlook.h.
  Result<Outlook> outlook(const Gemm& gemm, int threads, double called_ns);
  PlanTable& plans() { return plans_; }

 private:
  Result<SharedPlan> resolve(const Gemm& gemm, int threads);
  /// Remembers the plan of a miss: for good, or, where the machine refused, until it is asked
  /// again.
  void keep(const SharedPlan& plan);
  void tell_untuned(const Plan::Impl& plan);
  /// Of the race of the problem's record with this config.
  std::vector<RacedLibrary> raced_beside(const Gemm& gemm, int threads, const std::string& config);
  /// What a call is expected to take: the stored time of a tuned problem, else what the model
  /// predicts, as fitted to measurements where it is.
  double expected_ns(const Gemm& gemm, int threads, Match match, const Config& config);
  /// Median of measured over predicted time of all problems tuned on this device, on any number of
  /// threads; nothing where none is.
  std::optional<double> model_error();

  Engine::Impl& engine_;
  PlanTable plans_;
  std::mutex resolving_;  // of all below
  StoredCode stored_;
  Unsettled unsettled_;
  std::set<std::string> told_;  // untuned shapes already reported
  PlanSources sources_{engine_, stored_};
};

}  // namespace kiln
