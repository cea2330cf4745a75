// tune() of a range: searches at a few sizes, times what won there at more, and stores a table from
// size to kernel.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "engine/engine_impl.h"
#include "engine/ranges.h"
#include "generator/problem/size.h"
#include "generator/render/code_key.h"
#include "generator/space/summation.h"
#include "runtime/log.h"
#include "tuner/search/range_choice.h"
#include "tuner/verify/envelope.h"
#include "tuner/worker/process.h"

namespace kiln {
namespace {

/// Of the budget, for searches; what is left is for timing their winners at other sizes.
constexpr double kSearchShare = 0.7;
constexpr std::size_t kMostKernels = 16;
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
        compiler_(compiler),
        options_(options),
        model_(range, engine.key_of(range.gemm, threads).device, engine.options.determinism) {
    report_.range = range;
    report_.threads = threads;
    made_by_ = engine.now;
    made_by_.compiler = compiler.version();
  }

  Result<RangeReport> run() {
    const std::vector<std::int64_t> sizes = searched_sizes(range_, engine_.gpu == nullptr);
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (Status searched = search_at(sizes[i], sizes.size() - i); !searched)
        return tl::unexpected(searched.error());
    if (model_.kernels.empty())
      return fail(ErrorCode::not_tuned,
                  fmt::format("{}: no winner has its sizes as arguments: tune its sizes one by one",
                              text(range_)));
    for (const std::int64_t size : model_.timed_sizes(sizes))
      if (Status timed = time_at(size); !timed) return tl::unexpected(timed.error());
    if (cancelled())
      return fail(ErrorCode::not_tuned, fmt::format("{}: cancelled before its table was made; the "
                                                    "winners of {} sizes are stored",
                                                    text(range_), report_.searched));
    if (Status stored = store_table(); !stored) return tl::unexpected(stored.error());
    report_.seconds = seconds();
    return std::move(report_);
  }

 private:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  bool cancelled() const {
    return engine_.closing.load() || (options_.cancelled && options_.cancelled());
  }
  BestKey key_at(std::int64_t size) const {
    return engine_.key_of(range_.at(size), report_.threads);
  }
  void note(const std::string& warning) {
    if (std::ranges::find(report_.warnings, warning) == report_.warnings.end())
      report_.warnings.push_back(warning);
  }
  void note(const Status& status) {
    if (!status) note(status.error().message);
  }

  /// A search as by tune() of this size alone, with its share of what time is left.
  Status search_at(std::int64_t size, std::size_t searches_left) {
    if (cancelled() || !validate(range_.at(size))) return {};
    TuneOptions options = options_;
    const double left = kSearchShare * options_.budget.count() - seconds();
    options.budget = std::chrono::duration<double>(
        std::max(kLeastShare * options_.budget.count(), left) / double(searches_left));
    auto report = engine_.tune_locked(range_.at(size), options, worker_);
    // A size that no kernel serves (not a multiple of what the types need) is no part of the table.
    if (!report && report.error().code == ErrorCode::unsupported) return {};
    if (!report) return tl::unexpected(report.error());
    ++report_.searched;
    report_.measured += report->measured;
    for (const std::string& warning : report->warnings) note(warning);
    const BestKey key = key_at(size);
    const AllowedSummation order(key.gemm, key.device, key.determinism);
    const auto serves = [&](const Config& config) {
      return has_envelope(key.gemm, key.device, config) && order.allows(config);
    };
    if (const auto record = engine_.best(key, made_by_);
        record && serves(record->measured.config)) {
      winners_.emplace(size, record->measured.config);
      add(key, record->measured.config, size, record->measured.timing().median_ns);
    }
    std::vector<Measured> near;
    for (const Measured& row : engine_.store->known(key, made_by_))
      if (row.ok() && row.verified && row.round != Round::screen &&
          !std::holds_alternative<CudaLibrary>(row.config) && serves(row.config))
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
    const Canonical problem = canonicalise(key.gemm);
    if (!broken_rule(problem, key.device, config).empty() ||
        !has_envelope(key.gemm, key.device, config))
      return;
    const CodeClass code = code_class(problem, key.device, config);
    for (RangeKernel& kernel : model_.kernels)
      if (kernel.config == config && kernel.code == code) {
        kernel.ns[size] = ns;
        return;
      }
    model_.kernels.push_back({config, code, {{size, ns}}});
  }

  /// Times the kernels that may be the fastest at a size; each outcome is stored as evidence.
  Status time_at(std::int64_t size) {
    if (cancelled() || seconds() > options_.budget.count()) return {};
    if (!validate(range_.at(size))) return {};  // its pitches are less aligned than the range says
    std::vector<Config> configs;
    for (const std::size_t i : model_.promising(size)) {
      const RangeKernel& kernel = model_.kernels[i];
      // What a search timed there stands: it raced, and one of them is the winner.
      if (!kernel.ns.contains(size) && std::ranges::find(configs, kernel.config) == configs.end())
        configs.push_back(kernel.config);
    }
    if (configs.empty()) return {};
    const BestKey key = key_at(size);
    SearchInput input{.gemm = key.gemm, .device = key.device, .options = options_};
    input.options.threads = key.device.compute_units;
    input.options.cancelled = [this] { return cancelled(); };
    input.device_index = engine_.gpu ? engine_.gpu->ordinal() : 0;
    input.worker = worker_;
    input.stored = [this](const Source& source) { return stored_code(source); };
    auto bench = engine_.make_bench(input, compiler_);
    if (!bench) return tl::unexpected(bench.error());
    for (Measured& row : (*bench)->screen(configs)) {
      row.predicted_ns = predict_ns(canonicalise(key.gemm), key.device, row.config);
      note(engine_.store->put(key, made_by_, row));
      if (!row.ok()) continue;
      add(key, row.config, size, row.timing().median_ns);
      if (const Artifact* made = (*bench)->artifact(row.config); made && made->binary)
        keep(size, row, *made);
    }
    return {};
  }

  /// Code of this process's compiler, or of the store's.
  std::optional<Binary> stored_code(const Source& source) {
    {
      const std::lock_guard lock(keeping_);
      if (const auto kept = code_.find(code_key(source)); kept != code_.end())
        return Binary{.image = kept->second.image};
    }
    return engine_.stored_binary(source, compiler_.version());
  }

  /// What it takes to make this kernel the winner of this size.
  void keep(std::int64_t size, const Measured& row, const Artifact& made) {
    const std::lock_guard lock(keeping_);
    const auto [code, fresh] = code_.try_emplace(code_key(made.source));
    if (fresh)
      code->second = {.key = row.binary_key,
                      .code_key = code->first,
                      .compiler = compiler_.version(),
                      .source = made.source.text,
                      .image = made.binary->image};
    if (row.verified) timed_[row.config].push_back({size, row, code->first});
  }

  Status store_table() {
    for (;;) {
      const std::vector<RangeChoice> chosen = model_.choose(kMostKernels);
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
      note(engine_.store->put_range(engine_.key_of(range_.gemm, report_.threads), range_, table));
      tell(table);
      return {};
    }
  }

  /// The size whose stored winner this kernel is. One that won nowhere becomes the winner of a size
  /// that has none.
  std::optional<std::int64_t> home_of(const RangeKernel& kernel) {
    for (const auto& [size, config] : winners_)
      if (config == kernel.config && serves_at(kernel, size)) return size;
    const Timed* best = nullptr;
    for (const Timed& timed : timed_[kernel.config]) {
      if (winners_.contains(timed.size) || !serves_at(kernel, timed.size)) continue;
      if (engine_.best(key_at(timed.size), made_by_)) continue;
      if (best == nullptr || timed.row.timing().median_ns * double(best->size) <
                                 best->row.timing().median_ns * double(timed.size))
        best = &timed;
    }
    if (best == nullptr || !make_winner(*best)) return std::nullopt;
    winners_.emplace(best->size, kernel.config);
    return best->size;
  }

  bool serves_at(const RangeKernel& kernel, std::int64_t size) const {
    return model_.serves(kernel, size);
  }

  struct Timed {
    std::int64_t size = 0;
    Measured row;
    std::string code;  // in code_
  };

  bool make_winner(const Timed& timed) {
    const BestKey key = key_at(timed.size);
    const StoredBinary& code = code_.at(timed.code);
    Measured stored = timed.row;
    stored.binary_key = code.key;
    const Record made{.key = key, .validators = made_by_, .measured = stored};
    if (!engine_.store->code_proven(made))
      if (const Status proof = engine_.prove_envelope(made, code.image); !proof) {
        note(proof);
        return false;
      }
    const SearchExtent none{.budget_seconds = options_.budget.count()};
    for (const Status& written :
         {engine_.store->put_binary(code), engine_.store->put(key, made_by_, stored),
          engine_.store->put_search(key, made_by_, none),
          engine_.store->make_winner(key, made_by_, stored.config)})
      if (!written) {
        note(written);
        return false;
      }
    return true;
  }

  void tell(const RangeTable& table) {
    for (const RangeCell& cell : table.cells)
      report_.parts.push_back({cell.last, text(cell.config), cell.tuned_at, cell.expected_ns});
    report_.kernels = static_cast<int>(table.kernels());
  }

  static constexpr double kLeastShare = 0.1;

  Engine::Impl& engine_;
  const GemmRange range_;
  Compiler& compiler_;
  const TuneOptions& options_;
  RangeModel model_;
  RangeReport report_;
  Validators made_by_;
  std::map<std::int64_t, Config> winners_;  // stored, by size
  std::map<Config, std::vector<Timed>> timed_;
  const std::shared_ptr<IdleWorker> worker_ = std::make_shared<IdleWorker>();
  std::mutex keeping_;
  std::map<std::string, StoredBinary> code_;  // by code_key; under keeping_
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

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

GemmRange Engine::Impl::spelt(const GemmRange& range) const {
  GemmRange copy = range;
  if (!gpu || range.gemm.alignment != 1 || !validate(range)) return copy;
  copy.gemm.alignment = natural_alignment(range.gemm);
  if (!sets_pitch(range.gemm, range.size)) return copy;
  // Alignment differs from size to size, with a period of a few: the best that occurs, from the
  // first size that has it to the last.
  constexpr std::int64_t kPeriod = 32;
  const auto alignment = [&](std::int64_t size) { return natural_alignment(range.at(size)); };
  int best = 0;
  for (std::int64_t i = range.first; i <= std::min(range.last(), range.first + kPeriod); ++i)
    if (alignment(i) > best) best = alignment(i), copy.first = i;
  std::int64_t last = range.last();
  while (alignment(last) < best) --last;
  copy.gemm = range.at(last);
  copy.gemm.alignment = best;
  return copy;
}

std::optional<RangeRecord> Engine::Impl::stored_range(const GemmRange& range, int threads) {
  for (RangeRecord& record : store->ranges_like(key_of(range.gemm, threads), range.size))
    if (record.range.first == range.first && record.range.last() == range.last())
      return std::move(record);
  return std::nullopt;
}

Result<RangeReport> Engine::Impl::tune_range(const GemmRange& range, const TuneOptions& options) {
  if (Status ok = validate(range); !ok) return tl::unexpected(ok.error());
  if (Status ok = check_budget(options); !ok) return tl::unexpected(ok.error());
  const auto threads = threads_of(options.threads);
  if (!threads) return tl::unexpected(threads.error());
  const std::lock_guard lock(tuning);
  if (!options.force)
    if (const auto record = stored_range(range, *threads)) {
      RangeReport report = report_of(*record, *threads);
      report.stored = true;
      return report;
    }
  const auto compiler = this->compiler();
  if (!compiler) return tl::unexpected(compiler.error());
  TuneOptions each = options;
  each.threads = *threads;
  // A table names winners of the database: without one that can be written there is none.
  if (Status written = store->begin_session(
          {.command = "tune", .seed = options.seed, .budget_seconds = options.budget.count()});
      !written)
    return tl::unexpected(written.error());
  auto report = RangeTuning(*this, range, *threads, **compiler, each).run();
  if (!report) return report;
  const Status lasting = store->lasting();
  report->stored = lasting && stored_range(range, *threads).has_value();
  if (!report->stored)
    report->warnings.insert(report->warnings.begin(),
                            fmt::format("not stored: the table of {} in {}: later processes know "
                                        "nothing of it",
                                        text(range), store->path().string()));
  install_range(range, *threads);
  return report;
}

void Engine::Impl::install_range(const GemmRange& range, int threads) {
  const std::lock_guard lock(resolving);
  tuned_ranges.forget();
  stored_kernels.forget();
  for (const SharedPlan& plan : plans.all()) {
    const std::int64_t size = plan->gemm.*member_of(range.size);
    if (plan->threads != threads || plan->match == Match::exact || size < range.first ||
        size > range.last() ||
        without_size(plan->gemm, range.size) != without_size(range.gemm, range.size))
      continue;
    if (auto better = range_plan(plan->gemm, threads)) plans.put(*better);
  }
}

Result<RangeReport> stored_range(Engine& engine, const GemmRange& range, int threads) {
  return shielded([&]() -> Result<RangeReport> {
    Engine::Impl& impl = engine.impl();
    if (Status ok = validate(range); !ok) return tl::unexpected(ok.error());
    const auto count = impl.threads_of(threads);
    if (!count) return tl::unexpected(count.error());
    const GemmRange spelt = impl.spelt(range);
    const auto record = impl.stored_range(spelt, *count);
    if (!record)
      return fail(ErrorCode::not_tuned,
                  fmt::format("{} on {} threads was never tuned as a range", text(range), *count));
    RangeReport report = report_of(*record, *count);
    report.stored = true;
    return report;
  });
}

}  // namespace kiln
