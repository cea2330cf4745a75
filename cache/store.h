// The database: what was measured, on what, by which toolchain, and the code itself. Everything
// that makes two records different is stated here, once. Knows SQLite; knows no command line.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/rows/range_table.h"
#include "generator/space/space.h"
#include "kiln/options.hpp"
#include "runtime/machine_limits.h"
#include "tuner/measure/measured.h"
#include "tuner/search/fitted_model.h"

namespace kiln {

/// Key of a best kernel. A missing field is the dangerous bug: tests/unit changes each in turn.
struct BestKey {
  DeviceCaps device;   // fingerprint; compute_units are the threads of the call
  Gemm gemm;           // every field
  std::string policy;  // measurement policy, "cold-v1"
  Determinism determinism = Determinism::run_to_run;
  /// Of a valid `gemm`, which those of keys are.
  Problem problem() const { return Problem::of(gemm).value(); }
  auto operator<=>(const BestKey&) const = default;
};

/// Which software made a record. Whether stored code is right is not asked here: that is the launch
/// (Record::launch), which also holds the kernels' ABI and the family's revision.
struct Validators {
  /// Provenance: which templates made it. Timings of losers count for the same templates alone.
  std::string template_hash;
  /// Correctness: compiler build. Empty in a lookup = no compiler was loaded: stored code of any
  /// build is taken as it was verified; nothing will be compiled against it.
  std::string compiler;
  std::string runtime;  // performance: kiln, libc, kernel versions
  auto operator<=>(const Validators&) const = default;
};

struct Record {
  BestKey key;
  Validators validators;
  Measured measured;
  std::string source = {};            // generated text, without its head
  std::vector<std::byte> image = {};  // linked code; empty = absent or not trusted
  /// generator/space/launch_text.h's text of the launch under which it was verified. Empty: a GPU
  /// record from before launches were stored, to be verified once more before it runs.
  std::string launch = {};
  std::string created;             // ISO 8601 UTC
  std::filesystem::path database;  // where it was found
  bool writable = false;           // that file takes what a longer search finds
  /// How far its space was searched; empty: made before that was stored.
  std::optional<SearchExtent> searched = {};
};

/// What orders a kernel among others. The rest of its record is read where it is asked for
/// (Store::record_of): a class has hundreds of kernels, of which a call looks at a few.
struct KernelRow {
  Config config;
  std::string binary_key;  // empty: of a file from which no code is loaded
  bool verified = false;
  std::size_t layer = 0;  // the file that it is in
  std::int64_t id = 0;    // its row there
};

/// Linked code as stored. `key` is runtime/compiler.h's binary_key(); `code_key` leaves the
/// compiler out, so that a process that never loads one can ask too.
struct StoredBinary {
  std::string key;
  std::string code_key;
  std::string compiler;
  std::string source = {};  // generated text; kept without its head; empty = none kept
  std::vector<std::byte> image;
};

/// A tuned range as stored.
struct RangeRecord {
  BestKey key;  // of the problem of the largest size
  GemmRange range;
  RangeTable table;
  std::string created;             // ISO 8601 UTC
  std::filesystem::path database;  // where it was found
};

/// Stands for a private database in memory where a file's name is wanted.
inline constexpr const char* kInMemory = ":memory:";

struct StoreOptions {
  /// The user's own file; created when absent. Empty or kInMemory: a private one in memory.
  std::filesystem::path database;
  std::vector<std::filesystem::path> shipped;  // read only, first wins
  /// Nobody named the file: one that is damaged or another program's is moved aside
  /// (cache/layers/move_aside.h) with a warning, and a new one is made.
  bool by_default = false;
};

/// The options for a file that a caller named, or, where `named` is empty, for $KILN_DB or the
/// default one, and for the shipped ones likewise.
StoreOptions store_options(const std::filesystem::path& named,
                           const std::vector<std::filesystem::path>& shipped = {});

/// Who wrote a row: kept with the evidence.
struct SessionInfo {
  std::string command;  // what ran: "kiln tune", a program's name
  std::uint64_t seed = 0;
  double budget_seconds = 0;
};

/// One file's contents in numbers.
struct StoreStats {
  std::filesystem::path database;
  bool writable = false;
  bool trusted = false;  // its machine code may be loaded
  std::string journal;   // "wal", "delete", "memory"
  int schema = 0;
  std::int64_t file_bytes = 0;
  std::int64_t devices = 0, problems = 0, winners = 0, measurements = 0, failures = 0;
  std::int64_t ranges = 0;
  std::int64_t binaries = 0, binary_bytes = 0, quarantined = 0;  // bytes as stored, compressed
  std::map<std::string, std::int64_t> failures_by_kind = {};
};

struct CheckReport {
  std::int64_t rows = 0;              // rows looked at
  std::vector<std::string> problems;  // one sentence each: file, table, row, what is wrong
  std::int64_t repaired = 0;          // rows removed; what they held is measured or compiled again
  bool ok() const { return problems.empty(); }
};

struct ImportReport {
  std::int64_t measurements = 0, binaries = 0;  // rows added
  bool trusted = false;                         // false: its machine code was left out
};

struct CompactReport {
  std::int64_t frames = 0, made_smaller = 0;       // pieces of code and sources
  std::int64_t bytes_before = 0, bytes_after = 0;  // of the file
};

struct MeasurementFilter;
struct MergeOptions;
struct MergeReport;
struct PruneOptions;
struct PruneReport;
struct StoredMeasurement;

/// Thread-safe; several processes may hold the same file. Lookups never fail: an unreadable row is
/// quarantined, logged and counts as a miss. Writers get a Status and may go on without.
class Store {
 public:
  /// Errors: database (unreadable, not kiln's, newer schema, …), naming the file.
  static Result<std::unique_ptr<Store>> open(const StoreOptions& options);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// The winner of exactly this key with its code and source. Validators as in Validators; a winner
  /// whose stored launch is not today's counts as a miss.
  std::optional<Record> best(const BestKey& key, const Validators& now);
  /// Winners of the same device, policy and problem class (see class_text), and kernels of ranges
  /// of it, without code, of any
  /// templates: they are proposals, proved before they run. Those whose file is not trusted name no
  /// code; seals are looked at by envelope_proven().
  std::vector<Record> tuned_like(const BestKey& key, const Validators& now);
  /// The same with less of each. A row that record_of() cannot read may be among them.
  std::vector<KernelRow> kernels_like(const BestKey& key, const Validators& now);
  /// The record of one of these, without code. Nothing: it cannot be read.
  std::optional<Record> record_of(const BestKey& key, const KernelRow& row);
  /// Whether a file whose machine code may be loaded has rows of this device.
  bool knows(const DeviceCaps& device);
  /// Every device of files whose machine code may be loaded, the user's own file first.
  std::vector<DeviceCaps> devices();
  /// Every time measured on the same device under the same policy for problems of the same class,
  /// newest first, of any templates.
  std::vector<TimedConfig> timed_like(const BestKey& key);
  /// The model of the key's class of problems, fitted to measurements.
  std::optional<FittedModel> fit(const BestKey& key);
  Status put_fit(const BestKey& key, const FittedModel& model);
  /// Adds or replaces a range's table with rows for its kernels (cache/rows/range_kernels.h), which
  /// are stored and verified at the sizes that its cells name; the key's problem is any of the
  /// range.
  Status put_range(const BestKey& key, const GemmRange& range, const RangeTable& table);
  /// Ranges on the key's device under its policy and class of determinism, the user's own first.
  std::vector<RangeRecord> ranges_of(const BestKey& key);
  /// Those of problems that differ from the key's in `size` alone.
  std::vector<RangeRecord> ranges_like(const BestKey& key, Size size);
  /// Every row of this key, failures too, oldest first.
  std::vector<Measured> known(const BestKey& key, const Validators& now);
  /// Of those, winners and the libraries that were raced, of any templates, newest first.
  std::vector<Measured> winners_and_libraries(const BestKey& key);
  /// Newest trusted code of a source; an empty compiler takes any build's.
  std::optional<StoredBinary> binary(const std::string& code_key, const std::string& compiler);

  /// Trusted code by its own key.
  std::optional<StoredBinary> code(const std::string& binary_key);

  /// Adds or replaces one row. Errors: database, naming the file (full disk, read only, busy).
  Status put(const BestKey& key, const Validators& made_by, const Measured& measured);
  Status put_binary(const StoredBinary& binary);
  /// Makes an already stored config the winner of its key.
  Status make_winner(const BestKey& key, const Validators& made_by, const Config& config);
  /// Gives a winner of the user's own file the same machine code under another key, made by today's
  /// templates and the compiler that `code` names.
  Status rename_code(const Record& record, const std::string& template_hash,
                     const StoredBinary& code);
  /// The row of the user's own file is a winner no more: evidence, as those of losers. Its code
  /// goes where no winner names it.
  Status retire(const Record& record);
  /// Stores today's launch with a winner of the user's own file that was verified under it. Nothing
  /// for a record of a shipped file.
  Status stamp(const Record& record);
  /// Says how far this key's space has been searched; replaces what was said before.
  Status put_search(const BestKey& key, const Validators& made_by, const SearchExtent& searched);
  /// The most operations a second that a device's `compute_units` threads are known to reach with
  /// operands of this type; 0: nothing is known.
  double peak(const DeviceCaps& device, DType type);
  /// Says that they reached so many; kept where it is more than what is known.
  Status raise_peak(const DeviceCaps& device, DType type, double flops);
  /// What a device's `compute_units` threads were seen to reach: the newest of all files, if any.
  std::optional<MachineLimits> limits(const DeviceCaps& device);
  /// Stores that as measured just now, in place of what was there. Errors: bad_input (a figure
  /// below 0, no fp32_flops), database.
  Status put_limits(const MachineLimits& limits);
  /// Says that code was verified for a problem and its thread count, under today's launch of the
  /// config and under a runtime.
  Status proved(const std::string& binary_key, const BestKey& key, const Config& config,
                const std::string& runtime);
  /// Whether somebody said so.
  bool proven(const std::string& binary_key, const BestKey& key, const Config& config,
              const std::string& runtime);
  /// Says that a record's code was verified over the envelope of its problem
  /// (tuner/verify/envelope.h): it may run on every problem of the same code.
  Status proved_envelope(const Record& record);
  /// Whether somebody said so, in a file whose machine code may be loaded, of the code that the
  /// record names, of its class and of the launch that today's generator gives it.
  bool code_proven(const Record& record);
  /// The same of a record that is stored, under its seal: it may run.
  bool envelope_proven(const Record& record);
  /// Whether what is written to the user's own file will be there for later processes, or the
  /// caller asked for kInMemory and keeps it as long as was asked. Errors: database (there is no
  /// file, or the one that was opened has been deleted or replaced).
  Status lasting();
  /// Names the run that later rows belong to.
  Status begin_session(const SessionInfo& session);
  /// Marks stored code as bad (it would not load, it gave wrong results): a miss from now on.
  void quarantine_binary(const std::string& key, const std::string& reason);

  /// Winners of every layer, without code; the user's own first.
  Result<std::vector<Record>> list();
  /// The same with the kernels of ranges, whose policies name their range.
  Result<std::vector<Record>> list_kernels();
  /// Ranges of every layer; the user's own first.
  Result<std::vector<RangeRecord>> list_ranges();
  /// Every measurement that the filter takes (cache/records/measurements.h), the user's own file
  /// first, in the order in which they were made. Rows that cannot be read are left out. `visit`
  /// must not call the store. Errors: database.
  Status each_measurement(const MeasurementFilter& filter,
                          const std::function<void(const StoredMeasurement&)>& visit);
  /// Adds measurements whose key and config are not in the user's own file, as evidence: without
  /// code, none a winner. Returns how many.
  Result<std::int64_t> add_evidence(const std::vector<StoredMeasurement>& rows);
  Result<std::vector<StoreStats>> stats();
  /// Integrity, hashes, parsable configs, valid problems. `repair` drops bad rows of the user's
  /// file.
  Result<CheckReport> check(bool repair);
  /// Writes one self-contained file: winners of all layers with their code, and all evidence; or,
  /// with `fastest` > 0, of each search only that of its so many fastest candidates, of races, and
  /// of every config that won anywhere, which is what fitted models are made of. Compressed as
  /// compact() does it.
  Status export_to(const std::filesystem::path& file, int fastest = 0);
  /// Merges a file; rows already here win. Errors: database, bad_input (no such file).
  Result<ImportReport> import_from(const std::filesystem::path& file);
  /// Merges files of equal rank, weighing every row (cache/exchange/merge.h), in one transaction:
  /// all of them or nothing. Errors: database (a file that is damaged, newer or not kiln's; a full
  /// disk), bad_input (no such file, the database itself, no row of the device asked for).
  Result<MergeReport> merge_from(const std::vector<std::filesystem::path>& files,
                                 const MergeOptions& options);
  /// Makes the user's own file smaller (cache/records/prune.h). Errors: bad_input (no condition),
  /// database.
  Result<PruneReport> prune(const PruneOptions& options);
  /// Compresses code and sources of the user's own file again, with today's dictionaries and more
  /// patience than a search has, and gives free space back. No row changes what it says. Errors:
  /// database.
  Result<CompactReport> compact();
  /// The user's own file; ":memory:" when there is none.
  std::filesystem::path path() const;

  struct Impl;

 private:
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// "$KILN_DB", else "$XDG_CACHE_HOME/kiln/kiln.db", else "~/.cache/kiln/kiln.db", the home folder
/// being $HOME or, where that is no absolute path, the password database's. A relative
/// $XDG_CACHE_HOME is ignored. Without any home folder: empty (a private one in memory), with a
/// warning.
std::filesystem::path default_database();
/// The non-empty parts of a colon-separated list.
std::vector<std::filesystem::path> split_paths(std::string_view list);
/// "$KILN_DB_PATH", split; where it is not set, the databases in share/kiln of the installation.
std::vector<std::filesystem::path> default_shipped();

}  // namespace kiln
