#include "soak/mutate_rows.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "cache/layers/schema.h"
#include "soak/soak.h"

namespace kiln::soak {
namespace {

using Names = std::vector<std::string>;

Names names(SQLite::Database& db, const std::string& query) {
  SQLite::Statement row(db, query);
  Names all;
  while (row.executeStep()) all.push_back(row.getColumn(0).getString());
  return all;
}

Names columns_of(SQLite::Database& db, const std::string& table) {
  return names(db, fmt::format("SELECT name FROM pragma_table_info('{}')", table));
}

/// Of a drawn table with at least `least` rows. The table is left empty where there is none.
struct Place {
  std::string table;
  Names columns;
  std::vector<std::string> rows;  // rowids
};

Place draw_place(SQLite::Database& db, Random& random, std::size_t least) {
  Names tables =
      names(db, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'");
  while (!tables.empty()) {
    const std::size_t at = below(random, tables.size());
    Place place{tables[at], columns_of(db, tables[at]), {}};
    place.rows = names(db, fmt::format("SELECT rowid FROM {}", place.table));
    if (place.rows.size() >= least) return place;
    tables.erase(tables.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return {};
}

/// An SQL expression of a value that nobody expects in `column`.
std::string hostile(const Place& place, const std::string& column, Random& random) {
  static constexpr const char* kValues[] = {"NULL",
                                            "0",
                                            "1",
                                            "-1",
                                            "2147483648",
                                            "9223372036854775807",
                                            "-9223372036854775808",
                                            "1e308",
                                            "-1e308",
                                            "9e999",
                                            "1e-320",
                                            "0.5",
                                            "''",
                                            "'nan'",
                                            "'0'",
                                            "'none'",
                                            "'fp32'",
                                            "'cpu'",
                                            "CAST(x'fffe80c0' AS TEXT)",
                                            "CAST(x'00' AS TEXT)",
                                            "'%s%n%n'",
                                            "'../../../etc/passwd'",
                                            "x''",
                                            "zeroblob(10)",
                                            "zeroblob(2000000)",
                                            "randomblob(64)",
                                            "replace(hex(zeroblob(40000)), '00', 'long ')"};
  const std::string other = any_of(random, place.rows);
  switch (random.below(8)) {
    case 0:
      return fmt::format("{} + 1", column);
    case 1:
      return fmt::format("-{}", column);
    case 2:  // one character or byte of it
      return fmt::format("CAST(substr({0}, 1, {1}) || 'x' || substr({0}, {1} + 2) AS TEXT)", column,
                         random.below(40));
    case 3:
      return fmt::format("CAST(substr({0}, 1, {1}) || x'{2:02x}' || substr({0}, {1} + 2) AS BLOB)",
                         column, random.below(2000), random.below(256));
    case 4:
      return fmt::format("(SELECT {} FROM {} WHERE rowid = {})", column, place.table, other);
    case 5:
      return any_of(random, place.columns);
    default:
      return any_of(random, kValues);
  }
}

std::string set_value(SQLite::Database& db, Random& random) {
  const Place place = draw_place(db, random, 1);
  if (place.table.empty()) return "no rows";
  const std::string column = any_of(random, place.columns);
  const std::string value = hostile(place, column, random);
  const bool all = one_in(random, 6);
  const std::string row = any_of(random, place.rows);
  const std::string where = all ? "" : fmt::format(" WHERE rowid = {}", row);
  db.exec(fmt::format("UPDATE OR REPLACE {} SET {} = {}{}", place.table, column, value, where));
  return fmt::format("{}.{} = {}{}", place.table, column, value, where);
}

/// Some columns of two rows exchanged: one, several, or all but one. Unique columns pass through a
/// third value.
std::string exchange(SQLite::Database& db, Random& random) {
  const Place place = draw_place(db, random, 2);
  if (place.table.empty()) return "no two rows";
  Names chosen = place.columns;
  const std::size_t shape = below(random, 3);
  while (chosen.size() > 1 && (shape == 0 || (shape == 1 && one_in(random, 2))))
    chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(below(random, chosen.size())));
  if (shape == 2 && chosen.size() > 1)
    chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(below(random, chosen.size())));
  std::erase(chosen, "id");  // to exchange it is to exchange all others
  if (chosen.empty()) return "no column";
  const std::string one = any_of(random, place.rows), other = any_of(random, place.rows);
  db.exec(
      fmt::format("CREATE TEMP TABLE kept AS SELECT rowid AS kept_row, * FROM {} WHERE rowid "
                  "IN ({}, {})",
                  place.table, one, other));
  const auto put = [&](const std::string& into, const std::string& from) {
    for (const std::string& column : chosen)
      db.exec(
          fmt::format("UPDATE {0} SET {1} = (SELECT {1} FROM kept WHERE kept_row = {2}) WHERE "
                      "rowid = {3}",
                      place.table, column, from, into));
  };
  // A unique column refuses a value that the other row still has.
  const Names unique =
      names(db, fmt::format("SELECT DISTINCT i.name FROM pragma_index_list('{}') l, "
                            "pragma_index_info(l.name) i WHERE l.\"unique\"",
                            place.table));
  for (const std::string& column : chosen)
    if (std::count(unique.begin(), unique.end(), column) != 0)
      db.exec(fmt::format("UPDATE {} SET {} = -rowid - 1000000 WHERE rowid = {}", place.table,
                          column, other));
  put(one, other);
  put(other, one);
  return fmt::format("{}: {} of rows {} and {} exchanged", place.table, fmt::join(chosen, ", "),
                     one, other);
}

std::string change_count(SQLite::Database& db, Random& random) {
  const Place place = draw_place(db, random, 1);
  if (place.table.empty()) return "no rows";
  const std::string row = any_of(random, place.rows);
  switch (random.below(3)) {
    case 0:
      db.exec(fmt::format("DELETE FROM {} WHERE rowid = {}", place.table, row));
      return fmt::format("{} row {} deleted", place.table, row);
    case 1:
      db.exec(fmt::format("DELETE FROM {}", place.table));
      return place.table + " emptied";
    default:
      db.exec(fmt::format("UPDATE {} SET rowid = rowid + 1000 WHERE rowid = {}", place.table, row));
      return fmt::format("{} row {} renumbered", place.table, row);
  }
}

/// Tables that are no longer strict take values of any type.
std::string change_type(SQLite::Database& db, Random& random) {
  db.exec("PRAGMA writable_schema = ON");
  db.exec("UPDATE sqlite_schema SET sql = replace(replace(sql, ' STRICT', ''), 'NOT NULL', '')");
  db.exec("PRAGMA writable_schema = RESET");
  return "not strict; " + set_value(db, random);
}

std::string change_schema(SQLite::Database& db, Random& random) {
  const Place place = draw_place(db, random, 0);
  if (place.table.empty()) return "no table";
  const std::string column = any_of(random, place.columns);
  const std::string statements[] = {
      fmt::format("DROP TABLE {}", place.table),
      fmt::format("ALTER TABLE {} RENAME COLUMN {} TO other", place.table, column),
      fmt::format("ALTER TABLE {} RENAME TO other", place.table),
      fmt::format("ALTER TABLE {} ADD COLUMN other TEXT", place.table),
      fmt::format("ALTER TABLE {} DROP COLUMN {}", place.table, column),
      fmt::format("CREATE VIEW other AS SELECT * FROM {}", place.table),
      fmt::format("CREATE TRIGGER other AFTER UPDATE ON {0} BEGIN DELETE FROM {0}; END",
                  place.table),
      fmt::format("PRAGMA user_version = {}", random.below(schema_version() + 4) - 2),
      fmt::format("PRAGMA application_id = {}", random.below(12) - 2),
      "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET name = CAST(x'fffe' AS TEXT) WHERE "
      "rowid = " +
          std::to_string(1 + random.below(12)),
      "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = CAST(x'fffe' AS TEXT) WHERE "
      "rowid = " +
          std::to_string(1 + random.below(12)),
      "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = " +
          std::to_string(random.below(30)) +
          " WHERE rowid = " + std::to_string(1 + random.below(12))};
  const std::string& statement = any_of(random, statements);
  db.exec(statement);
  return statement;
}

std::string change_open(SQLite::Database& db, Random& random) {
  db.exec("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON");
  switch (random.below(12)) {
    case 0:
      return change_schema(db, random);
    case 1:
      return change_count(db, random);
    case 2:
      return change_type(db, random);
    case 3:
    case 4:
    case 5:
    case 6:
      return exchange(db, random);
    default:
      return set_value(db, random);
  }
}

}  // namespace

std::string change_rows(const std::filesystem::path& path, Random& random) {
  try {
    SQLite::Database db(path.string(), SQLite::OPEN_READWRITE, 1000);
    return change_open(db, random);
  } catch (const SQLite::Exception& e) {
    return fmt::format("SQLite refused: {}", e.what());
  }
}

}  // namespace kiln::soak
