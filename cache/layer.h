// One open database file: how it is opened, journalled and trusted. Knows file systems and SQLite;
// nothing of the rows.
#pragma once

#include <SQLiteCpp/Database.h>

#include <filesystem>
#include <memory>
#include <string>

#include "kiln/error.hpp"

namespace kiln {

struct Layer {
  std::filesystem::path path;  // ":memory:" for a private one
  std::unique_ptr<SQLite::Database> db;
  bool writable = false;
  bool trusted = false;  // machine code may be loaded from it
};

/// True for file systems that several machines share (or that may be: FUSE), where WAL's shared
/// memory breaks. `magic` is statfs's f_type.
bool is_networked(long magic);

/// Empty when only root or this user can have written the file; else why not.
std::string distrust(const std::filesystem::path& file);

/// The user's own file, made (with its folders) when absent; read only when it cannot be written.
/// Errors: database, naming the file.
Result<Layer> open_own(const std::filesystem::path& file);
/// A shipped file, never written to, on read-only media too.
Result<Layer> open_shipped(const std::filesystem::path& file);
/// A private database that ends with the process.
Result<Layer> open_in_memory();

/// Runs `body`, turning what SQLite throws into an Error that names the file.
template <typename F>
auto guarded(const std::filesystem::path& file, F&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& e) {
    return fail(ErrorCode::database, "database " + file.string() + ": " + e.what());
  }
}

}  // namespace kiln
