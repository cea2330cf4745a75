// Which row of a key is its winner, and under which code and launch.
#include "cache/records/winners.h"

#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include "cache/keys.h"
#include "cache/layers/layers.h"
#include "cache/rows/rows.h"

namespace kiln {
namespace {

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

Status Winners::make_winner(const BestKey& key, const Validators& made_by, const Config& config) {
  return layers_.write([&](SQLite::Database& db) -> Status {
    return make_winner_row(db, key, key_rows(db, key, made_by), config);
  });
}

Status Winners::rename_code(const Record& record, const std::string& template_hash,
                            const StoredBinary& code) {
  Validators made_by = record.validators;
  made_by.template_hash = template_hash;
  made_by.compiler = code.compiler;
  Measured measured = record.measured;
  measured.binary_key = code.key;
  return layers_.write([&](SQLite::Database& db) -> Status {
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

Status Winners::retire(const Record& record) {
  return layers_.write([&](SQLite::Database& db) -> Status {
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

Status Winners::stamp(const Record& record) {
  if (record.database != layers_.own().path) return {};
  return layers_.write([&](SQLite::Database& db) -> Status {
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

}  // namespace kiln
