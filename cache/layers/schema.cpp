#include "cache/layers/schema.h"

#include <SQLiteCpp/Savepoint.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cache/keys.h"
#include "cache/layers/code_by_tokens.h"
#include "cache/layers/fast_numerics.h"
#include "cache/layers/file_schema.h"
#include "cache/layers/proved_code.h"
#include "cache/rows/range_kernels.h"
#include "cache/rows/seal.h"

namespace kiln {
namespace {

// Blobs live in a rowid table of their own: scanning `binary` then touches no overflow pages.
// `winner` marks the one row a key dispatches to; the partial index keeps it one. `verification`
// says under which later runtimes stored code passed again; it speaks of shipped files' code too.
constexpr const char* kVersion1 = R"sql(
CREATE TABLE device (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE,
  vendor TEXT NOT NULL, arch TEXT NOT NULL, model TEXT NOT NULL,
  avx2_fma INTEGER NOT NULL, avx512 INTEGER NOT NULL, avx512_bf16 INTEGER NOT NULL,
  avx512_vnni INTEGER NOT NULL, amx_bf16 INTEGER NOT NULL, amx_int8 INTEGER NOT NULL,
  compute_units INTEGER NOT NULL, l1_bytes INTEGER NOT NULL, l2_bytes INTEGER NOT NULL,
  l3_bytes INTEGER NOT NULL, ghz REAL NOT NULL) STRICT;

CREATE TABLE toolchain (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE,
  template_hash TEXT NOT NULL, space_version INTEGER NOT NULL,
  compiler TEXT NOT NULL, runtime TEXT NOT NULL) STRICT;

CREATE TABLE problem (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, class TEXT NOT NULL,
  m INTEGER NOT NULL, n INTEGER NOT NULL, k INTEGER NOT NULL, batch INTEGER NOT NULL,
  a_dtype TEXT NOT NULL, a_order TEXT NOT NULL, a_transposed INTEGER NOT NULL,
  a_ld INTEGER NOT NULL, a_stride INTEGER NOT NULL,
  b_dtype TEXT NOT NULL, b_order TEXT NOT NULL, b_transposed INTEGER NOT NULL,
  b_ld INTEGER NOT NULL, b_stride INTEGER NOT NULL,
  c_dtype TEXT NOT NULL, c_order TEXT NOT NULL, c_transposed INTEGER NOT NULL,
  c_ld INTEGER NOT NULL, c_stride INTEGER NOT NULL,
  d_dtype TEXT NOT NULL, d_order TEXT NOT NULL, d_transposed INTEGER NOT NULL,
  d_ld INTEGER NOT NULL, d_stride INTEGER NOT NULL,
  accumulator TEXT NOT NULL, bias TEXT NOT NULL, activation TEXT NOT NULL,
  residual INTEGER NOT NULL, alignment INTEGER NOT NULL, b_packed INTEGER NOT NULL) STRICT;
CREATE INDEX problem_class ON problem(class);

CREATE TABLE config (
  id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE, family TEXT NOT NULL) STRICT;

CREATE TABLE session (
  id INTEGER PRIMARY KEY, started TEXT NOT NULL, command TEXT NOT NULL, kiln TEXT NOT NULL,
  pid INTEGER NOT NULL, seed INTEGER NOT NULL, budget_seconds REAL NOT NULL) STRICT;

CREATE TABLE source (
  id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, bytes INTEGER NOT NULL,
  data BLOB NOT NULL) STRICT;

CREATE TABLE binary (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, source_key TEXT NOT NULL,
  compiler TEXT NOT NULL, source_id INTEGER REFERENCES source(id), hash TEXT NOT NULL,
  bytes INTEGER NOT NULL, created TEXT NOT NULL, quarantined TEXT) STRICT;
CREATE INDEX binary_source ON binary(source_key);
CREATE TABLE binary_data (
  id INTEGER PRIMARY KEY REFERENCES binary(id) ON DELETE CASCADE, data BLOB NOT NULL) STRICT;

CREATE TABLE measurement (
  id INTEGER PRIMARY KEY,
  device_id INTEGER NOT NULL REFERENCES device(id),
  problem_id INTEGER NOT NULL REFERENCES problem(id),
  policy TEXT NOT NULL, determinism TEXT NOT NULL,
  toolchain_id INTEGER NOT NULL REFERENCES toolchain(id),
  config_id INTEGER NOT NULL REFERENCES config(id),
  session_id INTEGER REFERENCES session(id),
  predicted_ns REAL NOT NULL, round TEXT NOT NULL, verified INTEGER NOT NULL,
  median_ns REAL, low_ns REAL, high_ns REAL, samples INTEGER,
  failure TEXT, detail TEXT, binary_key TEXT NOT NULL,
  winner INTEGER NOT NULL DEFAULT 0, created TEXT NOT NULL, quarantined TEXT,
  CHECK ((failure IS NULL) = (median_ns IS NOT NULL)),
  UNIQUE (device_id, problem_id, policy, determinism, toolchain_id, config_id)) STRICT;
CREATE UNIQUE INDEX measurement_winner
  ON measurement(device_id, problem_id, policy, determinism, toolchain_id) WHERE winner = 1;

CREATE TABLE verification (
  binary_key TEXT NOT NULL, problem_key TEXT NOT NULL, runtime TEXT NOT NULL,
  created TEXT NOT NULL, PRIMARY KEY (binary_key, problem_key, runtime)) STRICT;
)sql";

// GPUs: what they have stands behind the fields there were, in columns and in the key's text.
constexpr const char* kVersion2 = R"sql(
ALTER TABLE device ADD COLUMN sm INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN arch_specific INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN wave INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN shared_block_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN shared_unit_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN registers_unit INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN threads_unit INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN threads_block INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN memory_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN memory_gbs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN chiplets INTEGER NOT NULL DEFAULT 0;
UPDATE device SET key = key || 'sm=0;arch_specific=0;wave=0;shared_block_bytes=0;'
  || 'shared_unit_bytes=0;registers_unit=0;threads_unit=0;threads_block=0;memory_bytes=0;'
  || 'memory_gbs=0;chiplets=0;';
)sql";

// Problems whose operands have scales: behind the fields there were, as above.
constexpr const char* kVersion3 = R"sql(
UPDATE problem SET key = key || 'scale_a=none;scale_b=none;',
  class = class || 'scale_a=none;scale_b=none;';
UPDATE verification SET problem_key =
  replace(problem_key, ' threads=', 'scale_a=none;scale_b=none; threads=');
)sql";

// A winner's launch (generator/space/launch_text.h), and seals over what belongs together
// (cache/rows/seal.h). The launch of a host kernel is its ABI and revision alone. That of an older
// GPU record is not known: the record is verified once more before it runs. Code is known by its
// tokens (generator/render/code_key.h), where it was by its text; the version of the space was
// never used.
constexpr const char* kVersion4 = R"sql(
ALTER TABLE measurement ADD COLUMN launch TEXT NOT NULL DEFAULT '';
ALTER TABLE measurement ADD COLUMN seal TEXT NOT NULL DEFAULT '';
ALTER TABLE binary ADD COLUMN seal TEXT NOT NULL DEFAULT '';
ALTER TABLE binary RENAME COLUMN source_key TO code_key;
UPDATE measurement SET launch = 'abi=1;revision=1;' WHERE winner = 1 AND
  device_id IN (SELECT id FROM device WHERE vendor = 'cpu');
UPDATE toolchain SET key = replace(key, 'space_version=1;', '');
ALTER TABLE toolchain DROP COLUMN space_version;
)sql";

void to_version4(SQLite::Database& db) {
  know_code_by_tokens(db);
  seal_rows(db);
}

// How far each key's space was searched. A winner without a row is older: nothing is known.
// And the most that a device (its compute_units are the threads) did in operands of one type.
constexpr const char* kVersion5 = R"sql(
CREATE TABLE search (
  id INTEGER PRIMARY KEY,
  device_id INTEGER NOT NULL REFERENCES device(id),
  problem_id INTEGER NOT NULL REFERENCES problem(id),
  policy TEXT NOT NULL, determinism TEXT NOT NULL,
  toolchain_id INTEGER NOT NULL REFERENCES toolchain(id),
  seconds REAL NOT NULL, budget_seconds REAL NOT NULL, spent_seconds REAL NOT NULL,
  measured INTEGER NOT NULL, failed INTEGER NOT NULL, enumerated INTEGER NOT NULL,
  whole_space INTEGER NOT NULL, interrupted INTEGER NOT NULL, created TEXT NOT NULL,
  UNIQUE (device_id, problem_id, policy, determinism, toolchain_id)) STRICT;

CREATE TABLE peak (
  id INTEGER PRIMARY KEY, device_id INTEGER NOT NULL REFERENCES device(id),
  dtype TEXT NOT NULL, flops REAL NOT NULL, created TEXT NOT NULL,
  UNIQUE (device_id, dtype)) STRICT;
)sql";

// The model of a class of problems, fitted to a device's measurements (FittedModel::text).
constexpr const char* kVersion6 = R"sql(
CREATE TABLE fit (
  id INTEGER PRIMARY KEY, device_id INTEGER NOT NULL REFERENCES device(id),
  class TEXT NOT NULL, policy TEXT NOT NULL, determinism TEXT NOT NULL,
  hash TEXT NOT NULL, bytes INTEGER NOT NULL, data BLOB NOT NULL, created TEXT NOT NULL,
  UNIQUE (device_id, class, policy, determinism)) STRICT;
)sql";

// A tuned range of a size: `rest` is the key of its problems without that size, `data` the table
// from size to kernel (RangeTable::text). Its kernels are winners of problems of the range.
constexpr const char* kVersion7 = R"sql(
CREATE TABLE range (
  id INTEGER PRIMARY KEY, device_id INTEGER NOT NULL REFERENCES device(id),
  shape TEXT NOT NULL, rest TEXT NOT NULL, size TEXT NOT NULL,
  first INTEGER NOT NULL, last INTEGER NOT NULL,
  policy TEXT NOT NULL, determinism TEXT NOT NULL,
  hash TEXT NOT NULL, bytes INTEGER NOT NULL, data BLOB NOT NULL, created TEXT NOT NULL,
  UNIQUE (device_id, rest, size, first, last, policy, determinism)) STRICT;
)sql";

// A bias of D's type: behind the fields there were, wherever keys are kept. Winners' seals cover
// the problem's key: those that were whole are made anew.
void to_version8(SQLite::Database& db) {
  std::vector<std::int64_t> whole;
  SQLite::Statement winners(db, "SELECT id FROM measurement WHERE winner = 1");
  while (winners.executeStep()) {
    const std::int64_t id = winners.getColumn(0).getInt64();
    if (measurement_sealed(db, id)) whole.push_back(id);
  }
  winners.reset();
  db.exec(R"sql(
UPDATE problem SET key = key || 'bias_as_d=0;', class = class || 'bias_as_d=0;';
UPDATE fit SET class = class || 'bias_as_d=0;';
UPDATE range SET rest = rest || 'bias_as_d=0;';
UPDATE verification SET problem_key = replace(problem_key, ' threads=', 'bias_as_d=0; threads=');
)sql");
  for (const std::int64_t id : whole) seal_measurement(db, id);
  rename_proved_code(db);
}

// Numerics, which fields of keys do not name where they are the usual ones. Kernels of 8-bit floats
// were verified as `fast` ones are now, and most sum as such: theirs were problems of that kind.
// Kernels of ranges have rows of their own. Classes of a CPU's code name the layouts of A and B.
void to_version9(SQLite::Database& db) {
  make_small_floats_fast(db);
  keep_range_kernels(db);
  name_layouts_of_proved_code(db);
}

// Code and sources compressed with dictionaries (cache/codec/dictionaries.h), which an older kiln
// cannot read. Frames that are there stay as they are; Maintenance::compact() makes them anew.
constexpr const char* kVersion13 = "";

// What a machine was seen to reach (MachineLimits).
constexpr const char* kVersion17 = R"sql(
CREATE TABLE limits (
  id INTEGER PRIMARY KEY, device_id INTEGER NOT NULL UNIQUE REFERENCES device(id),
  fp32_flops REAL NOT NULL, fp64_flops REAL NOT NULL, bf16_flops REAL NOT NULL,
  int8_flops REAL NOT NULL, l1_read REAL NOT NULL, l2_read REAL NOT NULL,
  l3_read REAL NOT NULL, dram_read REAL NOT NULL, created TEXT NOT NULL) STRICT;
)sql";

/// What a version brings beside columns of the problem.
struct Step {
  int version;
  const char* sql;
  void (*then)(SQLite::Database& db) = nullptr;
};
constexpr Step kSteps[] = {{1, kVersion1},
                           {2, kVersion2},
                           {3, kVersion3},
                           {4, kVersion4, to_version4},
                           {5, kVersion5},
                           {6, kVersion6},
                           {7, kVersion7, name_proved_code},
                           {8, "", to_version8},
                           {9, "", to_version9},
                           {13, kVersion13},
                           {17, kVersion17}};

/// A column of measurements that a version brings. Rows of before have no value.
struct ColumnOfMeasurements {
  int version;
  const char *name, *type;
};
constexpr ColumnOfMeasurements kColumnsOfMeasurements[] = {{20, "joules", "REAL"},
                                                           {20, "sm_mhz", "INTEGER"}};

/// Statements that add the columns of the problem and of measurements that this version brings.
/// Those of the first one are in the tables that it makes.
std::string columns_of(int version) {
  std::string sql;
  for (const auto& [since, name, type] : kColumnsOfMeasurements)
    if (since == version)
      sql += fmt::format("ALTER TABLE measurement ADD COLUMN {} {};\n", name, type);
  for (std::size_t i = 0; i < kGemmFieldCount; ++i)
    if (kGemmFields[i].since == version && version > 1)
      sql += fmt::format("ALTER TABLE problem ADD COLUMN {};\n", column_text(kGemmFields[i]));
  return sql;
}

std::vector<Migration> all_migrations() {
  std::vector<Migration> all;
  const int last = std::max({std::rbegin(kSteps)->version, kGemmFields.back().since,
                             std::rbegin(kColumnsOfMeasurements)->version});
  for (int version = 1; version <= last; ++version) {
    const Step* const step = std::ranges::find(kSteps, version, &Step::version);
    const bool found = step != std::end(kSteps);
    all.push_back(
        {version, columns_of(version) + (found ? step->sql : ""), found ? step->then : nullptr});
  }
  return all;
}

}  // namespace

std::span<const Migration> migrations() {
  static const auto* const all = new std::vector<Migration>(all_migrations());
  return *all;
}

bool reads_as_today(int version) {
  return std::ranges::all_of(migrations(), [&](const Migration& step) {
    return step.version <= version ||
           (step.sql == columns_of(step.version) && step.then == nullptr);
  });
}

void show_todays_columns(SQLite::Database& db, int version) {
  std::string columns;
  for (const GemmField& field : kGemmFields)
    if (field.since > version) columns += fmt::format(", {}", default_column(field));
  if (!columns.empty())
    db.exec(fmt::format("CREATE TEMP VIEW problem AS SELECT *{} FROM main.problem", columns));
  std::string measured;
  for (const auto& [since, name, type] : kColumnsOfMeasurements)
    if (since > version) measured += fmt::format(", NULL AS {}", name);
  if (!measured.empty())
    db.exec(
        fmt::format("CREATE TEMP VIEW measurement AS SELECT *{} FROM main.measurement", measured));
}

namespace {

void run(const Migration& step, SQLite::Database& db) {
  db.exec(step.sql);
  if (step.then != nullptr) step.then(db);
}

/// Between what a file of this version has and what the steps up to it make.
std::string difference(const FileSchema& found, int version, std::span<const Migration> steps) {
  const bool todays = steps.data() == migrations().data() && version == schema_version();
  if (todays && first_difference(found.objects(), todays_schema()).empty()) return {};
  SQLite::Database made(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  made.exec("PRAGMA foreign_keys = ON");
  for (const Migration& step : steps)
    if (step.version <= version) run(step, made);
  return first_difference(found.objects(), FileSchema::of(made).objects());
}

}  // namespace

Result<int> read_version(SQLite::Database& db, const std::string& name,
                         std::span<const Migration> steps) {
  // At one look: another process may be making the file just now.
  SQLite::Savepoint look(db, "kiln_look");
  const int version = db.execAndGet("PRAGMA user_version").getInt();
  const int application = db.execAndGet("PRAGMA application_id").getInt();
  const bool empty = db.execAndGet("SELECT count(*) FROM sqlite_schema").getInt() == 0;
  const FileSchema schema = FileSchema::of(db);
  look.release();
  if (empty && version == 0) return 0;
  if (application != kApplicationId) {
    return fail(
        ErrorCode::database,
        fmt::format("database {}: application_id = {:#x}: another program's file, not kiln's", name,
                    application));
  }
  const int known = steps.back().version;
  if (version > known) {
    return fail(ErrorCode::database,
                fmt::format("database {}: schema version {} is newer than {}, the newest this kiln "
                            "knows; it was left untouched",
                            name, version, known));
  }
  if (const std::string other = difference(schema, version, steps); !other.empty())
    return fail(ErrorCode::database,
                fmt::format("database {}: its tables, indexes, views and triggers are not those of "
                            "schema version {}: {}",
                            name, version, other));
  return version;
}

bool is_newer(SQLite::Database& db) {
  return db.execAndGet("PRAGMA application_id").getInt() == kApplicationId &&
         db.execAndGet("PRAGMA user_version").getInt() > schema_version();
}

Status migrate(SQLite::Database& db, const std::string& name, std::span<const Migration> steps) {
  auto version = read_version(db, name, steps);
  if (!version) return tl::unexpected(version.error());
  if (*version == steps.back().version) return {};
  SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
  // Another process may have been here between the look and the lock.
  version = read_version(db, name, steps);
  if (!version) return tl::unexpected(version.error());
  for (const Migration& step : steps) {
    if (step.version <= *version) continue;
    run(step, db);
    db.exec(fmt::format("PRAGMA user_version = {}", step.version));
  }
  db.exec(fmt::format("PRAGMA application_id = {}", kApplicationId));
  transaction.commit();
  return {};
}

}  // namespace kiln
