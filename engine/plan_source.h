// How a problem without a plan gets one: an ordered list of sources, asked one after the other.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/code_cache.h"
#include "engine/plan.h"
#include "engine/stored_kernels.h"
#include "engine/tuned_ranges.h"
#include "generator/space/summation.h"
#include "kiln/engine.hpp"

namespace kiln {

using SharedPlan = std::shared_ptr<const Plan::Impl>;

/// A problem on a number of threads that has no plan.
struct Miss {
  const Problem& problem;
  int threads;
  const Gemm& gemm() const { return problem.given; }
};

/// What the key's class of determinism allows for its problem.
AllowedSummation allowed_by(const BestKey& key);
/// Whose measurements a choice among kernels of another GPU is of.
std::string origin_text(const DeviceCaps& owner, bool own);

/// What is known of the database's code, read once.
struct StoredCode {
  StoredKernels kernels;
  TunedRanges ranges;
  /// After a search: there is more.
  void forget() {
    kernels.forget();
    ranges.forget();
  }
};

/// One way to a plan. One look-up at a time.
class PlanSource {
 public:
  PlanSource(Engine::Impl& engine, StoredCode& stored) : engine_(engine), stored_(stored) {}
  virtual ~PlanSource() = default;
  /// Nothing: this way leads to no kernel that may run. What went wrong was logged.
  virtual std::optional<SharedPlan> find(const Miss& miss) = 0;

 protected:
  /// A plan of this code, or nothing, of which the log says why. `as`: the problem as the code was
  /// made for it, where it promises less (of alignment); null: the miss's own. `made_for`: the
  /// class of CPUs that the code was made for; empty: this device.
  std::optional<SharedPlan> bound(const Miss& miss, Match match, const Config& config,
                                  std::string reason, KernelCode code, const Gemm* as = nullptr,
                                  std::string_view made_for = {});

  Engine::Impl& engine_;
  StoredCode& stored_;
};

/// The winner of this very problem, or the vendor's library where that won and is allowed.
class ExactSource final : public PlanSource {
 public:
  using PlanSource::PlanSource;
  std::optional<SharedPlan> find(const Miss& miss) override;
  /// Of a record of the miss's problem.
  std::optional<SharedPlan> of(const Miss& miss, const Record& record);

 private:
  std::optional<SharedPlan> library(const Miss& miss, const Record& record);
};

/// The kernel that a tuned range's table names for the problem's size.
class RangeSource final : public PlanSource {
 public:
  using PlanSource::PlanSource;
  std::optional<SharedPlan> find(const Miss& miss) override;
  /// Of the tables of this device or of a relative.
  std::optional<SharedPlan> of(const DeviceCaps& owner, const Miss& miss);
};

/// What was tuned for this problem, or for its range, on a GPU with this one's code and launches.
class RelativeSource final : public PlanSource {
 public:
  RelativeSource(Engine::Impl& engine, StoredCode& stored, RangeSource& ranges)
      : PlanSource(engine, stored), ranges_(ranges) {}
  std::optional<SharedPlan> find(const Miss& miss) override;

 private:
  /// The winner of a race under load, else of a cool one.
  std::optional<Record> won_by(const BestKey& key);

  RangeSource& ranges_;
};

/// A stored kernel of a class of CPUs, and what a call is expected to take.
struct ClassChoice {
  double ns = 0;
  StoredKernel* kernel = nullptr;
};

/// Kernels of this CPU's classes, by the analytic model.
class ClassSource final : public PlanSource {
 public:
  using PlanSource::PlanSource;
  std::optional<SharedPlan> find(const Miss& miss) override {
    return below(miss, std::numeric_limits<double>::infinity());
  }
  /// The first that may run and is expected to take less than `ns`.
  std::optional<SharedPlan> below(const Miss& miss, double ns);
  /// Those whose configs the problem allows, by expected time: what the analytic model predicts,
  /// times `error`.
  std::vector<ClassChoice> choices(const BestKey& key, double error);
};

/// What the fitted model chooses among kernels of this device, and of its relatives, whose code has
/// sizes as arguments.
class StoredSource final : public PlanSource {
 public:
  StoredSource(Engine::Impl& engine, StoredCode& stored, ClassSource& classes)
      : PlanSource(engine, stored), classes_(classes) {}
  std::optional<SharedPlan> find(const Miss& miss) override;

 private:
  /// Adds relatives' kernels of configs that this device has no kernel of, by expected time.
  void add_relatives(std::vector<RankedKernel>& ranked, const BestKey& key);
  ClassSource& classes_;
};

/// Configs that won for problems nearby, compiled for this one.
class NearestSource final : public PlanSource {
 public:
  using PlanSource::PlanSource;
  std::optional<SharedPlan> find(const Miss& miss) override;
};

/// What the analytic model would try first of the whole space.
class ModelSource final : public PlanSource {
 public:
  using PlanSource::PlanSource;
  std::optional<SharedPlan> find(const Miss& miss) override;
};

/// The plain loop of CPUs.
class ReferenceSource final : public PlanSource {
 public:
  using PlanSource::PlanSource;
  std::optional<SharedPlan> find(const Miss& miss) override;
};

class PlanSources {
 public:
  PlanSources(Engine::Impl& engine, StoredCode& stored) : engine_(engine), stored_(stored) {}

  /// What was tuned for this device.
  std::optional<SharedPlan> tuned(const Miss& miss) { return first({&exact, &range}, miss); }
  /// The best of what is known besides. Errors: device, unsupported, compiler.
  Result<SharedPlan> best_known(const Miss& miss);

 private:
  Engine::Impl& engine_;
  StoredCode& stored_;

 public:
  ExactSource exact{engine_, stored_};
  RangeSource range{engine_, stored_};
  RelativeSource relative{engine_, stored_, range};
  ClassSource classes{engine_, stored_};
  StoredSource stored{engine_, stored_, classes};
  NearestSource nearest{engine_, stored_};
  ModelSource model{engine_, stored_};
  ReferenceSource reference{engine_, stored_};

 private:
  std::optional<SharedPlan> first(std::initializer_list<PlanSource*> sources, const Miss& miss);
};

}  // namespace kiln
