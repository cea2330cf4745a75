#include "bench/range_race.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "bench/geometric_mean.h"
#include "bench/svg.h"
#include "cache/store.h"
#include "generator/problem/size.h"

namespace kiln {
namespace {

constexpr const char* kAlone = "alone";

/// The engine that programs have, and one that keeps what it tunes to itself.
struct Engines {
  Engine shared;
  std::optional<Engine> alone;
};

Result<Engines> open_engines(const RangeRaceOptions& options) {
  auto shared = Engine::open(options.open);
  if (!shared) return tl::unexpected(shared.error());
  Engines engines{std::move(*shared), std::nullopt};
  if (!options.alone) return engines;
  OpenOptions over = options.open;
  if (over.shipped.empty()) over.shipped = default_shipped();
  const std::filesystem::path own = over.database.empty() ? default_database() : over.database;
  std::error_code ignored;
  if (std::filesystem::exists(own, ignored)) over.shipped.insert(over.shipped.begin(), own);
  over.database = kInMemory;
  // Beside one order for all sizes: whatever is the fastest at each.
  if (over.determinism == Determinism::batch_invariant) over.determinism = Determinism::run_to_run;
  auto alone = Engine::open(over);
  if (!alone) return tl::unexpected(alone.error());
  engines.alone.emplace(std::move(*alone));
  return engines;
}

bool cancelled(const RangeRaceOptions& options) { return options.cancelled && options.cancelled(); }

TuneOptions tuning(const RangeRaceOptions& options, const Gemm& gemm,
                   std::chrono::duration<double> budget) {
  TuneOptions tune;
  tune.budget = budget;
  tune.seed = options.seed;
  tune.threads = options.threads;
  tune.cancelled = options.cancelled;
  if (options.on_tune)
    tune.progress = [&options, gemm](const Progress& p) { options.on_tune(gemm, p); };
  return tune;
}

Result<ContestResult> race_one(Engines& engines, const RaceTrack& track,
                               const RangeRaceOptions& options, const Gemm& gemm, int threads) {
  std::vector<Entrant> others;
  if (engines.alone) {
    const auto tuned = engines.alone->tune(gemm, tuning(options, gemm, options.budget));
    if (!tuned) return tl::unexpected(tuned.error());
    auto plan = engines.alone->plan(gemm, threads);
    if (!plan) return tl::unexpected(plan.error());
    others.push_back({*engines.alone, std::move(*plan)});
  }
  return contest(engines.shared, track, gemm, threads, options.contest, others);
}

/// What the summary and the chart compare with: a time by name.
std::map<std::string, double> times_of(const ContestResult& race) {
  std::map<std::string, double> times;
  if (!race.others.empty()) times[kAlone] = race.others.front().median_ns;
  for (const auto& [peer, timing] : race.peers) times[peer] = timing.median_ns;
  return times;
}

std::vector<const ContestResult*> races_of(const RangeRaceReport& report) {
  std::vector<const ContestResult*> races;
  for (const RangeRaceRow& row : report.rows) races.push_back(&row.race);
  return races;
}

std::int64_t size_of(const RangeRaceReport& report, const RangeRaceRow& row) {
  return row.race.gemm.*member_of(report.ranges[row.range].size);
}

}  // namespace

std::vector<std::int64_t> drawn_sizes(const GemmRange& range, int count, std::uint64_t seed) {
  const auto available = range.last() - range.first + 1;
  std::set<std::int64_t> sizes;
  if (available <= count) {
    for (std::int64_t size = range.first; size <= range.last(); ++size) sizes.insert(size);
    return {sizes.begin(), sizes.end()};
  }
  std::mt19937_64 random(seed);
  const double low = std::log(double(range.first)), high = std::log(double(range.last()) + 1);
  while (sizes.size() < static_cast<std::size_t>(count)) {
    // The distributions of the standard library differ between libraries.
    const double share = double(random() >> 11) * 0x1p-53;
    const auto size = static_cast<std::int64_t>(std::exp(low + share * (high - low)));
    // Few small sizes exist: what is drawn twice gives way to the next free one.
    std::int64_t free = std::clamp(size, range.first, range.last());
    while (sizes.contains(free)) free = free == range.last() ? range.first : free + 1;
    sizes.insert(free);
  }
  return {sizes.begin(), sizes.end()};
}

Result<RangeRaceReport> run_range_race(const RangeRaceOptions& options) {
  for (const GemmRange& range : options.ranges)
    if (Status valid = validate(range); !valid) return tl::unexpected(valid.error());
  auto engines = open_engines(options);
  if (!engines) return tl::unexpected(engines.error());
  const auto track = open_track(options.open.device);
  if (!track) return tl::unexpected(track.error());
  if (Status found = (*track)->find_peers(options.peers, nullptr); !found)
    return tl::unexpected(found.error());
  const auto usual = (*track)->threads();
  if (!usual) return tl::unexpected(usual.error());
  const int threads = options.threads > 0 ? options.threads : usual->back();
  RangeRaceReport report{.device = options.open.device, .ranges = options.ranges};
  for (std::size_t i = 0; i < options.ranges.size(); ++i) {
    const GemmRange& range = options.ranges[i];
    if (options.tune) {
      auto tuned = engines->shared.tune(range, tuning(options, range.gemm, options.range_budget));
      if (options.on_range) options.on_range(tuned);
      if (!tuned) return tl::unexpected(tuned.error());
      report.tables.push_back(std::move(*tuned));
    }
    for (const std::int64_t size : drawn_sizes(range, options.count, options.seed + i)) {
      if (cancelled(options)) {
        report.cancelled = true;
        return report;
      }
      const Gemm gemm = range.at(size);
      auto row = race_one(*engines, **track, options, gemm, threads);
      if (row) {
        report.rows.push_back({i, std::move(*row)});
        if (options.on_row) options.on_row(report.rows.back().race);
      } else {
        report.failures.push_back({gemm, threads, row.error()});
        if (options.on_failure) options.on_failure(report.failures.back());
      }
    }
  }
  return report;
}

RangeRaceSummary summarise(const RangeRaceReport& report) {
  RangeRaceSummary summary;
  std::map<std::string, GeometricMean> means;
  for (const RangeRaceRow& row : report.rows) {
    summary.verified += row.race.verified;
    for (const auto& [name, ns] : times_of(row.race)) {
      const double ratio = ns / row.race.kiln.median_ns;
      auto& against = summary.against[name];
      if (against.sizes++ == 0 || ratio < against.worst) {
        against.worst = ratio;
        against.worst_shape = text(row.race.gemm);
      }
      means[name].add(ratio);
    }
  }
  for (auto& [name, against] : summary.against) against.mean = means[name].value();
  for (std::size_t i = 0; i < report.rows.size(); ++i)
    for (std::size_t j = i + 1; j < report.rows.size(); ++j) {
      if (report.rows[i].range != report.rows[j].range) continue;
      const double slower =
          report.rows[i].race.kiln.median_ns / report.rows[j].race.kiln.median_ns - 1;
      if (slower <= summary.slower_than_larger) continue;
      summary.slower_than_larger = slower;
      summary.slower_shape = text(report.rows[i].race.gemm);
    }
  summary.failed = static_cast<int>(report.failures.size());
  return summary;
}

OrderedJson to_json(const RangeRaceSummary& summary) {
  OrderedJson against = OrderedJson::object();
  for (const auto& [name, one] : summary.against)
    against[name] = {{"sizes", one.sizes},
                     {"ratio", one.mean},
                     {"worst_ratio", one.worst},
                     {"worst_shape", one.worst_shape}};
  return {{"summary",
           {{"against", against},
            {"slower_than_larger", summary.slower_than_larger},
            {"slower_shape", summary.slower_shape},
            {"verified", summary.verified},
            {"failed", summary.failed}}}};
}

std::string table(const RangeRaceReport& report) {
  std::string out;
  for (const RangeRaceRow& row : report.rows) {
    out += fmt::format("{:>8} {:10.2f} us {:9}", size_of(report, row),
                       row.race.kiln.median_ns / 1e3, name(row.race.match));
    for (const auto& [name, ns] : times_of(row.race))
      out += fmt::format("  {} {:.3f}", name, ns / row.race.kiln.median_ns);
    out += fmt::format("  {}{}\n", row.race.config, row.race.verified ? "" : "  WRONG");
  }
  return out + versions_text(races_of(report));
}

std::string text(const RangeRaceSummary& summary) {
  std::string out;
  for (const auto& [name, one] : summary.against)
    out += fmt::format("against {}: {:.3f} (geometric mean of {} sizes), worst {:.3f}: {}\n", name,
                       one.mean, one.sizes, one.worst, one.worst_shape);
  if (summary.slower_than_larger > 0)
    out += fmt::format("slower than a larger size by at most {:.1f} %: {}\n",
                       100 * summary.slower_than_larger, summary.slower_shape);
  return out + fmt::format("{} verified, {} not raced\n", summary.verified, summary.failed);
}

std::string svg(const RangeRaceReport& report) {
  std::vector<ChartPanel> panels;
  for (std::size_t i = 0; i < report.ranges.size(); ++i) {
    std::map<std::string, ChartSeries> series;
    for (const RangeRaceRow& row : report.rows) {
      if (row.range != i) continue;
      for (const auto& [name, ns] : times_of(row.race)) {
        series[name].name = name;
        series[name].points.emplace_back(double(size_of(report, row)),
                                         ns / row.race.kiln.median_ns);
      }
    }
    ChartPanel panel{.title = text(report.ranges[i]) + ", " + report.device,
                     .x_label = std::string(name(report.ranges[i].size)),
                     .y_label = "time / kiln's time"};
    for (auto& [name, one] : series) panel.series.push_back(std::move(one));
    panels.push_back(std::move(panel));
  }
  return chart_svg(panels, versions_text(races_of(report)));
}

}  // namespace kiln
