#include "cache/layers/file_schema.h"

#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <tuple>

#include "cache/keys.h"
#include "cache/printable.h"

namespace kiln {
namespace {

// The columns of the problem that later versions brought stand behind those that are written here
// (kGemmFields).
constexpr SchemaObject kTodays[] = {
    {"index", "binary_source", "binary", "CREATE INDEX binary_source ON binary(code_key)"},
    {"index", "measurement_winner", "measurement",
     "CREATE UNIQUE INDEX measurement_winner\n"
     "  ON measurement(device_id, problem_id, policy, determinism, "
     "toolchain_id) WHERE winner = 1"},
    {"index", "problem_class", "problem", "CREATE INDEX problem_class ON problem(class)"},
    {"index", "sqlite_autoindex_binary_1", "binary", ""},
    {"index", "sqlite_autoindex_config_1", "config", ""},
    {"index", "sqlite_autoindex_device_1", "device", ""},
    {"index", "sqlite_autoindex_fit_1", "fit", ""},
    {"index", "sqlite_autoindex_limits_1", "limits", ""},
    {"index", "sqlite_autoindex_measurement_1", "measurement", ""},
    {"index", "sqlite_autoindex_peak_1", "peak", ""},
    {"index", "sqlite_autoindex_problem_1", "problem", ""},
    {"index", "sqlite_autoindex_range_1", "range", ""},
    {"index", "sqlite_autoindex_search_1", "search", ""},
    {"index", "sqlite_autoindex_source_1", "source", ""},
    {"index", "sqlite_autoindex_toolchain_1", "toolchain", ""},
    {"index", "sqlite_autoindex_verification_1", "verification", ""},
    {"table", "binary", "binary",
     "CREATE TABLE binary (\n"
     "  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, code_key TEXT NOT NULL,\n"
     "  compiler TEXT NOT NULL, source_id INTEGER REFERENCES source(id), hash TEXT NOT NULL,\n"
     "  bytes INTEGER NOT NULL, created TEXT NOT NULL, quarantined TEXT, "
     "seal TEXT NOT NULL DEFAULT '') STRICT"},
    {"table", "binary_data", "binary_data",
     "CREATE TABLE binary_data (\n"
     "  id INTEGER PRIMARY KEY REFERENCES binary(id) ON DELETE CASCADE, "
     "data BLOB NOT NULL) STRICT"},
    {"table", "config", "config",
     "CREATE TABLE config (\n"
     "  id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE, family TEXT NOT NULL) STRICT"},
    {"table", "device", "device",
     "CREATE TABLE device (\n"
     "  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE,\n"
     "  vendor TEXT NOT NULL, arch TEXT NOT NULL, model TEXT NOT NULL,\n"
     "  avx2_fma INTEGER NOT NULL, avx512 INTEGER NOT NULL, avx512_bf16 INTEGER NOT NULL,\n"
     "  avx512_vnni INTEGER NOT NULL, amx_bf16 INTEGER NOT NULL, amx_int8 INTEGER NOT NULL,\n"
     "  compute_units INTEGER NOT NULL, l1_bytes INTEGER NOT NULL, "
     "l2_bytes INTEGER NOT NULL,\n"
     "  l3_bytes INTEGER NOT NULL, ghz REAL NOT NULL, sm INTEGER NOT NULL DEFAULT 0, "
     "arch_specific INTEGER NOT NULL DEFAULT 0, wave INTEGER NOT NULL DEFAULT 0, "
     "shared_block_bytes INTEGER NOT NULL DEFAULT 0, "
     "shared_unit_bytes INTEGER NOT NULL DEFAULT 0, "
     "registers_unit INTEGER NOT NULL DEFAULT 0, threads_unit INTEGER NOT NULL DEFAULT 0, "
     "threads_block INTEGER NOT NULL DEFAULT 0, memory_bytes INTEGER NOT NULL DEFAULT 0, "
     "memory_gbs INTEGER NOT NULL DEFAULT 0, chiplets INTEGER NOT NULL DEFAULT 0) STRICT"},
    {"table", "fit", "fit",
     "CREATE TABLE fit (\n"
     "  id INTEGER PRIMARY KEY, device_id INTEGER NOT NULL REFERENCES device(id),\n"
     "  class TEXT NOT NULL, policy TEXT NOT NULL, determinism TEXT NOT NULL,\n"
     "  hash TEXT NOT NULL, bytes INTEGER NOT NULL, data BLOB NOT NULL, "
     "created TEXT NOT NULL,\n"
     "  UNIQUE (device_id, class, policy, determinism)) STRICT"},
    {"table", "limits", "limits",
     "CREATE TABLE limits (\n"
     "  id INTEGER PRIMARY KEY, device_id INTEGER NOT NULL UNIQUE REFERENCES device(id),\n"
     "  fp32_flops REAL NOT NULL, fp64_flops REAL NOT NULL, bf16_flops REAL NOT NULL,\n"
     "  int8_flops REAL NOT NULL, l1_read REAL NOT NULL, l2_read REAL NOT NULL,\n"
     "  l3_read REAL NOT NULL, dram_read REAL NOT NULL, created TEXT NOT NULL) STRICT"},
    {"table", "measurement", "measurement",
     "CREATE TABLE measurement (\n"
     "  id INTEGER PRIMARY KEY,\n"
     "  device_id INTEGER NOT NULL REFERENCES device(id),\n"
     "  problem_id INTEGER NOT NULL REFERENCES problem(id),\n"
     "  policy TEXT NOT NULL, determinism TEXT NOT NULL,\n"
     "  toolchain_id INTEGER NOT NULL REFERENCES toolchain(id),\n"
     "  config_id INTEGER NOT NULL REFERENCES config(id),\n"
     "  session_id INTEGER REFERENCES session(id),\n"
     "  predicted_ns REAL NOT NULL, round TEXT NOT NULL, verified INTEGER NOT NULL,\n"
     "  median_ns REAL, low_ns REAL, high_ns REAL, samples INTEGER,\n"
     "  failure TEXT, detail TEXT, binary_key TEXT NOT NULL,\n"
     "  winner INTEGER NOT NULL DEFAULT 0, created TEXT NOT NULL, quarantined TEXT, "
     "launch TEXT NOT NULL DEFAULT '', seal TEXT NOT NULL DEFAULT '', joules REAL, "
     "sm_mhz INTEGER,\n"
     "  CHECK ((failure IS NULL) = (median_ns IS NOT NULL)),\n"
     "  UNIQUE (device_id, problem_id, policy, determinism, toolchain_id, config_id)) STRICT"},
    {"table", "peak", "peak",
     "CREATE TABLE peak (\n"
     "  id INTEGER PRIMARY KEY, device_id INTEGER NOT NULL REFERENCES device(id),\n"
     "  dtype TEXT NOT NULL, flops REAL NOT NULL, created TEXT NOT NULL,\n"
     "  UNIQUE (device_id, dtype)) STRICT"},
    {"table", "problem", "problem",
     "CREATE TABLE problem (\n"
     "  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, class TEXT NOT NULL,\n"
     "  m INTEGER NOT NULL, n INTEGER NOT NULL, k INTEGER NOT NULL, batch INTEGER NOT NULL,\n"
     "  a_dtype TEXT NOT NULL, a_order TEXT NOT NULL, a_transposed INTEGER NOT NULL,\n"
     "  a_ld INTEGER NOT NULL, a_stride INTEGER NOT NULL,\n"
     "  b_dtype TEXT NOT NULL, b_order TEXT NOT NULL, b_transposed INTEGER NOT NULL,\n"
     "  b_ld INTEGER NOT NULL, b_stride INTEGER NOT NULL,\n"
     "  c_dtype TEXT NOT NULL, c_order TEXT NOT NULL, c_transposed INTEGER NOT NULL,\n"
     "  c_ld INTEGER NOT NULL, c_stride INTEGER NOT NULL,\n"
     "  d_dtype TEXT NOT NULL, d_order TEXT NOT NULL, d_transposed INTEGER NOT NULL,\n"
     "  d_ld INTEGER NOT NULL, d_stride INTEGER NOT NULL,\n"
     "  accumulator TEXT NOT NULL, bias TEXT NOT NULL, activation TEXT NOT NULL,\n"
     "  residual INTEGER NOT NULL, alignment INTEGER NOT NULL, b_packed INTEGER NOT NULL"},
    {"table", "range", "range",
     "CREATE TABLE range (\n"
     "  id INTEGER PRIMARY KEY, device_id INTEGER NOT NULL REFERENCES device(id),\n"
     "  shape TEXT NOT NULL, rest TEXT NOT NULL, size TEXT NOT NULL,\n"
     "  first INTEGER NOT NULL, last INTEGER NOT NULL,\n"
     "  policy TEXT NOT NULL, determinism TEXT NOT NULL,\n"
     "  hash TEXT NOT NULL, bytes INTEGER NOT NULL, data BLOB NOT NULL, "
     "created TEXT NOT NULL,\n"
     "  UNIQUE (device_id, rest, size, first, last, policy, determinism)) STRICT"},
    {"table", "search", "search",
     "CREATE TABLE search (\n"
     "  id INTEGER PRIMARY KEY,\n"
     "  device_id INTEGER NOT NULL REFERENCES device(id),\n"
     "  problem_id INTEGER NOT NULL REFERENCES problem(id),\n"
     "  policy TEXT NOT NULL, determinism TEXT NOT NULL,\n"
     "  toolchain_id INTEGER NOT NULL REFERENCES toolchain(id),\n"
     "  seconds REAL NOT NULL, budget_seconds REAL NOT NULL, spent_seconds REAL NOT NULL,\n"
     "  measured INTEGER NOT NULL, failed INTEGER NOT NULL, enumerated INTEGER NOT NULL,\n"
     "  whole_space INTEGER NOT NULL, interrupted INTEGER NOT NULL, created TEXT NOT NULL,\n"
     "  UNIQUE (device_id, problem_id, policy, determinism, toolchain_id)) STRICT"},
    {"table", "session", "session",
     "CREATE TABLE session (\n"
     "  id INTEGER PRIMARY KEY, started TEXT NOT NULL, command TEXT NOT NULL, "
     "kiln TEXT NOT NULL,\n"
     "  pid INTEGER NOT NULL, seed INTEGER NOT NULL, budget_seconds REAL NOT NULL) STRICT"},
    {"table", "source", "source",
     "CREATE TABLE source (\n"
     "  id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, bytes INTEGER NOT NULL,\n"
     "  data BLOB NOT NULL) STRICT"},
    {"table", "toolchain", "toolchain",
     "CREATE TABLE toolchain (\n"
     "  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE,\n"
     "  template_hash TEXT NOT NULL, compiler TEXT NOT NULL, runtime TEXT NOT NULL) STRICT"},
    {"table", "verification", "verification",
     "CREATE TABLE verification (\n"
     "  binary_key TEXT NOT NULL, problem_key TEXT NOT NULL, runtime TEXT NOT NULL,\n"
     "  created TEXT NOT NULL, PRIMARY KEY (binary_key, problem_key, runtime)) STRICT"},
};

/// What ANALYZE adds, which may have been run on a file: SQLite knows these tables by their names.
constexpr SchemaObject kStatistics[] = {
    {"table", "sqlite_stat1", "sqlite_stat1", "CREATE TABLE sqlite_stat1(tbl,idx,stat)"},
    {"table", "sqlite_stat4", "sqlite_stat4",
     "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)"},
};

bool is_statistics(const SchemaObject& object) {
  return std::ranges::find(kStatistics, object) != std::end(kStatistics);
}

std::string column_text(SQLite::Statement& row, int column) {
  return row.getColumn(column).isNull() ? "" : row.getColumn(column).getString();
}

std::string named(const SchemaObject& object) {
  return printable_line(fmt::format("{} {}", object.type, object.name));
}

}  // namespace

std::span<const SchemaObject> todays_schema() {
  static const auto* const all = [] {
    auto* const objects = new std::vector<SchemaObject>(std::begin(kTodays), std::end(kTodays));
    const auto problem = std::ranges::find_if(*objects, [](const SchemaObject& object) {
      return object.type == "table" && object.name == "problem";
    });
    static std::string* const sql = new std::string(problem->sql);
    for (const GemmField& field : kGemmFields)
      if (field.since > 1) *sql += fmt::format(", {}", column_text(field));
    problem->sql = *sql += ") STRICT";
    return objects;
  }();
  return *all;
}

FileSchema FileSchema::of(SQLite::Database& db) {
  FileSchema schema;
  SQLite::Statement row(db, "SELECT type, name, tbl_name, sql FROM main.sqlite_schema");
  while (row.executeStep()) {
    auto& texts = schema.texts_.emplace_back();
    for (int i = 0; i < 4; ++i) texts[static_cast<std::size_t>(i)] = column_text(row, i);
  }
  for (const auto& [type, name, table, sql] : schema.texts_)
    if (const SchemaObject object{type, name, table, sql}; !is_statistics(object))
      schema.objects_.push_back(object);
  std::ranges::sort(schema.objects_, std::less<>{},
                    [](const SchemaObject& x) { return std::tie(x.type, x.name, x.table, x.sql); });
  return schema;
}

std::string first_difference(std::span<const SchemaObject> found,
                             std::span<const SchemaObject> wanted) {
  for (const SchemaObject& object : found)
    if (std::ranges::find(wanted, object) == wanted.end())
      return fmt::format("{} is not kiln's", named(object));
  for (const SchemaObject& object : wanted)
    if (std::ranges::find(found, object) == found.end())
      return fmt::format("{} is missing", named(object));
  return found.size() == wanted.size() ? "" : "an object is there twice";
}

void bound_work(SQLite::Database& db, std::int64_t& left) {
  constexpr int kAtOnce = 10'000;
  const auto ended = [](void* data) -> int {
    auto& steps = *static_cast<std::int64_t*>(data);
    steps -= kAtOnce;
    return steps < 0 ? 1 : 0;
  };
  sqlite3_progress_handler(db.getHandle(), kAtOnce, ended, &left);
}

}  // namespace kiln
