// One open database file: how it is opened and journalled, and why it is not trusted. Knows file
// systems and SQLite; nothing of the rows.
#pragma once

#include <SQLiteCpp/Database.h>
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cache/layers/trust.h"
#include "cache/layers/winner_index.h"
#include "cache/printable.h"
#include "kiln/error.hpp"

namespace kiln {

struct Layer {
  std::filesystem::path path;  // ":memory:" for a private one
  std::unique_ptr<SQLite::Database> db;
  WinnerIndex winners = {};  // after db, so destroyed before it
  bool writable = false;
  bool trusted = false;  // machine code may be loaded from it
};

/// True for file systems that several machines share (or that may be: FUSE), where WAL's shared
/// memory breaks. `magic` is statfs's f_type.
bool is_networked(long magic);

/// The user's own file, made (with its folders) when absent; read only when it cannot be written.
/// Errors: database, naming the file (no regular file, …). `damaged`, where it is given, becomes
/// the file that is cut, damaged or another program's; one of a newer kiln is not.
Result<Layer> open_own(const std::filesystem::path& file, std::optional<FileId>* damaged = nullptr);
/// A shipped file, never written to, on read-only media too.
Result<Layer> open_shipped(const std::filesystem::path& file);
/// The same for a file that is only copied: also one of an older schema, for the copy to be
/// migrated.
Result<Layer> open_to_copy(const std::filesystem::path& file);
/// A private database that ends with the process.
Result<Layer> open_in_memory();
/// An empty one in a temporary file without a name, in $SQLITE_TMPDIR, $TMPDIR or /var/tmp; for
/// what may not fit into memory. `path` is whose contents it will hold, for messages.
Result<Layer> open_scratch(const std::filesystem::path& path);
/// A file that this process has just made and no other process knows. Not trusted.
Result<Layer> open_copy(const std::filesystem::path& file);

/// Whether the layer's path still names the file that is open: SQLite keeps writing to one that
/// was removed. Errors: database, naming the file.
Status unmoved(const Layer& layer);

/// Runs `body`, turning what SQLite throws into an Error that names the file.
template <typename F>
auto guarded(const std::filesystem::path& file, F&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& e) {  // its words may quote the file
    return fail(ErrorCode::database,
                fmt::format("database {}: {}", file.string(), printable(e.what())));
  }
}

}  // namespace kiln
