#include "cache/exchange/merge_rows.h"

#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include "cache/exchange/attached_file.h"
#include "cache/keys.h"
#include "cache/rows/rows.h"
#include "cache/rows/seal.h"

namespace kiln {
namespace {

std::int64_t count(SQLite::Database& db, const char* query) {
  return db.execAndGet(query).getInt64();
}

/// What lies behind a row of `measurement`, the weightiest first, then all its contents: of two
/// different rows one is always larger.
std::string weight(std::string_view row) {
  return fmt::format(R"sql(({0}.quarantined IS NULL, {0}.binary_key <> '',
      coalesce({0}.failure IN ('wrong result', 'out of bounds'), 0), {0}.failure IS NULL,
      {0}.verified, CASE {0}.round WHEN 'race' THEN 2 WHEN 'second' THEN 1 ELSE 0 END,
      coalesce({0}.samples, 0), -coalesce(({0}.high_ns - {0}.low_ns) / {0}.median_ns, 0),
      {0}.created, -coalesce({0}.median_ns, 0), -coalesce({0}.high_ns, 0), {0}.predicted_ns,
      coalesce({0}.failure, ''), coalesce({0}.detail, ''), {0}.binary_key,
      coalesce({0}.joules, 0), coalesce({0}.sm_mhz, 0)))sql",
                     row);
}

/// Code of one key is the same bytes on every machine; where it is not, that which was made first
/// stays, whatever the order of files.
void merge_code_of_keys(SQLite::Database& db, MergeReport& report) {
  constexpr const char* kOlder = R"sql(
    FROM other.binary AS theirs WHERE theirs.key = binary.key AND theirs.quarantined IS NULL AND
      binary.quarantined IS NULL)sql";
  db.exec(
      fmt::format("UPDATE binary SET created = theirs.created {} AND theirs.hash = binary.hash "
                  "AND theirs.created < binary.created",
                  kOlder));
  const int exchanged = db.exec(
      fmt::format("DELETE FROM binary WHERE EXISTS (SELECT 1 {} AND theirs.hash <> binary.hash AND "
                  "(theirs.created, theirs.hash) < (binary.created, binary.hash))",
                  kOlder));
  report.binaries += merge_code(db) - exchanged;
}

/// Of two extents the one of the whole space, else the one that spent more of a budget: a search
/// that was cut short does not hide one that ended, whose machine was slower.
void merge_extents(SQLite::Database& db) {
  std::string fields, updates;
  const auto add = [&](std::string_view name, const auto&) {
    fields += fmt::format("{}, ", name);
    updates += fmt::format("{0} = excluded.{0}, ", name);
  };
  const SearchExtent any;
  for_each_search_field(any, add);
  const auto order = [](std::string_view row) {
    return fmt::format(
        "({0}.whole_space, {0}.spent_seconds, {0}.measured, {0}.enumerated, {0}.created, "
        "{0}.failed, {0}.seconds, {0}.budget_seconds, {0}.interrupted)",
        row);
  };
  db.exec(fmt::format(R"sql(
    INSERT INTO search (device_id, problem_id, policy, determinism, toolchain_id, {1} created)
    SELECT device.id, problem.id, theirs.policy, theirs.determinism, toolchain.id,
      {1} theirs.created {0} WHERE true
    ON CONFLICT (device_id, problem_id, policy, determinism, toolchain_id) DO UPDATE SET
      {2} created = excluded.created WHERE {3} > {4})sql",
                      their_rows("search"), fields, updates, order("excluded"), order("search")));
}

/// Of two models or tables of one key the newer.
void merge_newest(SQLite::Database& db) {
  constexpr const char* kOfDevice =
      " JOIN other.device AS d ON d.id = theirs.device_id JOIN device ON device.key = d.key "
      "WHERE true";
  db.exec(fmt::format(R"sql(
    INSERT INTO fit (device_id, class, policy, determinism, hash, bytes, data, created)
    SELECT device.id, theirs.class, theirs.policy, theirs.determinism, theirs.hash, theirs.bytes,
      theirs.data, theirs.created FROM other.fit AS theirs {}
    ON CONFLICT (device_id, class, policy, determinism) DO UPDATE SET
      hash = excluded.hash, bytes = excluded.bytes, data = excluded.data,
      created = excluded.created
    WHERE (excluded.created, excluded.hash) > (fit.created, fit.hash))sql",
                      kOfDevice));
  db.exec(fmt::format(R"sql(
    INSERT INTO range (device_id, shape, rest, size, first, last, policy, determinism,
      hash, bytes, data, created)
    SELECT device.id, theirs.shape, theirs.rest, theirs.size, theirs.first, theirs.last,
      theirs.policy, theirs.determinism, theirs.hash, theirs.bytes, theirs.data, theirs.created
    FROM other.range AS theirs {}
    ON CONFLICT (device_id, rest, size, first, last, policy, determinism) DO UPDATE SET
      shape = excluded.shape, hash = excluded.hash, bytes = excluded.bytes, data = excluded.data,
      created = excluded.created
    WHERE (excluded.created, excluded.hash) > (range.created, range.hash))sql",
                      kOfDevice));
}

/// Rows come as losers; choose_winners() has the say. A row that is replaced is so as a whole:
/// evidence and the name of the code that was verified never come from two files. Its launch stays
/// where the code is the same, since it was verified under that launch; else it is not known.
void merge_measurements(SQLite::Database& db, bool with_code, MergeReport& report) {
  const std::int64_t before = count(db, "SELECT count(*) FROM measurement");
  const int written = db.exec(fmt::format(
      R"sql(
    INSERT INTO measurement (device_id, problem_id, policy, determinism, toolchain_id,
      config_id, predicted_ns, round, verified, median_ns, low_ns, high_ns, samples, failure,
      detail, joules, sm_mhz, binary_key, launch, seal, winner, created)
    SELECT device.id, problem.id, theirs.policy, theirs.determinism, toolchain.id, config.id,
      theirs.predicted_ns, theirs.round, theirs.verified, theirs.median_ns, theirs.low_ns,
      theirs.high_ns, theirs.samples, theirs.failure, theirs.detail, theirs.joules,
      theirs.sm_mhz, {0}, theirs.launch,
      '', 0, theirs.created
    {1}{2} WHERE theirs.quarantined IS NULL
    ORDER BY device.id, problem.id, theirs.policy, theirs.determinism, toolchain.id, config.id
    ON CONFLICT (device_id, problem_id, policy, determinism, toolchain_id, config_id) DO UPDATE SET
      session_id = NULL, predicted_ns = excluded.predicted_ns, round = excluded.round,
      verified = excluded.verified, median_ns = excluded.median_ns, low_ns = excluded.low_ns,
      high_ns = excluded.high_ns, samples = excluded.samples, failure = excluded.failure,
      detail = excluded.detail, joules = excluded.joules, sm_mhz = excluded.sm_mhz,
      binary_key = excluded.binary_key, created = excluded.created,
      quarantined = NULL, seal = '',
      winner = CASE WHEN excluded.failure IS NULL THEN winner ELSE 0 END,
      launch = CASE WHEN excluded.failure IS NOT NULL THEN ''
        WHEN excluded.launch NOT IN ('', '{5}') THEN excluded.launch
        WHEN measurement.binary_key = excluded.binary_key OR measurement.launch = ''
          THEN measurement.launch ELSE '{5}' END
    WHERE {3} > {4})sql",
      with_code ? "theirs.binary_key" : "''", their_rows("measurement"), kTheirConfig,
      weight("excluded"), weight("measurement"), kUnknownLaunch));
  const std::int64_t added = count(db, "SELECT count(*) FROM measurement") - before;
  report.added += added;
  report.replaced += written - added;
}

/// Here perhaps a loser, in the other file a winner by the same code: it was verified under the
/// launch that is stored there.
void claim_winners(SQLite::Database& db, Other other, bool with_code) {
  db.exec(fmt::format(
      R"sql(
    CREATE TEMP TABLE claim AS
    SELECT mine.id, theirs.winner, theirs.launch, {} AS binary_key
    {}{} JOIN measurement AS mine ON mine.config_id = config.id AND {}
    WHERE theirs.quarantined IS NULL AND (theirs.launch <> '' OR {}))sql",
      with_code ? "theirs.binary_key" : "''", their_rows("measurement"), kTheirConfig, kSameKey,
      other == Other::file ? "theirs.winner = 1"
                           : "theirs.id IN (SELECT measurement_id FROM other.claimed)"));
  db.exec(fmt::format(R"sql(
    UPDATE measurement SET launch = claim.launch, seal = '' FROM claim
    WHERE measurement.id = claim.id AND measurement.binary_key = claim.binary_key AND
      measurement.launch IN ('', '{0}') AND claim.launch NOT IN ('', '{0}') AND
      measurement.winner = 0 AND measurement.failure IS NULL;
    UPDATE measurement SET launch = '{0}', seal = '' WHERE id IN (SELECT id FROM claim) AND
      launch = '' AND winner = 0 AND failure IS NULL)sql",
                      kUnknownLaunch));
}

}  // namespace

void merge_rows(SQLite::Database& db, Other other, bool with_code, MergeReport& report) {
  forget_merge(db);
  db.exec("CREATE TEMP TABLE held AS SELECT id, seal FROM measurement WHERE winner = 1");
  merge_values(db);
  if (with_code) {
    merge_code_of_keys(db, report);
    merge_envelopes(db);
  }
  merge_extents(db);
  merge_peaks(db);
  merge_limits(db);
  merge_newest(db);
  merge_measurements(db, with_code, report);
  claim_winners(db, other, with_code);
}

void forget_merge(SQLite::Database& db) {
  for (const char* table : {"held", "claim", "contest", "rival"})
    db.exec(fmt::format("DROP TABLE IF EXISTS temp.{}", table));
}

}  // namespace kiln
