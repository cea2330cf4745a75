// What a caller may ask of the Engine, and what it hears back while it tunes.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kiln/gemm.hpp"

namespace kiln {

/// What `gemm()` does when the exact problem was never tuned.
enum class Policy : std::uint8_t { use_best_known, tune_now, tune_in_background, error };

/// `run_to_run`: the same bits from the same call on the same device, every time (default).
/// `any`: kernels whose summation order may vary are allowed too.
enum class Determinism : std::uint8_t { run_to_run, any };

struct OpenOptions {
  std::string device = "cpu";  ///< "cpu"; "cuda:N", "hip:N": the N-th GPU
  /// The user's own database; empty: $KILN_DB, else $XDG_CACHE_HOME/kiln/kiln.db (~/.cache).
  /// ":memory:": a private one that ends with the Engine; it leaves no file.
  std::filesystem::path database = {};
  /// Shipped read-only databases, first wins; empty: $KILN_DB_PATH (colon-separated).
  std::vector<std::filesystem::path> shipped = {};
  Policy policy = Policy::use_best_known;
  Determinism determinism = Determinism::run_to_run;
  /// Compute threads of a call that names none; 0 = every core this process may use.
  int threads = 0;
  /// Lets the Engine call the vendor's library (cuBLASLt) where it won the race by 2 % or more;
  /// plan().config() and explain() then name it.
  bool allow_vendor = false;
  /// Told once about each untuned shape, before it is computed; may call tune(). What it throws is
  /// logged, and the call goes on. Empty: a warning on stderr (see $KILN_LOG in engine.hpp).
  std::function<void(const std::string&)> on_untuned = nullptr;
};

/// What tuning says as it goes; see `TuneOptions::progress`.
struct Progress {
  enum class Stage : std::uint8_t { space, compile, screen, verify, race, done };
  Stage stage = Stage::space;
  int done = 0, total = 0;  ///< candidates in this stage
  double seconds = 0;       ///< since tune() began
  double best_ns = 0;       ///< best median so far, 0 = none
  std::string best_config;  ///< canonical text
};

/// Callbacks run on the thread that called tune(). They may call gemm() and plan() of any engine; a
/// tune() from inside one is an error (bad_input), as is whatever they throw: the search ends then,
/// and what was measured stays.
struct TuneOptions {
  /// Of the problem's search in all: what earlier calls spent of it is not spent again.
  std::chrono::duration<double> budget{10.0};
  std::uint64_t seed = 1;
  int threads = 0;     ///< 0 = the engine's default
  bool force = false;  ///< search anew for the whole budget even when a valid record exists
  std::function<void(const Progress&)> progress = nullptr;
  std::function<bool()> cancelled =
      nullptr;  ///< asked between candidates; true stops and keeps what is known
};

/// A median with its spread, in nanoseconds, of one call.
struct Timing {
  double median_ns = 0;
  double low_ns = 0, high_ns = 0;  ///< 95 % interval of the median
  int samples = 0;
  auto operator<=>(const Timing&) const = default;
};

/// How far a problem's space has been searched, by all calls of tune() together that went on from
/// one another.
struct SearchExtent {
  double seconds = 0;           ///< spent searching
  double budget_seconds = 0;    ///< budget of the newest search, and of those it went on from
  double spent_seconds = 0;     ///< of that budget: tune() with a larger one goes on for the rest
  std::int64_t measured = 0;    ///< candidates with a time
  std::int64_t failed = 0;      ///< candidates with a reason why they have none
  std::int64_t enumerated = 0;  ///< legal points of the space
  bool whole_space = false;     ///< every one of them was tried
  bool interrupted = false;     ///< the newest search was cancelled before it had spent its budget
  auto operator<=>(const SearchExtent&) const = default;
};

struct TuneReport {
  Gemm gemm;
  int threads = 0;
  std::string config;  ///< canonical text of the winner
  Timing timing;
  int enumerated = 0;  ///< legal points of the space
  int compiled = 0, measured = 0, failed = 0;
  double seconds = 0;
  /// A record was there for which this budget, or the whole space, was spent; nothing ran. Records
  /// of files that cannot be written (shipped ones) and those without a SearchExtent count as
  /// complete.
  bool already_tuned = false;
  /// Of the record, this call included; empty where it was made before extents were stored.
  std::optional<SearchExtent> searched;
  /// The most operations a second that these threads are known to reach: in multiply-adds on
  /// registers, probed beside the samples, or in any kernel that was timed. 0: the type (all but
  /// fp32 and fp64) or device (a GPU) has no probe, or none ran yet.
  double peak_flops = 0;
  /// A GPU's clock, power and temperature while the finalists raced, where it tells; else empty.
  std::string conditions;
  /// The winner is in a database, where later processes find it. False: this engine uses it until
  /// it is closed, nothing will be remembered, and the first of `warnings` says so.
  bool stored = false;
  /// What went wrong without touching the result: a full disk, a read-only database, by file. Last,
  /// that the device computes these types slowly, where it is fast at close relatives of theirs.
  std::vector<std::string> warnings;
};

/// Where a dispatched kernel came from, best first.
enum class Match : std::uint8_t { exact, nearest, model, reference };
KILN_API std::string_view name(Match match);

}  // namespace kiln
