// Measures configs at sizes of a range, and keeps the code of those that came through. Not for
// other folders.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine_impl.h"

namespace kiln {

class KILN_LOCAL RangeEvaluator {
 public:
  /// A kernel that was verified at a size.
  struct Timed {
    std::int64_t size = 0;
    Measured row;
    std::string code;  // by which store() finds its code
  };

  /// All of them must outlive it. Warnings are added to `warnings`, each once.
  RangeEvaluator(Engine::Impl& engine, const GemmRange& range, int threads, Compiler& compiler,
                 const TuneOptions& options, std::vector<std::string>& warnings);

  BestKey key_at(std::int64_t size) const;
  bool cancelled() const;
  void note(const std::string& warning);
  void note(const Status& status);
  const Validators& made_by() const { return made_by_; }
  /// For searches at single sizes.
  const std::shared_ptr<IdleWorker>& worker() const { return worker_; }

  /// On all cores, into the engine's cache: sizes and configs. What does not compile says so when
  /// it is timed.
  void compile_ahead(const std::vector<std::pair<std::int64_t, Config>>& wanted);
  /// The rows of configs that ran at a size; each outcome is stored as evidence.
  Result<std::vector<Measured>> screen(std::int64_t size, const std::vector<Config>& configs);
  /// The same of an interleaved race.
  Result<std::vector<Measured>> race(std::int64_t size, const std::vector<Measured>& finalists);
  /// Gives the device and the worker's memory back until it is asked again.
  void rest() { evaluator_.reset(); }

  /// Where a config was verified.
  const std::vector<Timed>& timed(const Config& config) { return timed_[config]; }
  /// Its code, proved, and what was measured. False, with a warning, where it cannot be stored.
  bool store(const Timed& timed);

 private:
  Result<Evaluator*> evaluator_at(std::int64_t size);
  std::vector<Measured> take(std::int64_t size, std::vector<Measured> rows);
  void keep(std::int64_t size, const Measured& row, const Artifact& made);

  Engine::Impl& engine_;
  const GemmRange& range_;
  const int threads_;
  Compiler& compiler_;
  const TuneOptions& options_;
  std::vector<std::string>& warnings_;
  Validators made_by_;
  std::map<Config, std::vector<Timed>> timed_;
  std::map<std::string, StoredBinary> code_;  // by code_key
  const std::shared_ptr<IdleWorker> worker_;
  std::unique_ptr<Evaluator> evaluator_;  // of the last size
  std::int64_t bench_size_ = 0;
};

}  // namespace kiln
