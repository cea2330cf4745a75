// Merging files into the user's own: each is copied, checked and added to a pile of all of them,
// and the pile goes into the database in one transaction.
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>

#include "cache/exchange/attached_file.h"
#include "cache/exchange/merge_rows.h"
#include "cache/exchange/transfer.h"
#include "cache/keys.h"
#include "cache/layers/layers.h"
#include "cache/layers/schema.h"
#include "cache/records/maintenance.h"
#include "cache/records/row_checker.h"
#include "cache/rows/rows.h"

namespace kiln {
namespace {

std::int64_t number_of(SQLite::Database& db, const char* query) {
  return db.execAndGet(query).getInt64();
}

Status mergeable(const std::filesystem::path& file, const Layer& own) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored))
    return fail(ErrorCode::bad_input, fmt::format("file = {}: no such file", file.string()));
  if (std::filesystem::equivalent(file, own.path, ignored))
    return fail(ErrorCode::bad_input,
                fmt::format("file = {}: is the database itself", file.string()));
  return {};
}

/// Fingerprints of a file's devices, by id.
std::map<std::int64_t, DeviceCaps> devices_of(SQLite::Database& db) {
  std::map<std::int64_t, DeviceCaps> devices;
  SQLite::Statement row(db, "SELECT id FROM device");
  std::vector<std::int64_t> ids;
  while (row.executeStep()) ids.push_back(row.getColumn(0).getInt64());
  for (const std::int64_t id : ids)
    if (const auto device = read_device(db, id)) devices.emplace(id, *device);
  return devices;
}

/// Removes rows of devices that were not asked for, and code that only they named. Returns how many
/// measurements.
std::int64_t keep_device(SQLite::Database& db, const std::string& wanted) {
  const std::int64_t before = number_of(db, "SELECT count(*) FROM measurement");
  for (const auto& [id, device] : devices_of(db)) {
    if (fingerprint(device).find(wanted) != std::string::npos) continue;
    for (const char* table : {"measurement", "search", "peak", "limits", "fit", "range"})
      db.exec(fmt::format("DELETE FROM {} WHERE device_id = {}", table, id));
    db.exec(fmt::format("DELETE FROM device WHERE id = {}", id));
  }
  db.exec(R"sql(
DELETE FROM binary WHERE key NOT IN (SELECT binary_key FROM measurement);
DELETE FROM verification WHERE binary_key NOT IN (SELECT key FROM binary);
DELETE FROM source WHERE id NOT IN (SELECT source_id FROM binary WHERE source_id IS NOT NULL);
DELETE FROM problem WHERE id NOT IN (SELECT problem_id FROM measurement);
DELETE FROM config WHERE id NOT IN (SELECT config_id FROM measurement))sql");
  return before - number_of(db, "SELECT count(*) FROM measurement");
}

/// A private copy of a file, of today's schema and without its bad rows.
Result<Layer> sound_copy(const std::filesystem::path& file, const MergeOptions& options,
                         MergedFile& seen) {
  auto from = open_to_copy(file);
  if (!from) return from;
  auto copy = open_scratch(file);
  if (!copy) return copy;
  return guarded(file, [&]() -> Result<Layer> {
    seen.trusted = copy->trusted = from->trusted;
    seen.schema = from->db->execAndGet("PRAGMA user_version").getInt();
    copy_database(*copy->db, "main", *from);
    if (Status done = migrate(*copy->db, file.string()); !done) return tl::unexpected(done.error());
    CheckReport report;
    const std::vector<BadRow> bad = check_rows(*copy, report);
    seen.left_out = std::move(report.problems);
    if (!seen.left_out.empty()) remove_rows(*copy, bad);
    if (!options.device.empty()) seen.other_devices = keep_device(*copy->db, options.device);
    seen.measurements = number_of(*copy->db, "SELECT count(*) FROM measurement");
    seen.winners = number_of(*copy->db, "SELECT count(*) FROM measurement WHERE winner = 1");
    return std::move(*copy);
  });
}

/// Where all files come together. The table `claimed` says which file calls what its winner.
Result<Layer> empty_pile() {
  auto pile = open_scratch("(temporary file of the merge)");
  if (!pile) return pile;
  return guarded(pile->path, [&]() -> Result<Layer> {
    if (Status made = migrate(*pile->db, pile->path.string()); !made)
      return tl::unexpected(made.error());
    pile->db->exec(
        "CREATE TABLE claimed (measurement_id INTEGER NOT NULL, file INTEGER NOT NULL, "
        "PRIMARY KEY (measurement_id, file)) WITHOUT ROWID, STRICT");
    return std::move(*pile);
  });
}

Status add_to_pile(Layer& pile, Layer& copy, std::size_t number) {
  return guarded(pile.path, [&]() -> Status {
    const Attached attached(*pile.db, copy);
    SQLite::Transaction transaction(*pile.db);
    MergeReport ignored;
    merge_rows(*pile.db, Other::file, copy.trusted, ignored);
    pile.db->exec(fmt::format(
        "INSERT OR IGNORE INTO claimed SELECT id, {} FROM claim WHERE winner = 1", number));
    forget_merge(*pile.db);
    transaction.commit();
    return {};
  });
}

std::vector<MergedDevice> devices_of_pile(SQLite::Database& pile, SQLite::Database& own) {
  std::vector<MergedDevice> devices;
  for (const auto& [id, device] : devices_of(pile)) {
    const std::string rows =
        fmt::format("SELECT count(*) FROM measurement WHERE device_id = {}", id);
    MergedDevice merged{
        .device = device,
        .measurements = number_of(pile, rows.c_str()),
        .winners =
            number_of(pile, (rows + " AND id IN (SELECT measurement_id FROM claimed)").c_str()),
    };
    SQLite::Statement here(own,
                           "SELECT 1 FROM measurement WHERE device_id = "
                           "(SELECT id FROM device WHERE key = ?) LIMIT 1");
    here.bind(1, key_text(device));
    merged.was_here = here.executeStep();
    devices.push_back(std::move(merged));
  }
  return devices;
}

/// Whose winner a contender is.
void name_files(SQLite::Database& db, const std::filesystem::path& own,
                const std::vector<std::filesystem::path>& files, const BestKey& key,
                Contender& contender) {
  constexpr const char* kRow = R"sql(
    FROM {0}measurement AS won JOIN {0}device AS d ON d.id = won.device_id
      JOIN {0}problem AS p ON p.id = won.problem_id
      JOIN {0}toolchain AS t ON t.id = won.toolchain_id
      JOIN {0}config AS c ON c.id = won.config_id {1}
    WHERE d.key = ?1 AND p.key = ?2 AND won.policy = ?3 AND won.determinism = ?4 AND
      t.key = ?5 AND c.text = ?6)sql";
  const auto bind = [&](SQLite::Statement& row) {
    row.bind(1, key_text(key.device));
    row.bind(2, key_text(key.gemm));
    row.bind(3, key.policy);
    bind_value(row, 4, to_value(key.determinism));
    row.bind(5, key_text(contender.validators));
    row.bind(6, text(contender.measured.config));
  };
  SQLite::Statement here(
      db,
      fmt::format("SELECT 1{}", fmt::format(kRow, "main.", "JOIN temp.held ON held.id = won.id")));
  bind(here);
  if (here.executeStep()) contender.files.push_back(own);
  SQLite::Statement there(
      db,
      fmt::format("SELECT DISTINCT file{} ORDER BY file",
                  fmt::format(kRow, "other.", "JOIN other.claimed ON measurement_id = won.id")));
  bind(there);
  while (there.executeStep())
    contender.files.push_back(files.at(static_cast<std::size_t>(there.getColumn(0).getInt64())));
}

Status merge_pile(Layer& own, Layer& pile, const std::vector<std::filesystem::path>& files,
                  bool dry_run, MergeReport& report) {
  return guarded(own.path, [&]() -> Status {
    const Attached attached(*own.db, pile);
    SQLite::Transaction transaction(*own.db, SQLite::TransactionBehavior::IMMEDIATE);
    report.devices = devices_of_pile(*pile.db, *own.db);
    merge_rows(*own.db, Other::pile, true, report);  // the pile holds trusted code only
    report.conflicts = choose_winners(*own.db, report);
    for (MergeConflict& conflict : report.conflicts)
      for (Contender* contender : {&conflict.kept, &conflict.other})
        name_files(*own.db, own.path, files, conflict.key, *contender);
    forget_merge(*own.db);
    if (dry_run) return {};
    transaction.commit();
    // Not left to the last one who closes it, whose connection may be read only: a copy of the file
    // without its log has the rows.
    own.db->exec("PRAGMA wal_checkpoint(PASSIVE)");
    return {};
  });
}

Status none_of_device(const std::string& device, const std::vector<MergedFile>& files) {
  std::int64_t others = 0;
  for (const MergedFile& file : files) others += file.other_devices;
  return fail(ErrorCode::bad_input,
              fmt::format("device = \"{}\": no file has measurements of such a device; {} are of "
                          "others",
                          device, others));
}

}  // namespace

Result<MergeReport> Transfer::merge_from(const std::vector<std::filesystem::path>& files,
                                         const MergeOptions& options) {
  const QuietLock lock(layers_.mutex());
  if (Status ok = layers_.writable(); !ok) return tl::unexpected(ok.error());
  for (const std::filesystem::path& file : files)
    if (Status ok = mergeable(file, layers_.own()); !ok) return tl::unexpected(ok.error());
  auto pile = empty_pile();
  if (!pile) return tl::unexpected(pile.error());
  MergeReport report;
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (options.progress) options.progress(i, files[i]);
    MergedFile& seen = report.files.emplace_back(MergedFile{.file = files[i]});
    auto copy = sound_copy(files[i], options, seen);
    if (!copy) return tl::unexpected(copy.error());
    if (Status added = add_to_pile(*pile, *copy, i); !added) return tl::unexpected(added.error());
    rows += seen.measurements;
  }
  if (!options.device.empty() && rows == 0)
    if (Status none = none_of_device(options.device, report.files); !none)
      return tl::unexpected(none.error());
  if (Status done = merge_pile(layers_.own(), *pile, files, options.dry_run, report); !done)
    return tl::unexpected(done.error());
  if (options.progress) options.progress(files.size(), layers_.own().path);
  if (Status kept = unmoved(layers_.own()); !kept) return tl::unexpected(kept.error());
  return report;
}

}  // namespace kiln
