// How an Engine records its calls: which file, and under which problem a plan counts.
#include <cstdlib>

#include "cache/keys.h"
#include "engine/engine_impl.h"
#include "runtime/log.h"

namespace kiln {

Status Engine::Impl::open_recorder() {
  const char* variable = std::getenv("KILN_RECORD");
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

std::shared_ptr<Plan::Impl> Engine::Impl::new_plan(const Gemm& gemm, int threads) const {
  auto plan = bare_plan(gemm, threads, device);
  if (!recorder || gemm.m == 0 || gemm.n == 0 || gemm.k == 0) return plan;
  // Calls that promise no alignment count together with those that promise what their pitches have,
  // for they are tuned as one problem. Less aligned addresses are another one.
  Gemm counted = gemm;
  counted.alignment = 1;
  if (spelt(counted) != gemm) counted = gemm;
  plan->recorder = recorder;
  plan->counter = &recorder->counter(normalised(counted), threads);
  return plan;
}

}  // namespace kiln
