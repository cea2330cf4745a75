#include "cache/layers/winner_index.h"

#include <sqlite3.h>
#include <xxhash.h>

#include <string>

#include "cache/keys.h"

namespace kiln {
namespace {

std::uint64_t hash_of(std::string_view device, std::string_view problem, std::string_view policy,
                      std::string_view determinism) {
  std::string text;
  for (const std::string_view part : {device, problem, policy, determinism}) {
    text += part;
    text += '\0';
  }
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace

bool WinnerIndex::up_to_date(SQLite::Database& db) {
  if (!version_) version_ = std::make_unique<SQLite::Statement>(db, "PRAGMA data_version");
  version_->executeStep();
  const std::int64_t version = version_->getColumn(0).getInt64();
  version_->reset();
  const std::int64_t changes = sqlite3_total_changes(db.getHandle());
  if (version == seen_version_ && changes == seen_changes_) return true;
  seen_version_ = version;
  seen_changes_ = changes;
  return false;
}

bool WinnerIndex::may_hold(SQLite::Database& db, const BestKey& key) {
  if (!up_to_date(db)) {
    keys_.clear();
    SQLite::Statement row(db,
                          "SELECT device.key, problem.key, policy, determinism FROM measurement "
                          "JOIN device ON device.id = device_id "
                          "JOIN problem ON problem.id = problem_id WHERE winner = 1");
    while (row.executeStep())
      keys_.insert(hash_of(row.getColumn(0).getString(), row.getColumn(1).getString(),
                           row.getColumn(2).getString(), row.getColumn(3).getString()));
  }
  return keys_.contains(hash_of(key_text(key.device), key_text(key.gemm), key.policy,
                                std::get<std::string>(to_value(key.determinism))));
}

}  // namespace kiln
