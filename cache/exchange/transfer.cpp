// Export to and import from one self-contained file.
#include "cache/exchange/transfer.h"

#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "cache/exchange/attached_file.h"
#include "cache/exchange/winners_first.h"
#include "cache/keys.h"
#include "cache/layers/layers.h"
#include "cache/layers/trust.h"
#include "cache/records/compact.h"
#include "cache/records/unpacked.h"
#include "cache/rows/seal.h"
#include "kiln/engine.hpp"

namespace kiln {
namespace {

/// A search's extent goes with its winner: where the winner here stays, so does what is said of its
/// search. Before merge_measurements(), which may make theirs the winner.
void merge_searches(SQLite::Database& db) {
  std::string fields;
  const auto add = [&](std::string_view name, const auto&) { fields += fmt::format("{}, ", name); };
  const SearchExtent any;
  for_each_search_field(any, add);
  db.exec(fmt::format(R"sql(
    INSERT OR REPLACE INTO search (device_id, problem_id, policy, determinism, toolchain_id,
      {2} created)
    SELECT device.id, problem.id, theirs.policy, theirs.determinism, toolchain.id, {2} created
    {0} WHERE NOT EXISTS (SELECT 1 FROM measurement AS mine WHERE mine.winner = 1 AND {1}) AND
      (NOT EXISTS (SELECT 1 FROM search AS mine WHERE {1}) OR EXISTS (
        SELECT 1 FROM other.measurement AS won WHERE won.winner = 1 AND
          won.quarantined IS NULL AND won.device_id = theirs.device_id AND
          won.problem_id = theirs.problem_id AND won.policy = theirs.policy AND
          won.determinism = theirs.determinism AND won.toolchain_id = theirs.toolchain_id)))sql",
                      their_rows("search"), kSameKey, fields));
}

/// A model that is here stays; the next search fits it to all measurements.
void merge_fits(SQLite::Database& db) {
  db.exec(R"sql(
    INSERT OR IGNORE INTO fit (device_id, class, policy, determinism, hash, bytes, data, created)
    SELECT device.id, theirs.class, theirs.policy, theirs.determinism, theirs.hash, theirs.bytes,
      theirs.data, theirs.created FROM other.fit AS theirs
      JOIN other.device AS d ON d.id = theirs.device_id JOIN device ON device.key = d.key)sql");
}

/// A range that has its table here keeps it.
void merge_ranges(SQLite::Database& db) {
  db.exec(R"sql(
    INSERT OR IGNORE INTO range (device_id, shape, rest, size, first, last, policy, determinism,
      hash, bytes, data, created)
    SELECT device.id, theirs.shape, theirs.rest, theirs.size, theirs.first, theirs.last,
      theirs.policy, theirs.determinism, theirs.hash, theirs.bytes, theirs.data, theirs.created
    FROM other.range AS theirs
      JOIN other.device AS d ON d.id = theirs.device_id JOIN device ON device.key = d.key)sql");
}

/// A key that has its winner here keeps it; the other file's rows join the evidence.
/// Without code their rows name none either: a key could be that of any code here.
std::int64_t merge_measurements(SQLite::Database& db, bool with_code) {
  const std::string rows = their_rows("measurement") + kTheirConfig;
  const int added = db.exec(fmt::format(R"sql(
    INSERT OR IGNORE INTO measurement (device_id, problem_id, policy, determinism, toolchain_id,
      config_id, predicted_ns, round, verified, median_ns, low_ns, high_ns, samples, failure,
      detail, joules, sm_mhz, binary_key, launch, seal, winner, created)
    SELECT device.id, problem.id, theirs.policy, theirs.determinism, toolchain.id, config.id,
      predicted_ns, round, verified, median_ns, low_ns, high_ns, samples, failure, detail,
      joules, sm_mhz, {2}, launch, seal, theirs.winner AND NOT EXISTS (
        SELECT 1 FROM measurement AS mine WHERE mine.winner = 1 AND {1}),
      created
    {0} WHERE theirs.quarantined IS NULL)sql",
                                        rows, kSameKey, with_code ? "binary_key" : "''"));
  // Their winner's config may have been timed here by a search that was never finished. Its launch
  // at that time is not known, so it is verified once more before it runs.
  SQLite::Statement marked(db, fmt::format(R"sql(
    UPDATE measurement SET winner = 1
    WHERE failure IS NULL AND quarantined IS NULL AND verified = 1 AND id IN (
      SELECT same.id {0} JOIN measurement AS same ON same.device_id = device.id AND
          same.problem_id = problem.id AND same.policy = theirs.policy AND
          same.determinism = theirs.determinism AND same.toolchain_id = toolchain.id AND
          same.config_id = config.id
      WHERE theirs.winner = 1 AND theirs.quarantined IS NULL AND NOT EXISTS (
        SELECT 1 FROM measurement AS mine WHERE mine.winner = 1 AND {1})) RETURNING id)sql",
                                           rows, kSameKey));
  std::vector<std::int64_t> winners;
  while (marked.executeStep()) winners.push_back(marked.getColumn(0).getInt64());
  for (const std::int64_t id : winners) seal_measurement(db, id);
  return added;
}

/// `path` as an SQL string.
std::string quoted(const std::filesystem::path& path) {
  std::string text = "'";
  for (const char c : path.string()) text += c == '\'' ? std::string("''") : std::string(1, c);
  return text + "'";
}

/// Machine code and what names it is taken from trusted layers only. Errors: database (names `from`
/// where that file cannot be read or is damaged). Throws what SQLite throws of `db`.
Result<ImportReport> merge(SQLite::Database& db, Layer& from) {
  const auto attached = guarded(from.path, [&]() -> Result<std::unique_ptr<Attached>> {
    return std::make_unique<Attached>(db, from);
  });
  if (!attached) return tl::unexpected(attached.error());
  SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
  ImportReport report{.trusted = from.trusted};
  merge_values(db);
  if (from.trusted) {
    report.binaries = merge_code(db);
    merge_envelopes(db);
  }
  merge_searches(db);
  merge_peaks(db);
  merge_limits(db);
  merge_fits(db);
  merge_ranges(db);
  report.measurements = merge_measurements(db, from.trusted);
  transaction.commit();
  return report;
}

/// Removes the evidence that Transfer::export_to() leaves out. The space it took is free pages.
void keep_fastest(SQLite::Database& db, int fastest) {
  SQLite::Statement slower(db, R"sql(
    DELETE FROM measurement WHERE winner = 0 AND round <> 'race' AND
      config_id NOT IN (SELECT config_id FROM measurement WHERE winner = 1) AND
      id NOT IN (SELECT id FROM (SELECT id, row_number() OVER (
          PARTITION BY device_id, problem_id, policy, determinism, toolchain_id
          ORDER BY median_ns) AS place
        FROM measurement WHERE median_ns IS NOT NULL) WHERE place <= ?))sql");
  slower.bind(1, fastest);
  slower.exec();
  db.exec("DELETE FROM config WHERE id NOT IN (SELECT config_id FROM measurement)");
}

/// Whether a new file may take the place of `file`: the log of a database there would be replayed
/// over it.
Status replaceable(const std::filesystem::path& file, const std::vector<Layer>& layers) {
  std::error_code ignored;
  // A rename would put a plain file into the place of /dev/null.
  struct stat info {};
  if (::stat(file.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return fail(ErrorCode::bad_input, fmt::format("file = {}: it is {}, not a regular file",
                                                  file.string(), kind_of_file(info.st_mode)));
  for (const Layer& layer : layers)
    if (std::filesystem::equivalent(file, layer.path, ignored))
      return fail(ErrorCode::bad_input,
                  fmt::format("file = {}: is the database itself", file.string()));
  for (const char* suffix : {"-wal", "-journal"})
    if (std::filesystem::exists(file.string() + suffix, ignored))
      return fail(ErrorCode::bad_input,
                  fmt::format("file = {}: a database in use, {}{} lies beside it", file.string(),
                              file.filename().string(), suffix));
  return {};
}

}  // namespace

Status Transfer::export_to(const std::filesystem::path& file, int fastest) {
  const QuietLock lock(layers_.mutex());
  if (Status ok = replaceable(file, layers_.all()); !ok) return ok;
  // Written under another name and renamed: no reader ever sees half of it.
  const std::filesystem::path partial = fmt::format("{}.{}.tmp", file.string(), ::getpid());
  std::error_code ignored;
  std::filesystem::remove(partial, ignored);
  const Status written = guarded(file, [&]() -> Status {
    // Made here, so that it is this user's and the link that somebody may put there is not
    // followed.
    if (Status made = make_file(partial); !made) return made;
    layers_.own().db->exec(fmt::format("VACUUM INTO {}", quoted(partial)));
    auto out = open_copy(partial);
    if (!out) return tl::unexpected(out.error());
    // The copy is this user's alone, so it must not vouch for what others may have written.
    if (!layers_.own().trusted)
      out->db->exec(
          "DELETE FROM binary; DELETE FROM verification; UPDATE measurement SET binary_key = ''");
    for (Layer& layer : layers_.all())
      if (&layer != &layers_.own())
        if (auto merged = merge(*out->db, layer); !merged) return tl::unexpected(merged.error());
    if (Status few = unpackable(*out->db, layers_.own().path); !few) return few;
    if (fastest > 0) keep_fastest(*out->db, fastest);
    compress_again(*out->db);
    put_winners_first(*out->db);
    out->db->exec("VACUUM");
    // A reader on read-only media can make no write-ahead log.
    out->db->exec("PRAGMA journal_mode = DELETE");
    out->db.reset();
    std::filesystem::permissions(partial, std::filesystem::perms(0644));
    std::filesystem::rename(partial, file);
    return {};
  });
  for (const char* suffix : {"", "-wal", "-shm"})
    std::filesystem::remove(partial.string() + suffix, ignored);
  return written;
}

Result<ImportReport> Transfer::import_from(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored))
    return fail(ErrorCode::bad_input, fmt::format("file = {}: no such file", file.string()));
  auto layer = open_shipped(file);
  if (!layer) return tl::unexpected(layer.error());
  const QuietLock lock(layers_.mutex());
  if (Status ok = layers_.writable(); !ok) return tl::unexpected(ok.error());
  auto report = guarded(layers_.own().path,
                        [&]() -> Result<ImportReport> { return merge(*layers_.own().db, *layer); });
  if (Status kept = unmoved(layers_.own()); !kept) return tl::unexpected(kept.error());
  return report;
}

}  // namespace kiln
