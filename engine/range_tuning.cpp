// tune() of a range: searches at a few sizes, times what won there at more, and stores a table from
// size to kernel.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "cache/records/measurements.h"
#include "cache/records/ranges.h"
#include "engine/range_evaluator.h"
#include "generator/problem/size.h"
#include "generator/space/summation.h"
#include "runtime/log.h"
#include "tuner/search/range_choice.h"
#include "tuner/verify/envelope.h"

namespace kiln {
namespace {

/// Of the budget, for searches.
constexpr double kSearchShare = 0.4;
constexpr std::size_t kMostBinaries = 16;
/// As many take part in the last choice: some may have no home, or have been lucky once.
constexpr std::size_t kRefinedBinaries = 24;
/// Sizes timed in each doubling; configs with new code that are tried at each of them, and more
/// that share it; how often the latter are picked, each time by what the last ones took; sizes
/// whose code is compiled together. Of the budget, until when that goes on, and until when times
/// that the table's kernels lack are taken: what is left is for races. A GPU's kernels are screened
/// in milliseconds, by times that repeat: with races, and so less time before them, a range of bf16
/// had 0.977 of kernels tuned alone, 0.994 two days before without (H100). A CPU's code takes 30
/// times as long to compile as to time, and how it divides a product is a matter of the size.
struct Sweep {
  int sizes, codes, more, rounds;
  std::size_t together;
  double swept, refined;
};
constexpr Sweep kHostSweep{
    .sizes = 4, .codes = 2, .more = 12, .rounds = 3, .together = 4, .swept = 0.75, .refined = 0.85};
constexpr Sweep kGpuSweep{
    .sizes = 8, .codes = 8, .more = 0, .rounds = 1, .together = 16, .swept = 0.85, .refined = 1};
/// Kernels within so much of the fastest at a size race there: the fastest of many that were timed
/// once was lucky.
constexpr double kRaced = 1.08;
constexpr std::size_t kMostRaced = 4;
/// Of each search, candidates within so much of the fastest are timed at other sizes too: what
/// loses by its last tile here may win by it there.
constexpr double kNearlyWon = 1.10;
constexpr std::size_t kNearWinnersKept = 8;

class RangeTuning {
 public:
  RangeTuning(Engine::Impl& engine, const GemmRange& range, int threads, Compiler& compiler,
              const TuneOptions& options)
      : engine_(engine),
        range_(range),
        options_(options),
        sweep_(engine.gpu ? kGpuSweep : kHostSweep),
        model_(range, engine.key_of(range.gemm, threads).device, engine.options.determinism),
        evaluator_(engine, range_, threads, compiler, options, report_.warnings) {
    report_.range = range;
    report_.threads = threads;
  }

  Result<RangeReport> run() {
    const std::vector<std::int64_t> sizes = searched_sizes(range_, engine_.gpu == nullptr);
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (Status searched = search_at(sizes[i], sizes.size() - i); !searched)
        return tl::unexpected(searched.error());
    if (model_.kernels.empty()) return tl::unexpected(why_empty());
    std::vector<std::int64_t> timed = model_.timed_sizes(sizes, sweep_.sizes);
    if (Status swept = sweep(timed); !swept) return tl::unexpected(swept.error());
    timed.insert(timed.end(), sizes.begin(), sizes.end());
    if (Status refined = refine(timed); !refined) return tl::unexpected(refined.error());
    evaluator_.rest();
    if (cancelled()) return tl::unexpected(cut_short());
    if (Status stored = store_table(); !stored) return tl::unexpected(stored.error());
    report_.seconds = seconds();
    return std::move(report_);
  }

 private:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  bool cancelled() const { return evaluator_.cancelled(); }
  Error cut_short() const {
    return {
        ErrorCode::not_tuned,
        fmt::format("{}: cancelled before its table was made; the winners of {} sizes are stored",
                    text(range_), report_.searched)};
  }
  /// Why no search found a kernel for a table. Where every size was refused, so is the range:
  /// advice to tune its sizes would be wrong.
  Error why_empty() const {
    if (cancelled()) return cut_short();
    if (report_.searched == 0 && refused_)
      return {refused_->code, fmt::format("{}: {}", text(range_), refused_->message)};
    return {ErrorCode::not_tuned,
            fmt::format("{}: no winner has its sizes as arguments: tune its sizes one by one",
                        text(range_))};
  }

  /// A search as by tune() of this size alone, with its share of what time is left.
  Status search_at(std::int64_t size, std::size_t searches_left) {
    if (cancelled()) return {};
    if (const auto valid = Problem::of(range_.at(size)); !valid) {
      refused_ = valid.error();
      return {};
    }
    TuneOptions options = options_;
    const double left = kSearchShare * options_.budget.count() - seconds();
    options.budget = std::chrono::duration<double>(
        std::max(kLeastShare * options_.budget.count(), left) / double(searches_left));
    auto report = engine_.tuning.tune_of_range(range_.at(size), options, evaluator_.worker());
    // A size that no kernel serves (not a multiple of what the types need) is not part of the
    // table.
    if (!report && report.error().code == ErrorCode::unsupported) {
      refused_ = report.error();
      return {};
    }
    if (!report) return tl::unexpected(report.error());
    ++report_.searched;
    report_.measured += report->measured;
    for (const std::string& warning : report->warnings) evaluator_.note(warning);
    const BestKey key = evaluator_.key_at(size);
    const AllowedSummation order(key.problem(), key.device, key.determinism);
    const auto serves = [&](const Config& config) {
      return has_envelope(key.gemm, key.device, config) && order.allows(config);
    };
    if (const auto record = engine_.best(key, evaluator_.made_by());
        record && serves(record->measured.config)) {
      winners_.emplace(size, record->measured.config);
      add(key, record->measured.config, size, record->measured.timing().median_ns);
    }
    std::vector<Measured> near;
    for (const Measured& row : engine_.store->measurements().known(key, evaluator_.made_by()))
      if (row.ok() && row.verified && row.round != Round::screen && !is_library(row.config) &&
          serves(row.config))
        near.push_back(row);
    std::ranges::sort(near, {}, [](const Measured& row) { return row.timing().median_ns; });
    if (near.size() > kNearWinnersKept) near.resize(kNearWinnersKept);
    for (const Measured& row : near)
      if (row.timing().median_ns < kNearlyWon * near.front().timing().median_ns)
        add(key, row.config, size, row.timing().median_ns);
    return {};
  }

  /// A time of a kernel, which joins the others where it is new and serves more than one size.
  void add(const BestKey& key, const Config& config, std::int64_t size, double ns) {
    if (has_envelope(key.gemm, key.device, config)) model_.add(config, size, ns);
  }

  bool spent(double share) const { return seconds() > share * options_.budget.count(); }

  /// Times kernels at sizes where no search was, with what the model picks there and no search
  /// found. Code of several sizes is compiled together: a GPU's takes longer to compile than to
  /// time.
  Status sweep(const std::vector<std::int64_t>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); i += sweep_.together) {
      std::vector<std::pair<std::int64_t, Config>> fresh;
      for (std::size_t j = i; j < std::min(sizes.size(), i + sweep_.together); ++j)
        for (Config& config : picked_at(sizes[j], sweep_.codes))
          fresh.emplace_back(sizes[j], std::move(config));
      if (engine_.gpu) evaluator_.compile_ahead(fresh);
      for (std::size_t j = i; j < std::min(sizes.size(), i + sweep_.together); ++j) {
        if (cancelled() || spent(sweep_.swept)) return {};
        std::vector<Config> configs = untimed_at(sizes[j]);
        for (const auto& [size, config] : fresh)
          if (size == sizes[j]) configs.push_back(config);
        if (Status timed = time_at(sizes[j], configs); !timed) return timed;
        for (int round = 1; round < sweep_.rounds; ++round)
          if (Status timed = time_at(sizes[j], picked_at(sizes[j], 0)); !timed) return timed;
      }
    }
    return {};
  }

  /// Times what a table would be made of wherever it may be the fastest and has no time, and keeps
  /// nothing else but the fastest of each size: what was expected to be fast, and not timed, was
  /// chosen for its luck.
  Status refine(const std::vector<std::int64_t>& sizes) {
    std::set<std::size_t> chosen;
    for (const RangeChoice& choice : model_.choose(kRefinedBinaries)) chosen.insert(choice.kernel);
    std::map<std::int64_t, std::pair<double, std::size_t>> fastest;  // ns and kernel, by size
    for (std::size_t i = 0; i < model_.kernels.size(); ++i) {
      for (const auto& [size, ns] : model_.kernels[i].ns) {
        auto& best = fastest.try_emplace(size, ns, i).first->second;
        best = std::min(best, {ns, i});
      }
      // Winners have their place in the database; another kernel may find none.
      for (const auto& [size, config] : winners_)
        if (model_.kernels[i].config == config) chosen.insert(i);
    }
    for (const auto& [size, best] : fastest) chosen.insert(best.second);
    std::vector<RangeKernel> kept;
    for (const std::size_t i : chosen) kept.push_back(std::move(model_.kernels[i]));
    model_.kernels = std::move(kept);
    for (const std::int64_t size : sizes) {
      if (cancelled() || spent(sweep_.refined)) break;
      if (Status timed = time_at(size, untimed_at(size)); !timed) return timed;
    }
    for (const std::int64_t size : sizes) {
      if (cancelled() || spent(1)) break;
      if (Status raced = race_at(size); !raced) return raced;
    }
    return {};
  }

  std::vector<Config> picked_at(std::int64_t size, int codes) const {
    if (!Problem::of(range_.at(size))) return {};
    const BestKey key = evaluator_.key_at(size);
    std::vector<Config> picked = model_.fresh(size, options_.seed, codes, sweep_.more);
    std::erase_if(
        picked, [&](const Config& config) { return !has_envelope(key.gemm, key.device, config); });
    return picked;
  }

  /// Kernels that may be the fastest at a size and were not timed there. What a search timed
  /// stands: it raced, and one of them is the winner.
  std::vector<Config> untimed_at(std::int64_t size) const {
    std::vector<Config> configs;
    if (!Problem::of(range_.at(size))) return configs;
    for (const std::size_t i : model_.promising(size)) {
      const RangeKernel& kernel = model_.kernels[i];
      if (!kernel.ns.contains(size) && std::ranges::find(configs, kernel.config) == configs.end())
        configs.push_back(kernel.config);
    }
    return configs;
  }

  Status time_at(std::int64_t size, const std::vector<Config>& configs) {
    if (configs.empty()) return {};
    return add_all(size, evaluator_.screen(size, configs));
  }

  /// Races the fastest kernels of a size, unless a search did.
  Status race_at(std::int64_t size) {
    if (winners_.contains(size)) return {};
    std::vector<std::pair<double, Config>> fastest;
    for (const RangeKernel& kernel : model_.kernels)
      if (const auto timed = kernel.ns.find(size); timed != kernel.ns.end())
        fastest.emplace_back(timed->second, kernel.config);
    std::ranges::sort(fastest, {}, [](const auto& one) { return one.first; });
    if (fastest.size() > kMostRaced) fastest.resize(kMostRaced);
    while (!fastest.empty() && fastest.back().first > kRaced * fastest.front().first)
      fastest.pop_back();
    if (fastest.size() < 2) return {};
    std::vector<Measured> rows;
    for (const auto& [ns, config] : fastest)
      rows.push_back({.config = config, .outcome = Timing{.median_ns = ns}});
    return add_all(size, evaluator_.race(size, rows));
  }

  Status add_all(std::int64_t size, const Result<std::vector<Measured>>& rows) {
    if (!rows) return tl::unexpected(rows.error());
    report_.measured += static_cast<int>(rows->size());
    const BestKey key = evaluator_.key_at(size);
    for (const Measured& row : *rows) add(key, row.config, size, row.timing().median_ns);
    return {};
  }

  Status store_table() {
    for (;;) {
      const std::vector<RangeChoice> chosen = model_.choose(kMostBinaries);
      RangeTable table;
      std::optional<std::size_t> homeless;
      for (const RangeChoice& cell : chosen) {
        const RangeKernel& kernel = model_.kernels[cell.kernel];
        const auto home = home_of(kernel);
        if (!home) homeless = cell.kernel;
        if (!home) break;
        table.cells.push_back({cell.last, *home, kernel.config, cell.expected_ns});
      }
      if (homeless) {  // its code is nowhere: without it, then
        model_.kernels.erase(model_.kernels.begin() + static_cast<std::ptrdiff_t>(*homeless));
        continue;
      }
      if (table.cells.empty())
        return fail(ErrorCode::not_tuned,
                    fmt::format("{}: no kernel serves its sizes", text(range_)));
      evaluator_.note(
          engine_.store->ranges().put(engine_.key_of(range_.gemm, report_.threads), range_, table));
      tell(table);
      return {};
    }
  }

  /// A size at which this kernel is stored, another one for each kernel of a table.
  std::optional<std::int64_t> home_of(const RangeKernel& kernel) {
    for (const auto& [size, config] : homes_)
      if (config == kernel.config && serves_at(kernel, size)) return size;
    for (const auto& [size, config] : winners_)
      if (config == kernel.config && serves_at(kernel, size) && homes_.emplace(size, config).second)
        return size;
    const RangeEvaluator::Timed* best = nullptr;
    for (const RangeEvaluator::Timed& timed : evaluator_.timed(kernel.config)) {
      if (homes_.contains(timed.size) || !serves_at(kernel, timed.size)) continue;
      if (best == nullptr || timed.row.timing().median_ns * double(best->size) <
                                 best->row.timing().median_ns * double(timed.size))
        best = &timed;
    }
    if (best == nullptr || !evaluator_.store(*best)) return std::nullopt;
    homes_.emplace(best->size, kernel.config);
    return best->size;
  }

  bool serves_at(const RangeKernel& kernel, std::int64_t size) const {
    return model_.serves(kernel, size);
  }

  void tell(const RangeTable& table) {
    for (const RangeCell& cell : table.cells)
      report_.parts.push_back({cell.last, text(cell.config), cell.tuned_at, cell.expected_ns});
    report_.kernels = static_cast<int>(table.kernels());
  }

  static constexpr double kLeastShare = 0.1;

  Engine::Impl& engine_;
  const GemmRange range_;
  const TuneOptions& options_;
  const Sweep sweep_;
  RangeModel model_;
  RangeReport report_;
  RangeEvaluator evaluator_;
  std::map<std::int64_t, Config> winners_;  // stored, by size
  std::map<std::int64_t, Config> homes_;    // of the table's kernels, by size
  std::optional<Error> refused_;            // why the last size without a search has none
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

Result<RangeReport> TuningSession::search_range(const GemmRange& range, int threads,
                                                Compiler& compiler, const TuneOptions& options) {
  return RangeTuning(engine_, range, threads, compiler, options).run();
}

}  // namespace kiln
