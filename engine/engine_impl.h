// What the Engine's source files share: memory, then database, then policy. Not for other folders.
#pragma once

#include <cxxabi.h>

#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>

#include "cache/record.h"
#include "cache/rows/range_table.h"
#include "cache/store.h"
#include "engine/admission.h"
#include "engine/background_queue.h"
#include "engine/code_cache.h"
#include "engine/outlook.h"
#include "engine/plan_source.h"
#include "engine/plan_table.h"
#include "engine/stored_kernels.h"
#include "engine/tuned_ranges.h"
#include "engine/unsettled.h"
#include "engine/warnings.h"
#include "kiln/engine.hpp"
#include "runtime/backend.h"
#include "runtime/compiler.h"
#include "runtime/cpu/affinity.h"
#include "runtime/cpu/float_mode.h"
#include "runtime/no_cancel.h"
#include "runtime/quiet_lock.h"
#include "tuner/search/budget.h"
#include "tuner/search/search.h"

namespace kiln {

struct Explanation;

/// Where tune() gets its outcomes from; tests replace it.
using BenchMaker =
    std::function<Result<std::unique_ptr<Bench>>(const SearchInput& input, Compiler& compiler)>;

struct KILN_LOCAL Engine::Impl {
  OpenOptions options;
  Backend backend;
  gpu::SharedDevice gpu;                     // null: the CPU
  std::shared_ptr<GpuResources> gpu_shared;  // of all plans; null: the CPU
  DeviceCaps device;      // with every core this process may use; calls set compute_units
  int named_threads = 0;  // of the options, or all of a GPU; 0: usable_threads()
  std::unique_ptr<Store> store;
  Validators now;                          // compiler left empty: lookups load none
  std::shared_ptr<CallRecorder> recorder;  // null: calls are not recorded
  PlanTable plans;
  BenchMaker make_bench = worker_bench;
  Budget::Clock clock = now_ns;  // of tune()'s budget; tests replace it

  std::mutex resolving;          // one miss is worked out at a time
  StoredKernels stored_kernels;  // under `resolving`
  TunedRanges tuned_ranges;      // likewise
  Unsettled unsettled;           // likewise
  PlanSources sources{*this};    // likewise
  std::mutex tuning;             // and one search
  CodeCache code_cache;          // of this process's searches
  std::set<std::string> told;    // untuned shapes already reported; under `resolving`
  Warnings warn;
  Admission admission{{.backend = backend,
                       .gpu = gpu,
                       .gpu_shared = gpu_shared,
                       .store = store,
                       .now = now,
                       .warn = warn}};
  BackgroundQueue background{[this](const BackgroundQueue::Job& job) { tune_queued(job); }};

  ~Impl();
  /// From now on it is told of forks (begin_in_child).
  void live();
  /// In a forked child, whose one thread this is: all of the engine but its threads and searches is
  /// as it was.
  void begin_in_child();
  /// Stops background tuning, and writes what was recorded.
  void close();

  /// Threads of a call that names none: may change while the process runs.
  int default_threads() const { return named_threads != 0 ? named_threads : usable_threads(); }
  /// `threads` as a call gave it, 0 resolved. Errors: bad_input.
  Result<int> threads_of(int threads) const;
  /// The problem as its plans and records spell it: on a GPU one that promises no alignment has the
  /// usual one.
  Gemm spelt(const Gemm& gemm) const;
  /// The same with the alignment of a call's addresses.
  Gemm spelt(const Gemm& gemm, const Operands& operands) const;
  /// gemm() of a problem in that form. The warm path.
  Status run(const Gemm& gemm, const Operands& operands);
  BestKey key_of(const Gemm& gemm, int threads) const;
  /// The stored winner, where the engine's class of determinism allows its config today.
  std::optional<Record> best(const BestKey& key, const Validators& with);
  /// The winner of this very problem, whose key may be that of with_alignment_of_pitches().
  std::optional<Record> exact_record(const Gemm& gemm, int threads);

  // recording.cpp
  /// Opens the file that the options or $KILN_RECORD name. Errors: database, where the options do.
  Status open_recorder();
  /// Where calls of the problem are counted; null: they are not.
  CallCounter* counter_of(const Gemm& gemm, int threads) const;
  /// bare_plan(), recorded where calls are. A plan of a config is to get its `expected_ns`, too.
  std::shared_ptr<Plan::Impl> new_plan(const Gemm& gemm, int threads) const;
  /// What a call is expected to take: the stored time of a tuned problem, else what the model
  /// predicts, as fitted to measurements where it is. Under `resolving`.
  double expected_ns(const Gemm& gemm, int threads, Match match, const Config& config);
  /// Median of measured over predicted time of all problems tuned on this device, on any number of
  /// threads; nothing where none is.
  std::optional<double> model_error();
  /// See engine/outlook.h.
  Result<Outlook> outlook(const Gemm& gemm, int threads, double called_ns);

  // resolve.cpp: from a problem to a plan.
  /// `as`: the problem as the code was made for it, where it promises less (of alignment) than
  /// `gemm` does; null: `gemm` itself.
  /// `made_for`: the class of CPUs that the code was made for; empty: this device.
  Result<SharedPlan> bound_plan(const Gemm& gemm, int threads, Match match, const Config& config,
                                std::string reason, KernelCode code, const Gemm* as = nullptr,
                                std::string_view made_for = {});
  Result<SharedPlan> plan_for(const Gemm& gemm, int threads);
  Result<PackedB> pack_b(const Gemm& gemm, const void* b, int threads);
  Result<SharedPlan> resolve(const Gemm& gemm, int threads);
  void tell_untuned(const Plan::Impl& plan);
  /// Remembers the plan of a miss: for good, or, where the machine refused, until it is asked
  /// again. Under `resolving`.
  void keep(const SharedPlan& plan);

  // tune_call.cpp
  /// tune() for callers. Throws CallbackThrew when a callback throws. Errors: as tune(), and
  /// bad_input when it is called from a callback of its own.
  Result<TuneReport> tune_and_confirm(const Gemm& gemm, const TuneOptions& options);
  /// The same of a range.
  Result<RangeReport> tune_and_confirm(const GemmRange& range, const TuneOptions& options);
  /// Looks the winner up and fills in `stored`; a warning says so when it is not there.
  void confirm_stored(TuneReport& report);
  /// Logs the warnings of a report that no caller gets.
  void warn_of(const TuneReport& report);
  /// Calls on_untuned, or logs. What the callback throws is logged once.
  void say_untuned(const std::string& message);

  // tuning.cpp
  Result<TuneReport> tune(const Gemm& gemm, const TuneOptions& options);
  /// The same where `tuning` is held. `of_range`: the problem is one of a range, whose searches
  /// share a worker; configs that serve one size alone are left out.
  Result<TuneReport> tune_locked(const Gemm& gemm, const TuneOptions& options,
                                 const std::shared_ptr<IdleWorker>& of_range = nullptr);
  Result<TuneReport> search_and_store(const Gemm& gemm, const BestKey& key, Compiler& compiler,
                                      const TuneOptions& options,
                                      const std::shared_ptr<IdleWorker>& of_range,
                                      const std::shared_ptr<Budget>& time);
  /// `prove_envelope` where the record lacks that and `time` allows it. Errors: as that, and device
  /// (the time was over).
  Status prove_in_time(const Record& record, std::span<const std::byte> image, const Budget& time);
  /// Configs of stored kernels that have this problem's code: nothing need be compiled for them.
  std::vector<Config> stored_configs(const BestKey& key);
  /// A search takes code from the database and from `code_cache`, and leaves there what it
  /// compiled.
  void share_code(SearchInput& input, const Compiler& compiler);
  Result<Built> code_of(const BestKey& key, const Config& config, const Artifact* artifact,
                        const std::string& compiler);
  /// In the background thread. Logs what it would report.
  void tune_queued(const BackgroundQueue::Job& job);
  /// Plans of this problem, however it was spelt, take the winner's kernel; the caller's spelling
  /// gets one at least. Works when the database could not be written, too.
  void install(const Gemm& gemm, const BestKey& key, const Config& config,
               const std::string& reason, const KernelCode& code);

  // range_records.cpp
  /// As its problems are.
  GemmRange spelt(const GemmRange& range) const;
  Result<RangeReport> tune_range(const GemmRange& range, const TuneOptions& options);
  std::optional<RangeRecord> stored_range(const GemmRange& range, int threads);
  /// range_plan.cpp: loads the kernels that tables name for sizes of the range. The most bytes of
  /// workspace that any of these sizes needs.
  std::int64_t prepare_range(const GemmRange& range, int threads);
  /// range_tuning.cpp: what tune_range() does where no table is stored. `tuning` is held.
  Result<RangeReport> search_range(const GemmRange& range, int threads, Compiler& compiler,
                                   const TuneOptions& options);
  /// Plans of its sizes that were made before take its kernels.
  void install_range(const GemmRange& range, int threads);

  // peak.cpp: the peak of a key's threads and type (TuneReport::peak_flops), raised to what a probe
  // or a kernel reached just now. A kernel alone makes none.
  double raised_peak(const BestKey& key, double probed, double kernel);

  // explain.cpp
  Result<Explanation> explanation(const Gemm& gemm, int threads);
  Result<std::string> explain(const Gemm& gemm, int threads);
  Result<std::string> source(const Gemm& gemm, int threads);
};

/// Errors: bad_input.
Status check_budget(const TuneOptions& options);

/// What a callback of the caller's threw, in a sentence that names the callback.
struct CallbackThrew : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Runs `body`; what a callback or a library below throws becomes an Error, and a cancellation of
/// the thread waits until it returns. Nothing throws across the public API.
template <typename F>
auto shielded(F&& body) -> decltype(body()) {
  const NoCancel whole;
  try {
    return body();
  } catch (const CallbackThrew& e) {
    return fail(ErrorCode::bad_input, e.what());
  } catch (const std::exception& e) {
    return fail(ErrorCode::internal, std::string("unexpected exception: ") + e.what());
  } catch (const abi::__forced_unwind&) {
    throw;  // a callback called pthread_exit(): the thread ends, and nothing can stop that
  } catch (...) {
    return fail(ErrorCode::internal, "unexpected exception, no std::exception");
  }
}

/// "kiln 0.1.0, glibc 2.36, linux 6.1": the performance tier of validators.
std::string runtime_version();

}  // namespace kiln
