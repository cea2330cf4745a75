// tune() of a range and what is stored of it: whether it was tuned before, and its table.
#include <fmt/format.h>

#include <algorithm>

#include "cache/records/ranges.h"
#include "engine/engine_impl.h"
#include "engine/ranges.h"
#include "generator/problem/size.h"
#include "generator/problem/spelling.h"

namespace kiln {
namespace {

RangeReport report_of(const RangeRecord& record, int threads) {
  RangeReport report;
  report.range = record.range;
  report.threads = threads;
  report.already_tuned = true;
  for (const RangeCell& cell : record.table.cells)
    report.parts.push_back({cell.last, text(cell.config), cell.tuned_at, cell.expected_ns});
  report.kernels = static_cast<int>(record.table.kernels());
  return report;
}

}  // namespace

Result<RangeReport> TuningSession::tune_range(const GemmRange& range, const TuneOptions& options) {
  if (Status ok = validate(range); !ok) return tl::unexpected(ok.error());
  if (Status ok = check_budget(options); !ok) return tl::unexpected(ok.error());
  if (options.race) return fail(ErrorCode::bad_input, "race = true: must be false for a range");
  if (options.policy == TuningPolicy::sustained)
    return fail(ErrorCode::bad_input,
                "policy = sustained: must be cool or auto for a range, whose kernels are chosen by "
                "many short timings");
  const auto threads = engine_.threads_of(options.threads);
  if (!threads) return tl::unexpected(threads.error());
  const std::lock_guard lock(searching_);
  if (!options.force)
    if (const auto record = stored_range(range, *threads)) {
      RangeReport report = report_of(*record, *threads);
      report.stored = true;
      return report;
    }
  const auto compiler = engine_.admission.compiler();
  if (!compiler) return tl::unexpected(compiler.error());
  TuneOptions each = options;
  each.threads = *threads;
  each.policy = TuningPolicy::cool;
  // A table names winners of the database: without one that can be written there is none.
  if (Status written = engine_.store->begin_session(
          {.command = "tune", .seed = options.seed, .budget_seconds = options.budget.count()});
      !written)
    return tl::unexpected(written.error());
  auto report = search_range(range, *threads, **compiler, each);
  if (!report) return report;
  const Status lasting = engine_.store->lasting();
  report->stored = lasting && stored_range(range, *threads).has_value();
  if (!report->stored)
    report->warnings.insert(report->warnings.begin(),
                            fmt::format("not stored: the table of {} in {}: later processes know "
                                        "nothing of it",
                                        text(range), engine_.store->path().string()));
  engine_.resolver.install_range(range, *threads);
  return report;
}

std::optional<RangeRecord> TuningSession::stored_range(const GemmRange& range, int threads) {
  for (RangeRecord& record :
       engine_.store->ranges().like(engine_.key_of(range.gemm, threads), range.size))
    if (record.range.first == range.first && record.range.last() == range.last())
      return std::move(record);
  return std::nullopt;
}

Result<RangeReport> stored_range(Engine& engine, const GemmRange& range, int threads) {
  return shielded([&]() -> Result<RangeReport> {
    Engine::Impl& impl = engine.impl();
    if (Status ok = validate(range); !ok) return tl::unexpected(ok.error());
    const auto count = impl.threads_of(threads);
    if (!count) return tl::unexpected(count.error());
    const GemmRange full = impl.with_defaults(range);
    const auto record = impl.tuning.stored_range(full, *count);
    if (!record)
      return fail(ErrorCode::not_tuned,
                  fmt::format("{} on {} threads was never tuned as a range", text(range), *count));
    RangeReport report = report_of(*record, *count);
    report.stored = true;
    return report;
  });
}

}  // namespace kiln
