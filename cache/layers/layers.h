// What the Store's source files share. Not for other folders.
#pragma once

#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "cache/layers/layer.h"
#include "cache/rows/rows.h"
#include "cache/store.h"
#include "generator/space/code_class.h"
#include "runtime/log.h"
#include "runtime/quiet_lock.h"

namespace kiln {

/// A lookup that cannot fail: what SQLite throws is logged and counts as nothing found.
template <typename F>
auto lookup(const Layer& layer, F&& body) -> std::decay_t<decltype(body())> {
  try {
    return body();
  } catch (const std::exception& e) {
    log::warn("database {}: lookup failed, taken as a miss: {}", layer.path.string(),
              printable(e.what()));
    return {};
  }
}

struct Store::Impl {
  std::mutex mutex;            // one connection a file, used by one thread at a time
  std::vector<Layer> layers;   // the user's own first
  bool memory_wanted = false;  // the first is kInMemory because the caller said so
  std::optional<std::int64_t> session;
  /// "file:table:id" of rows found bad that could not be marked so in their file.
  std::set<std::string> bad_rows;

  Layer& own() { return layers.front(); }
  /// Errors: database, when the user's file cannot be written.
  Status writable() const;

  /// Whether `body` is true of a layer from which machine code may be loaded.
  template <typename F>
  bool in_trusted(F&& body) {
    return std::ranges::any_of(layers, [&](Layer& layer) {
      return layer.trusted && lookup(layer, [&] { return body(layer); });
    });
  }

  std::optional<Record> best_in(Layer& layer, const BestKey& key, const Validators& now);
  bool proven(const std::string& binary_key, const BestKey& key, const Config& config,
              const std::string& runtime);
  void attach_code(Layer& layer, Record& record);
  std::optional<StoredBinary> code_of(Layer& layer, std::int64_t binary_id);

  bool is_bad(const Layer& layer, std::string_view table, std::int64_t id) const;
  /// Marks a row of "measurement" or "binary", logs it, and never fails.
  void quarantine(Layer& layer, std::string_view table, std::int64_t id, std::string_view reason);
};

/// Runs `body` in one transaction that takes the write lock first: a deferred one that reads and
/// then writes fails at once under contention, whatever the busy timeout.
template <typename F>
Status write(Store::Impl& store, F&& body) {
  const QuietLock lock(store.mutex);
  if (Status ok = store.writable(); !ok) return ok;
  Layer& layer = store.own();
  const Status written = guarded(layer.path, [&]() -> Status {
    SQLite::Transaction transaction(*layer.db, SQLite::TransactionBehavior::IMMEDIATE);
    if (Status done = body(*layer.db); !done) return done;
    transaction.commit();
    return {};
  });
  if (Status kept = unmoved(layer); !kept) return kept;
  return written;
}

/// Rows of one device, policy and toolchain, of any templates; bind_key() binds ?1 to ?6.
inline constexpr const char* kSettingCondition =
    "measurement.device_id = (SELECT id FROM device WHERE key = ?1) AND "
    "measurement.policy = ?3 AND measurement.determinism = ?4 AND "
    "(?6 = '' OR toolchain.compiler = ?6) AND measurement.quarantined IS NULL";
/// The same with the kernels of ranges of the policy.
inline constexpr const char* kKernelCondition =
    "measurement.device_id = (SELECT id FROM device WHERE key = ?1) AND "
    "(measurement.policy = ?3 OR substr(measurement.policy, 1, length(?3) + 1) = ?3 || ' ') AND "
    "measurement.determinism = ?4 AND "
    "(?6 = '' OR toolchain.compiler = ?6) AND measurement.quarantined IS NULL";
/// Of those, the rows of today's templates.
inline constexpr const char* kTemplateCondition = "toolchain.template_hash = ?5";
/// Of those, the rows of one problem.
inline constexpr const char* kProblemCondition =
    "measurement.problem_id = (SELECT id FROM problem WHERE key = ?2)";
inline constexpr const char* kMeasurementJoin =
    "measurement JOIN config ON config.id = measurement.config_id "
    "JOIN toolchain ON toolchain.id = measurement.toolchain_id";
void bind_key(SQLite::Statement& row, const BestKey& key, const Validators& now);
/// What names a proof in the table `verification`: the problem, the number of threads, since races
/// depend on it, and the launch.
std::string proof_text(const BestKey& key, const Config& config);
/// Binds ?1 to ?4: device, class of problems, policy, determinism.
void bind_fit_key(SQLite::Statement& row, const BestKey& key);
/// The same of a proof over the envelope of a problem's code: version, code class, launch, threads
/// of a CPU, shape. The config breaks no rule.
std::string envelope_text(const Problem& problem, const DeviceCaps& device, const Config& config);
std::string envelope_text(const Problem& problem, const DeviceCaps& device, const Config& config,
                          const CodeClass& code);
/// Code that no winner names is compiled again when it is asked for: its binary, proofs and source
/// are removed. `key`: of the binary.
void drop_unused_code(SQLite::Database& db, const std::string& key);
/// What every such text begins with.
inline constexpr const char* kEnvelopePrefix = "envelope=";

}  // namespace kiln
