#include "bench/bench.h"

#include <algorithm>
#include <optional>

#include "engine/peak.h"

namespace kiln {
namespace {

Status tune_one(Engine& engine, const BenchOptions& options, std::size_t index, const Gemm& gemm,
                int threads) {
  TuneOptions tune;
  if (options.contest.sustained) tune.policy = TuningPolicy::sustained;
  tune.budget = options.budget;
  tune.candidates = options.candidates;
  tune.seed = options.contest.seed;
  tune.threads = threads;
  tune.cancelled = options.cancelled;
  if (options.on_tune)
    tune.progress = [&](const Progress& p) { options.on_tune(index, gemm, threads, p); };
  const auto report = engine.tune(gemm, tune);
  if (options.on_tuned) options.on_tuned(gemm, report);
  if (!report) return tl::unexpected(report.error());
  return {};
}

/// The problem, and the plain product of a peer that computes that first.
Status tune_first(Engine& engine, const RaceTrack& track, const BenchOptions& options,
                  std::size_t index, int threads) {
  const Gemm& gemm = options.gemms[index];
  const bool apart = std::ranges::any_of(track.peers().present, [&](const auto& peer) {
    return peer->rounds_products() && peer->supports(gemm, threads);
  });
  if (apart)
    if (Status ok = tune_one(engine, options, index, plain_product_of(gemm), threads); !ok)
      return ok;
  return tune_one(engine, options, index, gemm, threads);
}

bool cancelled(const BenchOptions& options) { return options.cancelled && options.cancelled(); }

/// Tuned first where that was asked for; nothing when it was cancelled before the race.
Result<std::optional<ContestResult>> race_one(Engine& engine, const RaceTrack& track,
                                              const BenchOptions& options, std::size_t index,
                                              int threads) {
  if (cancelled(options)) return std::nullopt;
  const Status tuned = options.tune ? tune_first(engine, track, options, index, threads) : Status{};
  if (cancelled(options)) return std::nullopt;
  if (!tuned) return tl::unexpected(tuned.error());
  return contest(engine, track, options.gemms[index], threads, options.contest);
}

/// The peers, and the reference lines of every thread count, which the database keeps.
Status introduce(Engine& engine, const RaceTrack& track, const BenchOptions& options,
                 const std::vector<int>& threads, BenchReport& report) {
  if (options.on_peer)
    for (const auto& peer : track.peers().present) options.on_peer(*peer);
  if (options.on_absent)
    for (const AbsentPeer& absent : track.peers().absent) options.on_absent(absent);
  for (int count : threads) {
    const auto limits = track.limits(count);
    if (!limits) return tl::unexpected(limits.error());
    if (!*limits) continue;
    // One that cannot be kept (a read-only file) is measured again next time.
    (void)keep_limits(engine, **limits);
    report.machine.push_back({count, **limits});
    if (options.on_machine) options.on_machine(report.machine.back());
  }
  return {};
}

}  // namespace

Result<BenchReport> run_bench(const BenchOptions& options) {
  auto engine = Engine::open(options.open);
  if (!engine) return tl::unexpected(engine.error());
  const auto track = open_track(options.open.device);
  if (!track) return tl::unexpected(track.error());
  if (Status found = (*track)->find_peers(options.peers, &*engine); !found)
    return tl::unexpected(found.error());
  const auto threads = options.threads.empty() ? (*track)->threads() : options.threads;
  if (!threads) return tl::unexpected(threads.error());
  if (options.on_start) options.on_start(options.gemms.size() * threads->size());
  BenchReport report;
  report.device = options.open.device;
  if (Status ok = introduce(*engine, **track, options, *threads, report); !ok)
    return tl::unexpected(ok.error());

  for (std::size_t i = 0; i < options.gemms.size(); ++i)
    for (int count : *threads) {
      auto row = race_one(*engine, **track, options, i, count);
      if (row && !*row) {
        report.cancelled = true;
        return report;
      }
      if (row) {
        add_row(report, std::move(**row));
        if (options.on_row) options.on_row(report.rows.back());
      } else {
        report.failures.push_back({options.gemms[i], count, row.error()});
        if (options.on_failure) options.on_failure(report.failures.back());
      }
    }
  return report;
}

}  // namespace kiln
