// Writing what was measured, the moment it is known.
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include "cache/codec/codec.h"
#include "cache/layers/layers.h"
#include "kiln/engine.hpp"
#include "runtime/log.h"

namespace kiln {
namespace {

KeyIds key_rows(SQLite::Database& db, const BestKey& key, const Validators& made_by) {
  return {.device = device_row(db, key.device),
          .problem = problem_row(db, key.gemm),
          .toolchain = toolchain_row(db, made_by)};
}

void bind_ids(SQLite::Statement& row, const BestKey& key, const KeyIds& ids) {
  row.bind(1, ids.device);
  row.bind(2, ids.problem);
  row.bind(3, key.policy);
  row.bind(4, std::get<std::string>(to_value(key.determinism)));
  row.bind(5, ids.toolchain);
}

/// Makes a timed row of the key the one that it dispatches to.
Status make_winner_row(SQLite::Database& db, const BestKey& key, const KeyIds& ids,
                       const Config& config) {
  constexpr const char* kRowsOfKey =
      "device_id = ?1 AND problem_id = ?2 AND policy = ?3 AND determinism = ?4 AND "
      "toolchain_id = ?5";
  SQLite::Statement dethrone(
      db, fmt::format("UPDATE measurement SET winner = 0, launch = '', seal = '' WHERE {} AND "
                      "winner = 1",
                      kRowsOfKey));
  bind_ids(dethrone, key, ids);
  dethrone.exec();
  SQLite::Statement enthrone(
      db, fmt::format("UPDATE measurement SET winner = 1 WHERE {} AND failure IS NULL AND "
                      "config_id = (SELECT id FROM config WHERE text = ?6)",
                      kRowsOfKey));
  bind_ids(enthrone, key, ids);
  enthrone.bind(6, text(config));
  if (enthrone.exec() != 1)
    return fail(ErrorCode::internal,
                fmt::format("config = {}: no timed row of it to make the winner", text(config)));
  stamp_winner(db, key, ids);
  return {};
}

}  // namespace

Status Store::Impl::writable() const {
  if (layers.front().writable) return {};
  return fail(ErrorCode::database, fmt::format("database {}: read only, nothing was written to it",
                                               layers.front().path.string()));
}

Status Store::put(const BestKey& key, const Validators& made_by, const Measured& measured) {
  return write(*impl_, [&](SQLite::Database& db) -> Status {
    put_measurement(db, key, key_rows(db, key, made_by), measured, impl_->session);
    return {};
  });
}

Status Store::put_binary(const StoredBinary& binary) {
  return write(*impl_, [&](SQLite::Database& db) -> Status {
    put_binary_row(db, binary);
    return {};
  });
}

Status Store::make_winner(const BestKey& key, const Validators& made_by, const Config& config) {
  return write(*impl_, [&](SQLite::Database& db) -> Status {
    return make_winner_row(db, key, key_rows(db, key, made_by), config);
  });
}

void drop_unused_code(SQLite::Database& db, const std::string& key) {
  for (const char* statement : {"DELETE FROM binary WHERE key = ?1 AND NOT EXISTS "
                                "(SELECT 1 FROM measurement WHERE winner = 1 AND binary_key = ?1)",
                                "DELETE FROM verification WHERE binary_key = ?1 AND NOT EXISTS "
                                "(SELECT 1 FROM binary WHERE key = ?1)"}) {
    SQLite::Statement drop(db, statement);
    drop.bind(1, key);
    drop.exec();
  }
  db.exec(
      "DELETE FROM source WHERE id NOT IN "
      "(SELECT source_id FROM binary WHERE source_id IS NOT NULL)");
}

Status Store::rename_code(const Record& record, const std::string& template_hash,
                          const StoredBinary& code) {
  Validators made_by = record.validators;
  made_by.template_hash = template_hash;
  made_by.compiler = code.compiler;
  Measured measured = record.measured;
  measured.binary_key = code.key;
  return write(*impl_, [&](SQLite::Database& db) -> Status {
    const KeyIds old = key_rows(db, record.key, record.validators);
    SQLite::Statement drop(
        db,
        "DELETE FROM measurement WHERE device_id = ? AND problem_id = ? AND policy = ? AND "
        "determinism = ? AND toolchain_id = ? AND winner = 1");
    bind_ids(drop, record.key, old);
    drop.exec();
    const KeyIds ids = key_rows(db, record.key, made_by);
    put_binary_row(db, code);
    put_measurement(db, record.key, ids, measured, std::nullopt);
    // The machine code is the same, and so is what was proved of it.
    SQLite::Statement proofs(db, R"sql(
      INSERT OR IGNORE INTO verification (binary_key, problem_key, runtime, created)
      SELECT ?1, problem_key, runtime, created FROM verification WHERE binary_key = ?2)sql");
    proofs.bind(1, code.key);
    proofs.bind(2, record.measured.binary_key);
    proofs.exec();
    if (record.searched) put_search_row(db, record.key, ids, *record.searched);
    if (Status made = make_winner_row(db, record.key, ids, measured.config); !made) return made;
    drop_unused_code(db, record.measured.binary_key);
    return {};
  });
}

Status Store::retire(const Record& record) {
  return write(*impl_, [&](SQLite::Database& db) -> Status {
    SQLite::Statement row(
        db,
        "UPDATE measurement SET winner = 0, launch = '', seal = '' WHERE device_id = ? AND "
        "problem_id = ? AND policy = ? AND determinism = ? AND toolchain_id = ? AND winner = 1");
    bind_ids(row, record.key, key_rows(db, record.key, record.validators));
    row.exec();
    drop_unused_code(db, record.measured.binary_key);
    return {};
  });
}

Status Store::stamp(const Record& record) {
  if (record.database != path()) return {};
  return write(*impl_, [&](SQLite::Database& db) -> Status {
    const KeyIds ids = key_rows(db, record.key, record.validators);
    SQLite::Statement unstamp(
        db,
        "UPDATE measurement SET launch = '', seal = '' WHERE device_id = ? AND problem_id = ? "
        "AND policy = ? AND determinism = ? AND toolchain_id = ? AND winner = 1");
    bind_ids(unstamp, record.key, ids);
    unstamp.exec();
    stamp_winner(db, record.key, ids);
    return {};
  });
}

Status Store::put_search(const BestKey& key, const Validators& made_by,
                         const SearchExtent& searched) {
  return write(*impl_, [&](SQLite::Database& db) -> Status {
    put_search_row(db, key, key_rows(db, key, made_by), searched);
    return {};
  });
}

Status Store::raise_peak(const DeviceCaps& device, DType type, double flops) {
  if (!(flops > 0) || flops > kMostFlops)
    return fail(ErrorCode::bad_input,
                fmt::format("flops = {}: must be more than 0 and at most {}", flops, kMostFlops));
  return write(*impl_, [&](SQLite::Database& db) -> Status {
    raise_peak_row(db, device, type, flops);
    return {};
  });
}

Status Store::put_fit(const BestKey& key, const FittedModel& model) {
  return write(*impl_, [&](SQLite::Database& db) -> Status {
    (void)device_row(db, key.device);
    SQLite::Statement row(db, R"sql(
      INSERT OR REPLACE INTO fit (device_id, class, policy, determinism, hash, bytes, data, created)
      VALUES ((SELECT id FROM device WHERE key = ?1), ?2, ?3, ?4, ?5, ?6, ?7,
        strftime('%Y-%m-%dT%H:%M:%SZ', 'now')))sql");
    bind_fit_key(row, key);
    const std::string text = model.text();
    const auto data = compress(as_blob(text), Content::other);
    row.bind(5, content_hash(text));
    row.bind(6, static_cast<std::int64_t>(text.size()));
    row.bindNoCopy(7, data.data(), static_cast<int>(data.size()));
    row.exec();
    return {};
  });
}

Status Store::lasting() {
  const QuietLock lock(impl_->mutex);
  const Layer& own = impl_->own();
  if (impl_->memory_wanted) return {};
  sqlite3* const db = own.db->getHandle();
  const char* file = sqlite3_db_filename(db, "main");
  if (file == nullptr || *file == '\0')
    return fail(ErrorCode::database, fmt::format("database {}: kept in memory, because no file "
                                                 "could be opened",
                                                 own.path.string()));
  return unmoved(own);
}

Status Store::begin_session(const SessionInfo& session) {
  return write(*impl_, [&](SQLite::Database& db) -> Status {
    SQLite::Statement row(db, R"sql(
      INSERT INTO session (started, command, kiln, pid, seed, budget_seconds)
      VALUES (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), ?, ?, ?, ?, ?))sql");
    row.bind(1, session.command);
    row.bind(2, std::string(version()));
    row.bind(3, static_cast<std::int64_t>(::getpid()));
    row.bind(4, static_cast<std::int64_t>(session.seed));
    row.bind(5, session.budget_seconds);
    row.exec();
    impl_->session = db.getLastInsertRowid();
    return {};
  });
}

void Store::quarantine_binary(const std::string& key, const std::string& reason) {
  const QuietLock lock(impl_->mutex);
  for (Layer& layer : impl_->layers) {
    const auto marked = guarded(layer.path, [&]() -> Status {
      SQLite::Statement find(*layer.db, "SELECT id FROM binary WHERE key = ?");
      find.bind(1, key);
      if (!find.executeStep()) return {};
      const std::int64_t id = find.getColumn(0).getInt64();
      find.reset();
      impl_->quarantine(layer, "binary", id, reason);
      if (!layer.writable) return {};
      // Compiled again it has the same key: what was proved of it counts no more.
      SQLite::Statement proofs(*layer.db, "DELETE FROM verification WHERE binary_key = ?");
      proofs.bind(1, key);
      proofs.exec();
      return {};
    });
    if (!marked) log::warn("{}", marked.error().message);
  }
}

}  // namespace kiln
