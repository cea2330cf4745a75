#include "cache/layers/code_by_tokens.h"

#include <SQLiteCpp/Statement.h>

#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cache/rows/rows.h"
#include "generator/render/code_key.h"
#include "runtime/compiler.h"

namespace kiln {
namespace {

struct OldBinary {
  std::int64_t id = 0;
  std::string key, compiler, image_hash, text;
};

std::vector<OldBinary> old_binaries(SQLite::Database& db) {
  std::vector<OldBinary> all;
  SQLite::Statement row(db,
                        "SELECT id, key, compiler, hash, source_id FROM binary "
                        "WHERE source_id IS NOT NULL ORDER BY id");
  constexpr std::size_t kMostText = std::size_t{1} << 30;  // all of it lies in memory at a time
  for (std::size_t bytes = 0; bytes <= kMostText && row.executeStep();) {
    auto text = read_source(db, row.getColumn(4).getInt64());
    if (!text) continue;  // damaged: `db check` names it
    bytes += text->size();
    all.push_back({.id = row.getColumn(0).getInt64(),
                   .key = row.getColumn(1).getString(),
                   .compiler = row.getColumn(2).getString(),
                   .image_hash = row.getColumn(3).getString(),
                   .text = std::move(*text)});
  }
  return all;
}

/// The flags of "// compile: nvcc -cubin FLAGS -o kernel.cubin FILE" at a text's head: what stands
/// between the words that are the same for every kernel.
std::optional<std::vector<std::string>> flags_in_head(const std::string& text) {
  constexpr std::string_view kLine = "// compile: ";
  const auto at = text.find(kLine);
  if (at == text.npos) return std::nullopt;
  std::istringstream words(text.substr(at + kLine.size(), text.find('\n', at) - at - kLine.size()));
  std::vector<std::string> all, flags;
  for (std::string word; words >> word;) all.push_back(word);
  const auto known = [](std::string_view word) {
    for (const std::string_view other :
         {"nvcc", "clang++", "-cubin", "-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output",
          "-nogpuinc", "-nogpulib", "-shared", "-fPIC"})
      if (word == other) return true;
    return false;
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == "-o") {
      ++i;  // and its file
    } else if (!known(all[i]) && !all[i].starts_with("kiln_")) {
      flags.push_back(all[i]);
    }
  }
  return flags;
}

void rename(SQLite::Database& db, const char* update, const std::string& from,
            const std::string& to) {
  SQLite::Statement row(db, update);
  row.bind(1, to);
  row.bind(2, from);
  row.exec();
}

/// The image of the binary that has this key already, if any.
std::optional<std::string> image_of(SQLite::Database& db, const std::string& key) {
  SQLite::Statement row(db, "SELECT hash FROM binary WHERE key = ?");
  row.bind(1, key);
  if (!row.executeStep()) return std::nullopt;
  return row.getColumn(0).getString();
}

void know_by_tokens(SQLite::Database& db, const OldBinary& old) {
  const auto flags = flags_in_head(old.text);
  if (!flags) return;
  const std::string code = code_key(old.text, *flags);
  const std::string key = binary_key(code, old.compiler);
  if (const auto image = image_of(db, key); image && *image != old.image_hash)
    return;  // two images of the same tokens: each record keeps the one it was verified with
  else if (image) {
    SQLite::Statement drop(db, "DELETE FROM binary WHERE id = ?");
    drop.bind(1, old.id);
    drop.exec();
  } else {
    SQLite::Statement update(db,
                             "UPDATE binary SET key = ?, code_key = ?, source_id = ? WHERE id = ?");
    update.bind(1, key);
    update.bind(2, code);
    update.bind(3, source_row(db, std::string(without_head(old.text))));
    update.bind(4, old.id);
    update.exec();
  }
  rename(db, "UPDATE measurement SET binary_key = ? WHERE binary_key = ?", old.key, key);
  rename(db, "UPDATE OR IGNORE verification SET binary_key = ? WHERE binary_key = ?", old.key, key);
}

}  // namespace

void know_code_by_tokens(SQLite::Database& db) {
  for (const OldBinary& old : old_binaries(db)) know_by_tokens(db, old);
  db.exec("DELETE FROM binary_data WHERE id NOT IN (SELECT id FROM binary)");
  db.exec(
      "DELETE FROM source WHERE id NOT IN "
      "(SELECT source_id FROM binary WHERE source_id IS NOT NULL)");
}

}  // namespace kiln
