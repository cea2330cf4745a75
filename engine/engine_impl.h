// The engine as its parts see it: what it is for, then its objects, each with one duty and at most
// one lock. Not for other folders.
#pragma once

#include <cxxabi.h>

#include <memory>
#include <optional>
#include <string>

#include "cache/record.h"
#include "cache/store.h"
#include "engine/admission.h"
#include "engine/background_queue.h"
#include "engine/callbacks.h"
#include "engine/recorder.h"
#include "engine/resolver.h"
#include "engine/target.h"
#include "engine/tuning_session.h"
#include "engine/warnings.h"
#include "kiln/engine.hpp"
#include "runtime/no_cancel.h"
#include "runtime/quiet_lock.h"

namespace kiln {

struct Explanation;

struct KILN_LOCAL Engine::Impl : Target {
  std::unique_ptr<Store> store;
  Validators now;  // compiler left empty: lookups load none
  Warnings warn;
  Recorder recorder{*this};
  Admission admission{{.backend = backend,
                       .gpu = gpu,
                       .gpu_shared = gpu_shared,
                       .store = store,
                       .now = now,
                       .warn = warn}};
  Resolver resolver{*this};
  TuningSession tuning{*this};
  BackgroundQueue background{[this](const BackgroundQueue::Job& job) { tuning.tune_queued(job); }};

  ~Impl();
  /// From now on it is told of forks (begin_in_child).
  void live();
  /// In a forked child, whose one thread this is: all of the engine but its threads and searches is
  /// as it was.
  void begin_in_child();
  /// Stops background tuning, and writes what was recorded.
  void close();

  /// gemm() of a problem with its defaults. The warm path.
  Status run(const Gemm& gemm, const Operands& operands);
  /// The stored winner, where the engine's class of determinism allows its config today.
  std::optional<Record> best(const BestKey& key, const Validators& with);
  /// The winner of this very problem, whose key may be that of with_alignment_of_pitches(): of a
  /// race under load, else of a cool one.
  std::optional<Record> exact_record(const Gemm& gemm, int threads) {
    return exact_record(gemm, threads, policies());
  }
  /// The same of these policies, the first one first.
  std::optional<Record> exact_record(const Gemm& gemm, int threads,
                                     std::span<const TuningPolicy> asked);
  Result<PackedB> pack_b(const Gemm& gemm, const void* b, int threads);

  // explain.cpp
  Result<Explanation> explanation(const Gemm& gemm, int threads);
  Result<std::string> explain(const Gemm& gemm, int threads);
  Result<std::string> source(const Gemm& gemm, int threads);
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
