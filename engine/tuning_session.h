// tune() of an engine: the search with the store as its memory, now or in the background. One
// search at a time.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "cache/record.h"
#include "cache/rows/range_table.h"
#include "engine/admission.h"
#include "engine/background_queue.h"
#include "engine/code_cache.h"
#include "kiln/engine.hpp"
#include "runtime/compiler.h"
#include "tuner/search/budget.h"
#include "tuner/search/search.h"

namespace kiln {

/// Where tune() gets its outcomes from; tests replace it.
using EvaluatorMaker =
    std::function<Result<std::unique_ptr<Evaluator>>(const SearchInput& input, Compiler& compiler)>;

class KILN_LOCAL TuningSession {
 public:
  explicit TuningSession(Engine::Impl& engine) : engine_(engine) {}

  EvaluatorMaker make_evaluator = worker_evaluator;
  Budget::Clock clock = now_ns;  // of tune()'s budget; tests replace it

  /// tune() for callers. Throws CallbackThrew when a callback throws. Errors: as tune(), and
  /// bad_input when it is called from a callback of its own.
  Result<TuneReport> tune_and_confirm(const Gemm& gemm, const TuneOptions& options);
  /// The same of a range.
  Result<RangeReport> tune_and_confirm(const GemmRange& range, const TuneOptions& options);
  /// In the background thread. Logs what it would report.
  void tune_queued(const BackgroundQueue::Job& job);
  /// Logs the warnings of a report that no caller gets.
  void warn_of(const TuneReport& report);

  /// One problem of a range that is being tuned: searches share a worker, and configs that serve
  /// one size alone are left out.
  Result<TuneReport> tune_of_range(const Gemm& gemm, const TuneOptions& options,
                                   const std::shared_ptr<IdleWorker>& worker) {
    return tune_locked(gemm, options, worker);
  }
  std::optional<RangeRecord> stored_range(const GemmRange& range, int threads);
  /// A search takes code from the database and from earlier searches, and leaves there what it
  /// compiled.
  void share_code(SearchInput& input, const Compiler& compiler);
  /// The peak of a key's threads and type (TuneReport::peak_flops), raised to what a probe or a
  /// kernel reached just now. A kernel alone makes none.
  double raised_peak(const BestKey& key, double probed, double kernel);

  /// While it is held no search begins.
  std::mutex& searching() { return searching_; }
  /// In a forked child. A search may have been going on, and holds the lock for long: fork() does
  /// not wait for it.
  void begin_in_child() { new (&searching_) std::mutex; }

 private:
  Result<TuneReport> tune(const Gemm& gemm, const TuneOptions& options);
  /// The same where the lock is held. `of_range`: see tune_of_range().
  Result<TuneReport> tune_locked(const Gemm& gemm, const TuneOptions& options,
                                 const std::shared_ptr<IdleWorker>& of_range = nullptr);
  Result<RangeReport> tune_range(const GemmRange& range, const TuneOptions& options);
  /// range_tuning.cpp: what tune_range() does where no table is stored. The lock is held.
  Result<RangeReport> search_range(const GemmRange& range, int threads, Compiler& compiler,
                                   const TuneOptions& options);
  Result<TuneReport> search_and_store(const Gemm& gemm, const BestKey& key, Compiler& compiler,
                                      const TuneOptions& options,
                                      const std::shared_ptr<IdleWorker>& of_range,
                                      const std::shared_ptr<Budget>& time);
  /// `prove_envelope` where the record lacks that and `time` allows it. Errors: as that, and device
  /// (the time was over).
  Status prove_in_time(const Record& record, std::span<const std::byte> image, const Budget& time);
  Result<Built> code_of(const BestKey& key, const Config& config, const Artifact* artifact,
                        const std::string& compiler);
  /// Looks the winner up and fills in `stored`; a warning says so when it is not there.
  void confirm_stored(TuneReport& report);

  Engine::Impl& engine_;
  std::mutex searching_;
  CodeCache code_cache_;
};

/// Errors: bad_input.
Status check_budget(const TuneOptions& options);

}  // namespace kiln
