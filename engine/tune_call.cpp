// tune() for callers: their callbacks, and whether the winner is stored.
#include <fmt/format.h>

#include <algorithm>

#include "engine/engine_impl.h"
#include "runtime/cpu/float_mode.h"
#include "runtime/exit_gate.h"
#include "runtime/log.h"

namespace kiln {
namespace {

TuneOptions with_named_callbacks(TuneOptions options) {
  if (options.progress)
    options.progress = [given = std::move(options.progress)](const Progress& progress) {
      called("progress", given, progress);
    };
  options.cancelled = [given = std::move(options.cancelled)] {
    return ExitGate::ending() || (given && called("cancelled", given));
  };
  return options;
}

/// Set while this thread is in tune(), of whichever engine: they share the device's lock.
thread_local bool tuning_here = false;

struct TuningHere {
  TuningHere() { tuning_here = true; }
  ~TuningHere() { tuning_here = false; }
};

/// Errors: bad_input.
Status outside_callbacks() {
  if (!tuning_here) return {};
  return fail(ErrorCode::bad_input,
              "tune() called from its own callback (progress or cancelled): it would wait for "
              "itself");
}

}  // namespace

Result<RangeReport> TuningSession::tune_and_confirm(const GemmRange& range,
                                                    const TuneOptions& options) {
  if (Status outside = outside_callbacks(); !outside) return tl::unexpected(outside.error());
  if (!engine_.gpu) reread_cores();
  const UsualFloatMode usual;  // results are compared with references
  const TuningHere here;
  auto report = tune_range(range, with_named_callbacks(options));
  if (report)
    log::info("{} on {} threads: {} {} kernels, {} sizes searched, {:.1f} s", text(range),
              report->threads, report->already_tuned ? "tuned before," : "tuned,", report->kernels,
              report->searched, report->seconds);
  return report;
}

Result<TuneReport> TuningSession::tune_and_confirm(const Gemm& gemm, const TuneOptions& options) {
  if (Status outside = outside_callbacks(); !outside) return tl::unexpected(outside.error());
  if (!engine_.gpu) reread_cores();
  const UsualFloatMode usual;  // results are compared with references
  const TuningHere here;
  auto report = tune(gemm, with_named_callbacks(options));
  if (!report) return report;
  confirm_stored(*report);
  log::info("{} on {} threads: {} {}: {} measured, {} failed, {:.1f} s", text(gemm),
            report->threads, report->already_tuned ? "tuned before," : "tuned,", report->config,
            report->measured, report->failed, report->seconds);
  if (!report->already_tuned && !report->disturbed.empty())
    log::warn("{} on {} threads: measured on a disturbed machine: {}", text(gemm), report->threads,
              report->disturbed);
  return report;
}

void TuningSession::confirm_stored(TuneReport& report) {
  const Gemm& gemm = report.gemm;
  if (gemm.m == 0 || gemm.n == 0 || gemm.k == 0) {  // nothing was searched
    report.stored = true;
    return;
  }
  Validators with = engine_.now;
  if (const auto used = engine_.admission.compiler()) with.compiler = (*used)->version();
  BestKey key = engine_.key_of(gemm, report.threads);
  key.policy = report.policy;
  const auto record = engine_.best(key, with);
  const Status lasting = engine_.store->lasting();
  report.stored = record && text(record->measured.config) == report.config &&
                  (lasting || record->database != engine_.store->path());
  if (report.stored) return;
  std::vector<std::string>& warnings = report.warnings;
  if (!lasting && std::ranges::find(warnings, lasting.error().message) == warnings.end())
    warnings.insert(warnings.begin(), lasting.error().message);
  warnings.insert(
      warnings.begin(),
      fmt::format("not stored: the winner for {} in {}; it is lost when this engine is closed",
                  text(gemm), engine_.store->path().string()));
}

void TuningSession::warn_of(const TuneReport& report) {
  for (const std::string& warning : report.warnings)
    engine_.warn(fail(ErrorCode::database, warning));
}

}  // namespace kiln
