/// @file
/// Options of the Engine and of tuning, and what tuning reports.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kiln/gemm.hpp"
#include "kiln/range.hpp"

namespace kiln {

/// What `gemm()` does when the exact problem was never tuned.
enum class Policy : std::uint8_t {
  use_best_known,      ///< run the best kernel known without tuning (default)
  tune_now,            ///< tune in the call, then run
  tune_in_background,  ///< run the best known kernel, tune on another thread
  error                ///< return not_tuned
};

/// Which kernels may be chosen, by the bits they give.
enum class Determinism : std::uint8_t {
  run_to_run,  ///< the same bits from the same call on the same device, every time (default)
  any,         ///< kernels whose order of summation may vary are allowed too
  /// As run_to_run, and a row of D has the same bits whatever m is and wherever the row stands, for
  /// the same types, layouts, n, k, batch, epilogue, device and number of threads. All kernels of a
  /// problem sum in one order then, which costs some of the speed.
  batch_invariant
};

/// How Engine::open() opens.
struct OpenOptions {
  std::string device = "cpu";  ///< "cpu"; "cuda:N", "hip:N": the N-th GPU
  /// The user's own database; empty: $KILN_DB, else $XDG_CACHE_HOME/kiln/kiln.db (~/.cache).
  /// ":memory:": a private one that ends with the Engine; it leaves no file.
  std::filesystem::path database = {};
  /// Shipped read-only databases, first wins; empty: $KILN_DB_PATH (colon-separated), else those
  /// that were installed with kiln.
  std::vector<std::filesystem::path> shipped = {};
  Policy policy = Policy::use_best_known;             ///< on a miss
  Determinism determinism = Determinism::run_to_run;  ///< of the kernels chosen
  /// Compute threads of a call that names none; 0 = every core this process may use, and no more
  /// than the CPU quota of its control groups pays for. Both are read again when a new shape is
  /// called or tuned, so this number may change.
  int threads = 0;
  /// Lets the Engine call the vendor's library (cuBLASLt) where it won the race by 2 % or more;
  /// plan().config() and explain() then name it.
  bool allow_vendor = false;
  /// Told once about each untuned shape, before it is computed, on the thread of the call: on
  /// several at once where several miss; may call tune(). What it throws is logged, and the call
  /// continues. Empty: a warning on stderr (see $KILN_LOG in engine.hpp).
  std::function<void(const std::string&)> on_untuned = nullptr;
  /// The file to which all calls are added, by problem: how often, and how long they took; see
  /// `kiln report` and `kiln tune --recorded`. Any number of processes may name the same one.
  /// Empty: $KILN_RECORD; without that nothing is recorded. One that is named here must open; that
  /// of the variable is a warning where it does not. ":memory:": counted for
  /// Engine::counted_calls() alone.
  std::filesystem::path record = {};
};

/// How a GPU is loaded while finalists are timed, which is a part of a record's key. CPUs are timed
/// in one way.
enum class TuningPolicy : std::uint8_t {
  cool,       ///< pauses between samples keep it at its highest clock (default)
  sustained,  ///< back to back, at the clock that the power limit leaves
  automatic   ///< sustained for problems that are bound by power, else cool; of a range: cool
};

/// State of a search; see `TuneOptions::progress`.
struct Progress {
  /// Step of the search.
  enum class Stage : std::uint8_t {
    space,    ///< the legal points are listed
    compile,  ///< candidates are compiled
    screen,   ///< candidates are timed a few times
    verify,   ///< results are verified
    race,     ///< finalists are timed interleaved
    done      ///< the search has ended
  };
  Stage stage = Stage::space;  ///< the step that reports
  int done = 0;                ///< candidates of this step that are done
  int total = 0;               ///< candidates of this step
  double seconds = 0;          ///< since tune() began
  double best_ns = 0;          ///< best median so far, 0 = none
  std::string best_config;     ///< canonical text
};

/// Options of Engine::tune(). Callbacks run on the thread that called tune(). They may call gemm()
/// and plan() of any engine; a tune() from inside one is an error (bad_input), as is whatever they
/// throw: the search ends then, and what was measured stays.
struct TuneOptions {
  /// Of the problem's search in all: what earlier calls spent of it is not spent again. tune()
  /// returns within a second after it, however busy the machine is, with the fastest kernel that
  /// was verified until then: compiles and measurements under way are given up. Only where there is
  /// none yet the first candidate is compiled, verified and timed to its end. Waiting for another
  /// process that tunes the device does not count. Of a range:
  /// of all its searches and timings together (a minute is a good one).
  std::chrono::duration<double> budget{10.0};
  /// Most candidates of the problem's search in all, those of earlier calls included; 0: as many as
  /// the budget allows. The search ends with whichever comes first. Of a range: of each of its
  /// searches.
  int candidates = 0;
  std::uint64_t seed = 1;  ///< of the order of candidates and of the data
  int threads = 0;         ///< 0 = the engine's default
  bool force = false;      ///< search anew for the whole budget even when a valid record exists
  /// Where a valid record exists, its kernel is timed again beside the library (cuBLASLt, the
  /// system's BLAS), without a further search: the verdict by which the hooks and `allow_vendor`
  /// choose belongs to one build of the library. Not for ranges.
  bool race = false;
  /// Where a problem has a record of a race under load, gemm() runs that one's kernel, else that of
  /// its cool record. `sustained` is refused for CPUs and for ranges.
  TuningPolicy policy = TuningPolicy::cool;
  std::function<void(const Progress&)> progress = nullptr;  ///< told of every step
  std::function<bool()> cancelled =
      nullptr;  ///< asked between candidates; true stops and keeps what is known
};

/// A median with its spread, in nanoseconds, of one call; and what the call took of a device under
/// load, where that was measured (TuningPolicy::sustained).
struct Timing {
  double median_ns = 0;  ///< median
  double low_ns = 0;     ///< lower end of the median's 95 % interval
  double high_ns = 0;    ///< upper end of it
  int samples = 0;       ///< timed samples
  double joules = 0;     ///< energy of the whole device for a call; 0: not known
  int sm_mhz = 0;        ///< median clock of the multiprocessors under load; 0: not known
  /// Field by field, in order.
  auto operator<=>(const Timing&) const = default;
};

/// How far a problem's space has been searched, by all calls of tune() that continued one search.
struct SearchExtent {
  double seconds = 0;           ///< spent searching
  double budget_seconds = 0;    ///< budget of the newest search, and of those it went on from
  double spent_seconds = 0;     ///< of that budget: tune() with a larger one continues for the rest
  std::int64_t measured = 0;    ///< candidates with a time
  std::int64_t failed = 0;      ///< candidates with a reason why they have none
  std::int64_t enumerated = 0;  ///< legal points of the space
  bool whole_space = false;     ///< every one of them was tried
  bool interrupted = false;     ///< the newest search was cancelled before it had spent its budget
  /// Field by field, in order.
  auto operator<=>(const SearchExtent&) const = default;
};

/// Result of Engine::tune().
struct TuneReport {
  Gemm gemm;           ///< the problem
  int threads = 0;     ///< compute threads it was tuned for
  std::string config;  ///< canonical text of the winner
  std::string policy;  ///< how it was timed, as the record's key says: "cuda-cold-v1"
  Timing timing;       ///< of the winner
  int enumerated = 0;  ///< legal points of the space
  int compiled = 0;    ///< candidates that this call compiled
  int measured = 0;    ///< of these, with a time
  int failed = 0;      ///< candidates with a reason why they have no time
  double seconds = 0;  ///< spent in this call
  /// A record was there for which this budget, or the whole space, was spent; nothing ran. Records
  /// of files that cannot be written (shipped ones) and those without a SearchExtent count as
  /// complete.
  bool already_tuned = false;
  /// What else ran on the machine while the winner was timed, in words; empty: nothing that was
  /// seen. The record keeps it, one of `warnings` says it, and the next tune() of the problem
  /// searches anew (unless TuneOptions::candidates was given and reached).
  std::string disturbed;
  /// Of the record, this call included; empty where it was made before extents were stored.
  std::optional<SearchExtent> searched;
  /// The most operations a second that these threads are known to reach: in multiply-adds on
  /// registers, probed beside the samples, or in any kernel that was timed. 0: the type has no
  /// probe on this device (a GPU has none, nor have matrix units), or none ran yet.
  double peak_flops = 0;
  /// A GPU's clock, power and temperature while the finalists raced; empty where it reports none.
  std::string conditions;
  /// The winner is in a database, where later processes find it (or in `:memory:`, where that was
  /// asked for). False: it is lost when this engine is closed, and the first of `warnings` says so.
  bool stored = false;
  /// What went wrong without touching the result: a full disk, a read-only database, by file. Last,
  /// that the device computes these types slowly, where it is fast at close relatives of theirs.
  std::vector<std::string> warnings;
};

/// Result of tuning a range of sizes.
struct RangeReport {
  /// Neighbouring sizes that one kernel serves.
  struct Part {
    std::int64_t last = 0;      ///< the largest of them
    std::string config;         ///< canonical text of the kernel's config
    std::int64_t tuned_at = 0;  ///< the size whose winner it is
    double expected_ns = 0;     ///< of a call of the largest
  };
  GemmRange range;                    ///< the range
  int threads = 0;                    ///< compute threads it was tuned for
  std::vector<Part> parts;            ///< from size to kernel, in order of their sizes
  int kernels = 0;                    ///< different kernels among them
  int searched = 0;                   ///< sizes at which this call searched the whole space
  int measured = 0;                   ///< candidates of these searches with a time
  double seconds = 0;                 ///< spent in this call
  bool already_tuned = false;         ///< its table was there; nothing ran
  bool stored = false;                ///< as TuneReport::stored, of the table
  std::vector<std::string> warnings;  ///< as those of TuneReport
};

/// Where a dispatched kernel came from, best first.
enum class Match : std::uint8_t {
  exact,     ///< tuned for this very problem
  range,     ///< tuned for a range of sizes that holds this one
  nearest,   ///< the kernel of a tuned neighbour
  model,     ///< the analytic model's choice, among stored kernels for every such CPU or compiled
  reference  ///< a plain loop
};
/// Whether the problem was tuned, alone or in a range.
constexpr bool is_tuned(Match match) { return match <= Match::range; }
/// Name of a match.
KILN_API std::string_view name(Match match);

}  // namespace kiln
