// The open files in the order in which they are asked, and what all rooms share: the lock, the run
// that rows belong to, and the rows found bad. Knows rows by table and id; nothing of what they
// say.
#pragma once

#include <SQLiteCpp/Transaction.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cache/layers/layer.h"
#include "cache/store.h"
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

/// Every member but write() is for a caller who holds the mutex.
class Layers {
 public:
  /// Errors: those of Store::open().
  static Result<std::unique_ptr<Layers>> open(const StoreOptions& options);

  /// One connection a file, used by one thread at a time.
  std::mutex& mutex() { return mutex_; }
  /// The user's own first.
  std::vector<Layer>& all() { return layers_; }
  Layer& own() { return layers_.front(); }
  /// The user's own is kInMemory because the caller said so.
  bool memory_wanted() const { return memory_wanted_; }
  /// Errors: database, when the user's file cannot be written.
  Status writable() const;

  /// Whether `body` is true of a layer from which machine code may be loaded.
  template <typename F>
  bool in_trusted(F&& body) {
    return std::ranges::any_of(layers_, [&](Layer& layer) {
      return layer.trusted && lookup(layer, [&] { return body(layer); });
    });
  }

  /// Takes the mutex and runs `body` in one transaction on the user's own file that takes the write
  /// lock first: a deferred one that reads and then writes fails at once under contention, whatever
  /// the busy timeout.
  template <typename F>
  Status write(F&& body) {
    const QuietLock lock(mutex_);
    if (Status ok = writable(); !ok) return ok;
    Layer& layer = own();
    const Status written = guarded(layer.path, [&]() -> Status {
      SQLite::Transaction transaction(*layer.db, SQLite::TransactionBehavior::IMMEDIATE);
      if (Status done = body(*layer.db); !done) return done;
      transaction.commit();
      return {};
    });
    if (Status kept = unmoved(layer); !kept) return kept;
    return written;
  }

  /// The run that rows belong to, as a row of `session`; none: nobody named one.
  std::optional<std::int64_t> session() const { return session_; }
  void set_session(std::int64_t id) { session_ = id; }

  bool is_bad(const Layer& layer, std::string_view table, std::int64_t id) const;
  /// Marks a row of "measurement" or "binary", logs it, and never fails.
  void quarantine(Layer& layer, std::string_view table, std::int64_t id, std::string_view reason);

 private:
  std::mutex mutex_;
  std::vector<Layer> layers_;
  bool memory_wanted_ = false;
  std::optional<std::int64_t> session_;
  /// "file:table:id" of rows found bad that could not be marked so in their file.
  std::set<std::string> bad_rows_;
};

}  // namespace kiln
