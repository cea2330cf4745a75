// How an Engine records its calls: which file, and under which problem a plan counts.

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

Status Engine::Impl::open_recorder() {
  const char* variable = env("KILN_RECORD");
  const bool named = !options.record.empty();
  const std::filesystem::path file = named ? options.record : variable != nullptr ? variable : "";
  if (file.empty()) return {};
  auto opened = CallRecorder::open(file, device);
  if (opened) {
    recorder = std::move(*opened);
    return {};
  }
  if (named) return tl::unexpected(opened.error());
  // Whoever set the variable wants the program to run in the first place.
  log::warn("{}; calls are not recorded", opened.error().message);
  return {};
}

CallCounter* Engine::Impl::counter_of(const Gemm& gemm, int threads) const {
  if (!recorder || gemm.m == 0 || gemm.n == 0 || gemm.k == 0) return nullptr;
  // Calls that promise no alignment count together with those that promise what their pitches have,
  // for they are tuned as one problem. Less aligned addresses are another one.
  Gemm counted = gemm;
  counted.alignment = 1;
  if (spelt(counted) != gemm) counted = gemm;
  return &recorder->counter(normalised(counted), threads);
}

std::shared_ptr<Plan::Impl> Engine::Impl::new_plan(const Gemm& gemm, int threads) const {
  auto plan = bare_plan(gemm, threads, device);
  plan->counter = counter_of(gemm, threads);
  if (plan->counter != nullptr) plan->recorder = recorder;
  return plan;
}

Result<std::optional<CallLog>> Engine::call_log(const Gemm& gemm, int threads) {
  return shielded([&]() -> Result<std::optional<CallLog>> {
    if (const auto problem = Problem::of(gemm); !problem) return tl::unexpected(problem.error());
    const auto count = impl_->threads_of(threads);
    if (!count) return tl::unexpected(count.error());
    CallCounter* counter = impl_->counter_of(impl_->spelt(gemm), *count);
    if (counter == nullptr) return std::nullopt;
    return CallLog(std::make_shared<const CallLog::Impl>(impl_->recorder, counter));
  });
}

std::vector<CallCount> Engine::counted_calls() const {
  return impl_->recorder ? impl_->recorder->counts() : std::vector<CallCount>{};
}

bool CallLog::wants_time() const { return CallCounter::is_timed(impl_->counter->shard()); }

void CallLog::add(double ns) const {
  CallCounter::Shard& shard = impl_->counter->shard();
  if (!(ns > 0)) return CallCounter::add(shard);
  CallCounter::add_timed(shard, std::chrono::nanoseconds(CallCounter::nanoseconds_of(ns)));
  impl_->recorder->keep_flushing();
}

}  // namespace kiln
