#include "engine/recorder.h"

#include "cache/keys.h"
#include "engine/engine_impl.h"
#include "runtime/env.h"
#include "runtime/log.h"

struct KILN_LOCAL kiln::CallLog::Impl {
  Impl(std::shared_ptr<CallRecorder> recorder, CallCounter* counter)
      : recorder(std::move(recorder)), counter(counter) {}
  std::shared_ptr<CallRecorder> recorder;
  CallCounter* counter;  // the recorder's
};

namespace kiln {

Status Recorder::open() {
  const char* variable = env("KILN_RECORD");
  const bool named = !target_.options.record.empty();
  const std::filesystem::path file = named                 ? target_.options.record
                                     : variable != nullptr ? variable
                                                           : "";
  if (file.empty()) return {};
  auto opened = CallRecorder::open(file, target_.device);
  if (opened) {
    calls_ = std::move(*opened);
    return {};
  }
  if (named) return tl::unexpected(opened.error());
  // Whoever set the variable wants the program to run in the first place.
  log::warn("{}; calls are not recorded", opened.error().message);
  return {};
}

CallCounter* Recorder::counter_of(const Gemm& gemm, int threads) const {
  if (!calls_ || gemm.m == 0 || gemm.n == 0 || gemm.k == 0) return nullptr;
  // Calls that promise no alignment count together with those that promise what their pitches have,
  // for they are tuned as one problem. Less aligned addresses are another one.
  Gemm counted = gemm;
  counted.alignment = 1;
  if (target_.with_defaults(counted) != gemm) counted = gemm;
  return &calls_->counter(normalised(counted), threads);
}

std::shared_ptr<Plan::Impl> Recorder::new_plan(const Gemm& gemm, int threads) const {
  auto plan = bare_plan(gemm, threads, target_.device);
  plan->counter = counter_of(gemm, threads);
  if (plan->counter != nullptr) plan->recorder = calls_;
  return plan;
}

std::vector<CallCount> Recorder::counts() const {
  return calls_ ? calls_->counts() : std::vector<CallCount>{};
}

void Recorder::flush() {
  if (calls_) calls_->flush();
}

Result<std::optional<CallLog>> Engine::call_log(const Gemm& gemm, int threads) {
  return shielded([&]() -> Result<std::optional<CallLog>> {
    if (const auto problem = Problem::of(gemm); !problem) return tl::unexpected(problem.error());
    const auto count = impl_->threads_of(threads);
    if (!count) return tl::unexpected(count.error());
    CallCounter* counter = impl_->recorder.counter_of(impl_->with_defaults(gemm), *count);
    if (counter == nullptr) return std::nullopt;
    return CallLog(std::make_shared<const CallLog::Impl>(impl_->recorder.calls(), counter));
  });
}

std::vector<CallCount> Engine::counted_calls() const { return impl_->recorder.counts(); }

bool CallLog::wants_time() const { return CallCounter::is_timed(impl_->counter->shard()); }

void CallLog::add(double ns) const {
  CallCounter::Shard& shard = impl_->counter->shard();
  if (!(ns > 0)) return CallCounter::add(shard);
  CallCounter::add_timed(shard, std::chrono::nanoseconds(CallCounter::nanoseconds_of(ns)));
  impl_->recorder->keep_flushing();
}

}  // namespace kiln
