#include "cache/layers/layer.h"

#include <SQLiteCpp/Exception.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "cache/layers/schema.h"
#include "cache/layers/trust.h"
#include "runtime/log.h"

namespace kiln {
namespace {

constexpr int kBusyMs = 5000;

Status cannot(std::string_view what, const std::filesystem::path& path, int error) {
  return fail(ErrorCode::database,
              fmt::format("database {}: cannot {}: {}", path.string(), what, std::strerror(error)));
}

bool on_network(const std::filesystem::path& file) {
  struct statfs fs {};
  return ::statfs(file.c_str(), &fs) == 0 && is_networked(static_cast<long>(fs.f_type));
}

/// Whether the file's header says so. Where a log lies beside a file, SQLite writes to the log
/// whatever the header says.
bool header_says_wal(SQLite::Database& db) {
  sqlite3_file* file = nullptr;
  constexpr int kReadVersionAt = 18;
  unsigned char version = 0;
  return sqlite3_file_control(db.getHandle(), "main", SQLITE_FCNTL_FILE_POINTER, &file) ==
             SQLITE_OK &&
         file->pMethods->xRead(file, &version, 1, kReadVersionAt) == SQLITE_OK && version == 2;
}

/// A log of nobody's beside a file without one: it is emptied into the file and goes. With it, the
/// next one to open the file would find an empty log, take the header's word, and wait for ever.
void drop_stray_log(SQLite::Database& db) {
  if (db.execAndGet("PRAGMA journal_mode").getString() != "wal" || header_says_wal(db)) return;
  // Busy: another one has the file open.
  sqlite3_exec(db.getHandle(), "PRAGMA journal_mode = DELETE", nullptr, nullptr, nullptr);
}

/// Changing the journal takes a lock that busy_timeout does not wait for: 1 of 320 concurrent first
/// opens got "database is locked".
void set_journal(SQLite::Database& db, const std::string& mode) {
  const auto current = [&] { return db.execAndGet("PRAGMA journal_mode").getString(); };
  constexpr int kTries = 50;
  for (int attempt = 1; current() != mode; ++attempt) {
    try {
      db.exec("PRAGMA journal_mode = " + mode);
      return;
    } catch (const SQLite::Exception& e) {
      const int code = e.getErrorCode();
      if ((code != SQLITE_BUSY && code != SQLITE_LOCKED) || attempt == kTries) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

/// The file is data, not code: no functions from its schema, no writes to its own structures.
void harden(SQLite::Database& db) {
  sqlite3_db_config(db.getHandle(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db.getHandle(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  db.exec("PRAGMA cell_size_check = ON");
}

std::unique_ptr<SQLite::Database> open_file(const std::string& name, int flags) {
  auto db = std::make_unique<SQLite::Database>(name, flags, kBusyMs);
  harden(*db);
  db->execAndGet("SELECT count(*) FROM sqlite_schema");  // the header is read only now
  return db;
}

std::string immutable_uri(const std::filesystem::path& file) {
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(file).string()) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) || std::strchr("/._-", c);
    uri += plain ? std::string(1, c) : fmt::format("%{:02x}", static_cast<unsigned char>(c));
  }
  return uri + "?immutable=1";
}

/// A WAL file on read-only media needs shared memory it cannot make: then read it as immutable.
/// In a shared folder only a log that is this user's is read; it keeps its name from others.
std::unique_ptr<SQLite::Database> open_read_only(const WalkedFile& walked) {
  const std::filesystem::path& file = walked.path;
  const bool own_log = walked.logs[0] != FileId{} && !walked.foreign_log;
  try {
    if (!walked.shared || own_log) return open_file(file.string(), SQLite::OPEN_READONLY);
  } catch (const SQLite::Exception& e) {
    const int code = e.getErrorCode();
    if (code != SQLITE_CANTOPEN && code != SQLITE_READONLY) throw;
  }
  return open_file(immutable_uri(file), SQLite::OPEN_READONLY | SQLite::OPEN_URI);
}

bool has_moved(SQLite::Database& db) {
  int moved = 0;
  sqlite3_file_control(db.getHandle(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  return moved != 0;
}

/// In a path that only root and this user can change, nobody else can have exchanged the file
/// between the walk and SQLite's open. The second walk proves that it stayed such a path, and that
/// the file which was walked to is the one which SQLite holds.
std::string distrust_opened(SQLite::Database& db, const WalkedFile& before) {
  if (!before.distrust.empty()) return before.distrust;
  const auto after = walk_to(before.path);
  if (!after) return after.error().message;
  if (!after->distrust.empty()) return after->distrust;
  if (before.shared && after->logs != before.logs)
    return fmt::format("{}: a log beside it changed while it was opened", before.path.string());
  if (after->id != before.id || has_moved(db) || !is_open_here(before.id))
    return fmt::format("{}: another file took its place while it was opened", before.path.string());
  return {};
}

void judge_trust(Layer& layer, const WalkedFile& before) {
  const std::string reason = distrust_opened(*layer.db, before);
  layer.trusted = reason.empty();
  if (!layer.trusted)
    log::warn("database {}: {}; its machine code is not loaded", layer.path.string(), reason);
}

/// Whether SQLite finds that the bytes are not a database, or not a whole one.
bool tells_damage(const SQLite::Exception& e) {
  const int code = e.getErrorCode() & 0xff;
  return code == SQLITE_NOTADB || code == SQLITE_CORRUPT;
}

enum class Schema { current, older_too };

/// `walked` is what SQLite opens: it was canonical when it was looked at.
Result<Layer> read_only_layer(const std::filesystem::path& file, const WalkedFile& walked,
                              Schema schema = Schema::current) {
  Layer layer{.path = file, .db = open_read_only(walked)};
  const auto version = read_version(*layer.db, file.string());
  if (!version) return tl::unexpected(version.error());
  if (!reads_as_today(*version) && (schema == Schema::current || *version == 0)) {
    return fail(ErrorCode::database,
                fmt::format("database {}: schema version {} is older than {} and the file is read "
                            "only; open it once where it can be written",
                            file.string(), *version, schema_version()));
  }
  if (reads_as_today(*version)) show_todays_columns(*layer.db, *version);
  judge_trust(layer, walked);
  return layer;
}

}  // namespace

bool is_networked(long magic) {
  constexpr unsigned kMagics[] = {
      0x6969,      // NFS
      0x517b,      // SMB
      0xff534d42,  // CIFS
      0xfe534d42,  // SMB 2
      0x5346414f,  // AFS
      0x73757245,  // Coda
      0x00c36400,  // Ceph
      0x0bd00bd0,  // Lustre
      0x47504653,  // GPFS
      0x19830326,  // BeeGFS
      0x7461636f,  // OCFS2
      0x01161970,  // GFS2
      0x20030528,  // OrangeFS
      0x01021997,  // 9p
      0x65735546,  // FUSE: sshfs, s3fs, … cannot be told from local ones
      0x786f4256,  // VirtualBox shared folders
  };
  return std::find(std::begin(kMagics), std::end(kMagics), static_cast<unsigned>(magic)) !=
         std::end(kMagics);
}

namespace {

/// Of a file in a shared folder: its logs stay when it is closed, so that nobody else can make
/// them, and a new file gets its first page without one.
void keep_logs(SQLite::Database& db) {
  int keep = 1;
  sqlite3_file_control(db.getHandle(), "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
  if (db.execAndGet("PRAGMA journal_mode").getString() == "delete")
    db.execAndGet("PRAGMA journal_mode = MEMORY");
}

/// The file, up to date. `damaged` as for open_own().
Result<Layer> writable_layer(const std::filesystem::path& file, const WalkedFile& walked,
                             bool& damaged) {
  Layer layer{.path = file,
              .db = open_file(walked.path.string(), SQLite::OPEN_READWRITE),
              .writable = true};
  // Looked at before anything is written: a newer or a stranger's file stays as it is.
  if (const auto version = read_version(*layer.db, file.string()); !version) {
    damaged = !is_newer(*layer.db);
    return tl::unexpected(version.error());
  }
  const bool networked = on_network(walked.path);
  if (walked.shared && !networked) keep_logs(*layer.db);
  drop_stray_log(*layer.db);
  set_journal(*layer.db, networked ? "delete" : "wal");
  layer.db->exec("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON");
  if (Status done = migrate(*layer.db, file.string()); !done) return tl::unexpected(done.error());
  return layer;
}

/// `file`, which `walked` is. `damaged` as for open_own().
Result<Layer> own_layer(const std::filesystem::path& file, WalkedFile walked, bool& damaged) {
  try {
    if (::access(walked.path.c_str(), W_OK) != 0) return read_only_layer(file, walked);
    const bool shared = walked.shared;
    // SQLite removes the log of a file that it makes: the second time it finds all of them.
    for (int time = 0; shared && time < 2; ++time) {
      if (Status claimed = claim_logs(walked); !claimed) return read_only_layer(file, walked);
      auto again = walk_to(walked.path);
      if (!again) return tl::unexpected(again.error());
      walked = std::move(*again);
      if (walked.foreign_log) return read_only_layer(file, walked);
      if (time > 0) break;
      if (auto made = writable_layer(file, walked, damaged); !made) return made;
    }
    auto layer = writable_layer(file, walked, damaged);
    if (!layer) return layer;
    // In a journal of mode "delete" the log's name is free after every write.
    if (shared && on_network(walked.path) && walked.distrust.empty())
      walked.distrust = walked.path.string() + ": in a folder of a network that others may write";
    judge_trust(*layer, walked);
    return layer;
  } catch (const SQLite::Exception& e) {
    damaged = tells_damage(e);
    throw;
  }
}

}  // namespace

Result<Layer> open_own(const std::filesystem::path& file, std::optional<FileId>* damaged) {
  std::optional<FileId> found;
  auto layer = guarded(file, [&]() -> Result<Layer> {
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) {
      if (Status made = make_folders_of(file); !made) return tl::unexpected(made.error());
      // Another process may make it at the same time.
      if (Status made = make_file(file); !made && !std::filesystem::exists(file, ignored))
        return tl::unexpected(made.error());
    }
    const auto walked = walk_to(file);
    if (!walked) return tl::unexpected(walked.error());
    if (::access(walked->path.c_str(), R_OK) != 0)
      return tl::unexpected(cannot("read", file, errno).error());
    bool is_damaged = false;
    try {
      auto opened = own_layer(file, *walked, is_damaged);
      if (is_damaged) found = walked->id;
      return opened;
    } catch (...) {
      if (is_damaged) found = walked->id;
      throw;
    }
  });
  if (!layer && found)
    layer.error().message +=
        ": it was left as it is; rename it, and kiln makes a new one in its place, or name another "
        "file";
  if (damaged != nullptr) *damaged = found;
  return layer;
}

Result<Layer> open_shipped(const std::filesystem::path& file) {
  return guarded(file, [&]() -> Result<Layer> {
    const auto walked = walk_to(file);
    if (!walked) return tl::unexpected(walked.error());
    return read_only_layer(file, *walked);
  });
}

Result<Layer> open_to_copy(const std::filesystem::path& file) {
  return guarded(file, [&]() -> Result<Layer> {
    const auto walked = walk_to(file);
    if (!walked) return tl::unexpected(walked.error());
    return read_only_layer(file, *walked, Schema::older_too);
  });
}

Result<Layer> open_copy(const std::filesystem::path& file) {
  return guarded(file, [&]() -> Result<Layer> {
    Layer layer{
        .path = file, .db = open_file(file.string(), SQLite::OPEN_READWRITE), .writable = true};
    layer.db->exec("PRAGMA foreign_keys = ON");
    return layer;
  });
}

Result<Layer> open_in_memory() {
  const std::filesystem::path name = ":memory:";
  return guarded(name, [&]() -> Result<Layer> {
    Layer layer{.path = name,
                .db = open_file(name, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE),
                .writable = true,
                .trusted = true};
    layer.db->exec("PRAGMA foreign_keys = ON");
    if (Status done = migrate(*layer.db, name); !done) return tl::unexpected(done.error());
    return layer;
  });
}

Result<Layer> open_scratch(const std::filesystem::path& path) {
  return guarded(path, [&]() -> Result<Layer> {
    return Layer{.path = path,
                 .db = open_file("", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE),
                 .writable = true};
  });
}

Status unmoved(const Layer& layer) {
  if (!has_moved(*layer.db)) return {};
  return fail(ErrorCode::database,
              fmt::format("database {}: the file was removed or replaced while open; what was "
                          "written since is lost",
                          layer.path.string()));
}

}  // namespace kiln
