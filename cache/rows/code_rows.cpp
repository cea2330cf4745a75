// Rows of code and of the text that it was made of.
#include <sqlite3.h>

#include "cache/codec/codec.h"
#include "cache/printable.h"
#include "cache/rows/rows.h"
#include "cache/rows/seal.h"
#include "generator/render/code_key.h"

namespace kiln {

std::optional<std::string> read_source(SQLite::Database& db, std::int64_t id) {
  SQLite::Statement row(db, "SELECT hash, bytes, data FROM source WHERE id = ?");
  row.bind(1, id);
  if (!row.executeStep()) return std::nullopt;
  const auto text = decompress(blob(row.getColumn(2)), row.getColumn(1).getInt64(), kMaxTextBytes);
  if (!text || content_hash(*text) != row.getColumn(0).getString()) return std::nullopt;
  return printable(as_text(*text));
}

std::int64_t source_row(SQLite::Database& db, const std::string& text) {
  if (text.empty()) return 0;
  const std::string hash = content_hash(text);
  SQLite::Statement find(db, "SELECT id FROM source WHERE hash = ?");
  find.bind(1, hash);
  const bool there = find.executeStep();
  const std::int64_t id = there ? find.getColumn(0).getInt64() : 0;
  if (there && read_source(db, id)) return id;
  // Damaged where it is there: left so, it would spoil every code that is made of this text.
  SQLite::Statement write(db, there ? "UPDATE source SET hash = ?, bytes = ?, data = ? WHERE id = ?"
                                    : "INSERT INTO source (hash, bytes, data) VALUES (?, ?, ?)");
  const auto data = compress(as_blob(text), Content::source);
  write.bind(1, hash);
  write.bind(2, static_cast<std::int64_t>(text.size()));
  write.bindNoCopy(3, data.data(), static_cast<int>(data.size()));
  if (there) write.bind(4, id);
  write.exec();
  return there ? id : db.getLastInsertRowid();
}

void put_binary_row(SQLite::Database& db, const StoredBinary& binary) {
  SQLite::Statement old(db, "SELECT id, quarantined IS NULL FROM binary WHERE key = ?");
  old.bind(1, binary.key);
  if (old.executeStep()) {
    if (old.getColumn(1).getInt() == 1) return;
    SQLite::Statement drop(db, "DELETE FROM binary WHERE id = ?");
    drop.bind(1, old.getColumn(0).getInt64());
    old.reset();
    drop.exec();
  }
  const auto data = compress(binary.image, content_of(binary.image));
  const std::int64_t source = source_row(db, std::string(without_head(binary.source)));
  SQLite::Statement row(db, R"sql(
    INSERT INTO binary (key, code_key, compiler, source_id, hash, bytes, created)
    VALUES (?, ?, ?, ?, ?, ?, strftime('%Y-%m-%dT%H:%M:%SZ', 'now')))sql");
  row.bind(1, binary.key);
  row.bind(2, binary.code_key);
  row.bind(3, binary.compiler);
  if (source != 0) row.bind(4, source);
  row.bind(5, content_hash(binary.image));
  row.bind(6, static_cast<std::int64_t>(binary.image.size()));
  row.exec();
  const std::int64_t id = db.getLastInsertRowid();
  SQLite::Statement bytes(db, "INSERT INTO binary_data (id, data) VALUES (?, ?)");
  bytes.bind(1, id);
  bytes.bindNoCopy(2, data.data(), static_cast<int>(data.size()));
  bytes.exec();
  seal_binary(db, id);
}

std::optional<StoredBinary> read_binary(SQLite::Database& db, std::int64_t id) {
  SQLite::Statement row(db, R"sql(
    SELECT key, code_key, compiler, source_id, hash, bytes, data
    FROM binary JOIN binary_data USING (id) WHERE id = ?)sql");
  row.bind(1, id);
  if (!row.executeStep()) return std::nullopt;
  auto image = decompress(blob(row.getColumn(6)), row.getColumn(5).getInt64());
  if (!image || !binary_sealed(db, id) || content_hash(*image) != row.getColumn(4).getString())
    return std::nullopt;
  StoredBinary binary{.key = row.getColumn(0).getString(),
                      .code_key = row.getColumn(1).getString(),
                      .compiler = row.getColumn(2).getString(),
                      .image = std::move(*image)};
  if (!row.getColumn(3).isNull()) {
    auto source = read_source(db, row.getColumn(3).getInt64());
    if (!source) return std::nullopt;
    binary.source = std::move(*source);
  }
  return binary;
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

}  // namespace kiln
