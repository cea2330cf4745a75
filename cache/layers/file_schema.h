// What SQLite says of a file's tables, indexes, views and triggers, compared with what kiln writes.
// A file is data: a view in a table's place, or a trigger, would be code of whoever made the file.
// Their names and types may lie, so everything is compared, word for word.
#pragma once

#include <SQLiteCpp/Database.h>

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// A row of sqlite_schema.
struct SchemaObject {
  std::string_view type, name, table, sql;  // sql is empty for indexes that SQLite makes itself
  bool operator==(const SchemaObject&) const = default;
};

class FileSchema {
 public:
  FileSchema(FileSchema&&) = default;  // a copy's objects would show the texts of this one
  FileSchema& operator=(FileSchema&&) = default;
  /// All but the tables of ANALYZE. Throws what SQLite throws.
  static FileSchema of(SQLite::Database& db);
  /// Ordered by type and name; they live as long as this.
  std::span<const SchemaObject> objects() const { return objects_; }

 private:
  FileSchema() = default;
  std::deque<std::array<std::string, 4>> texts_;
  std::vector<SchemaObject> objects_;
};

/// That of a database of schema_version(), which the steps of cache/layers/schema.cpp make in 10
/// ms.
std::span<const SchemaObject> todays_schema();

/// Which object is not as it is wanted, for messages: "trigger evil is not kiln's". Empty: none.
std::string first_difference(std::span<const SchemaObject> found,
                             std::span<const SchemaObject> wanted);

/// From now on each 10,000 instructions of SQLite's machine are taken from `left`; below 0 a
/// statement ends with an exception ("interrupted"). `left` outlives the connection.
void bound_work(SQLite::Database& db, std::int64_t& left);

}  // namespace kiln
