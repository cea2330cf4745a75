// The search: constraint solve → analytic rank → best first plus off-model exploration, within a
// time budget, seeded, resumable and replayable. Knows no database: rows come in and go out as
// values.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tuner/measured.h"
#include "tuner/verify/verify.h"

namespace kiln {

struct SearchResult {
  /// Why no more candidates were asked for.
  enum class End : std::uint8_t { budget, candidates, space, cancelled, evaluator };
  /// In the order they were decided, known rows first. A finalist appears twice: as it was screened
  /// and, with Round::race, as it was raced.
  std::vector<Measured> measured;
  std::size_t known = 0;              // the first so many rows are SearchInput::known
  std::optional<std::size_t> winner;  // index into measured; verified, raced. None: cancelled
  std::int64_t enumerated = 0;
  // Distinct points of the space in `measured`, known ones included, by their newest row.
  std::int64_t timed = 0, failed = 0;
  std::map<std::string, std::int64_t> rejected;
  double seconds = 0;
  End end = End::evaluator;
};

/// What a evaluator made of a config on the way to its outcome.
struct Artifact {
  Source source;
  std::shared_ptr<const Binary> binary;  // shared by configs with the same code; null: none
};

/// Where outcomes come from. The real one compiles and runs candidates in the worker; a replayed
/// one answers from recorded rows and runs nothing.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  /// Compiles (in parallel), verifies and screens a group of candidates; one Measured for each, in
  /// order, or fewer when time ran out: the rest were not begun.
  virtual std::vector<Measured> screen(const std::vector<Config>& group) = 0;
  /// Races finalists interleaved; returns their refined rows.
  virtual std::vector<Measured> race(const std::vector<Measured>& finalists) = 0;
  /// Before `config` is installed: whether what its code leaves in D is right when this process
  /// compares it, whatever a worker said of it. Right where the evaluator runs nothing.
  virtual Verdict confirm(const Config&) { return {}; }
  /// True when no further candidate can be measured: the search continues with the race.
  virtual bool exhausted() const { return false; }
  /// Gives up what it holds of memory until it is asked again. The device stays its own.
  virtual void rest() {}
  /// Conditions of the last race, as text; empty where they are not known.
  virtual std::string conditions() const { return {}; }
  /// Operations a second of the probe that ran beside the samples, its largest; 0: none ran, or
  /// the problem's type has none.
  virtual double peak_flops() const { return 0; }
  /// Valid as long as the evaluator; null when it made none.
  virtual const Artifact* artifact(const Config&) const { return nullptr; }
};

struct IdleWorker;
class Budget;

struct SearchInput {
  Gemm gemm;
  DeviceCaps device;
  TuneOptions options;
  Determinism determinism = Determinism::run_to_run;  // which configs the space has
  int device_index = 0;                               // which of the GPUs, in the driver's order
  std::vector<Measured> known;       // earlier rows of this key: resumed, not rerun
  std::optional<Config> incumbent;   // yields only to a supported gain ≥ 2 %
  std::optional<Config> guest = {};  // races, as any finalist: the winner of another policy
  std::vector<Config> first = {};    // tried before anything else, best first
  bool race_alone = false;           // the incumbent beside the library; nothing else is tried
  /// Which configs are searched; null: all that are legal.
  std::function<bool(const Config&)> allowed = nullptr;
  std::function<void(const Evidence&)> sink;  // called as each group's outcomes are known
  /// What is spent of options.budget, which the evaluator and the search ask; null: each counts
  /// from its own begin.
  std::shared_ptr<Budget> time = nullptr;
  /// Searches of several problems, one after the other, share their worker through this; null: each
  /// starts its own.
  std::shared_ptr<IdleWorker> worker = nullptr;
  /// Code that was compiled before, by this compiler; null: none is kept. Thread-safe.
  std::function<std::optional<Binary>(const Source&)> stored = {};
  /// Is given what was compiled for this search; null: nobody wants it. Thread-safe.
  std::function<void(const Source&, const Binary&)> compiled = {};
};

/// The same input and the same outcomes give the same decisions: time decides only when to stop.
/// Errors: bad_input, unsupported (empty space); when no candidate came through, compiler,
/// verification or device, by what most of them failed of.
Result<SearchResult> search(const SearchInput& input, Evaluator& evaluator);

/// The real evaluator: candidates run in a killable worker process; its time starts now. Waits for
/// the device's tuning lock. Errors: device (no worker found, the lock's holder did not let go).
Result<std::unique_ptr<Evaluator>> worker_evaluator(const SearchInput& input, Compiler& compiler);

/// Answers from rows; a config without a row is a `timed_out` failure with detail "not recorded".
/// Exhausted once every row has been asked for.
std::unique_ptr<Evaluator> replay_bench(std::vector<Measured> rows);

}  // namespace kiln
