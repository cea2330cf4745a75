#include "bench/bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "runtime/cpu/cpu.h"

namespace kiln {
namespace {

/// Keeps the peers that were asked for; all when none were named.
Status keep_named(PeerSet& set, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  std::vector<std::string> known;
  for (const auto& peer : set.present) known.push_back(peer->name());
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      for (const AbsentPeer& absent : set.absent)
        if (name.starts_with(absent.name))
          return fail(ErrorCode::bad_input,
                      fmt::format("peer = \"{}\": not installed: {}", name, absent.reason));
      return fail(ErrorCode::bad_input, fmt::format("peer = \"{}\": no such peer; there are {}",
                                                    name, fmt::join(known, ", ")));
    }
  std::erase_if(set.present, [&](const auto& peer) {
    return std::find(names.begin(), names.end(), peer->name()) == names.end();
  });
  return {};
}

Status tune_first(Engine& engine, const BenchOptions& options, std::size_t index, int threads) {
  TuneOptions tune;
  tune.budget = options.budget;
  tune.seed = options.contest.seed;
  tune.threads = threads;
  tune.cancelled = options.cancelled;
  if (options.on_tune)
    tune.progress = [&](const Progress& p) {
      options.on_tune(index, options.gemms[index], threads, p);
    };
  const auto report = engine.tune(options.gemms[index], tune);
  if (options.on_tuned) options.on_tuned(options.gemms[index], report);
  if (!report) return tl::unexpected(report.error());
  return {};
}

bool cancelled(const BenchOptions& options) { return options.cancelled && options.cancelled(); }

/// Tuned first where that was asked for; nothing when it was cancelled before the race.
Result<std::optional<ContestResult>> race_one(Engine& engine, const PeerSet& peers,
                                              const BenchOptions& options, std::size_t index,
                                              int threads) {
  if (cancelled(options)) return std::nullopt;
  const Status tuned = options.tune ? tune_first(engine, options, index, threads) : Status{};
  if (cancelled(options)) return std::nullopt;
  if (!tuned) return tl::unexpected(tuned.error());
  return contest(engine, peers, options.gemms[index], threads, options.contest);
}

/// The reference lines of every thread count.
Status measure_machine(const BenchOptions& options, const std::vector<int>& threads,
                       BenchReport& report) {
  for (int count : threads) {
    const auto device = detect_cpu(count);
    if (!device) return tl::unexpected(device.error());
    const auto limits = measure_limits(*device);
    if (!limits) return tl::unexpected(limits.error());
    report.machine.push_back({count, *limits});
    if (options.on_machine) options.on_machine(report.machine.back());
  }
  return {};
}

}  // namespace

Result<std::vector<int>> default_thread_counts() {
  const auto device = detect_cpu();
  if (!device) return tl::unexpected(device.error());
  if (device->compute_units == 1) return std::vector<int>{1};
  return std::vector<int>{1, device->compute_units};
}

Result<BenchReport> run_bench(const BenchOptions& options) {
  auto engine = Engine::open(options.open);
  if (!engine) return tl::unexpected(engine.error());
  PeerSet peers = load_peers();
  if (Status named = keep_named(peers, options.peers); !named) return tl::unexpected(named.error());
  if (options.on_peer)
    for (const auto& peer : peers.present) options.on_peer(*peer);
  if (options.on_absent && options.peers.empty())
    for (const AbsentPeer& absent : peers.absent) options.on_absent(absent);

  auto threads = options.threads.empty() ? default_thread_counts() : options.threads;
  if (!threads) return tl::unexpected(threads.error());
  BenchReport report;
  report.device = options.open.device;
  if (Status measured = measure_machine(options, *threads, report); !measured)
    return tl::unexpected(measured.error());

  for (std::size_t i = 0; i < options.gemms.size(); ++i)
    for (int count : *threads) {
      auto row = race_one(*engine, peers, options, i, count);
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
