#include "cache/layer.h"

#include <SQLiteCpp/Exception.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "cache/schema.h"

namespace kiln {
namespace {

constexpr int kBusyMs = 5000;

Status cannot(std::string_view what, const std::filesystem::path& path, int error) {
  return fail(ErrorCode::database,
              fmt::format("database {}: cannot {}: {}", path.string(), what, std::strerror(error)));
}

/// Makes an empty file that only its owner may write, whatever the umask: machine code will be
/// loaded from it.
Status create(const std::filesystem::path& file) {
  std::error_code error;
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), error);
  if (error) return cannot("create its folder", file, error.value());
  const int fd = ::open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  if (fd < 0) return cannot("create", file, errno);
  ::close(fd);
  return {};
}

bool on_network(const std::filesystem::path& file) {
  struct statfs fs {};
  return ::statfs(file.c_str(), &fs) == 0 && is_networked(static_cast<long>(fs.f_type));
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
std::unique_ptr<SQLite::Database> open_read_only(const std::filesystem::path& file) {
  try {
    return open_file(file.string(), SQLite::OPEN_READONLY);
  } catch (const SQLite::Exception& e) {
    const int code = e.getErrorCode();
    if (code != SQLITE_CANTOPEN && code != SQLITE_READONLY) throw;
  }
  return open_file(immutable_uri(file), SQLite::OPEN_READONLY | SQLite::OPEN_URI);
}

Result<Layer> read_only_layer(const std::filesystem::path& file) {
  Layer layer{.path = file, .db = open_read_only(file)};
  const auto version = read_version(*layer.db, file.string());
  if (!version) return tl::unexpected(version.error());
  if (*version != schema_version()) {
    return fail(ErrorCode::database,
                fmt::format("database {}: schema version {} is older than {} and the file is read "
                            "only; open it once where it can be written",
                            file.string(), *version, schema_version()));
  }
  return layer;
}

void judge_trust(Layer& layer) {
  const std::string reason = distrust(layer.path);
  layer.trusted = reason.empty();
  if (!layer.trusted)
    spdlog::warn("database {}: {}; its machine code is not loaded", layer.path.string(), reason);
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

std::string distrust(const std::filesystem::path& named) {
  // SQLite replays the logs that lie beside a file, whoever put them there; beside the file itself,
  // not beside a link to it.
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(named, error);
  if (error) return fmt::format("no owner of {}: {}", named.string(), error.message());
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    const std::string part = file.string() + suffix;
    struct stat info {};
    if (::stat(part.c_str(), &info) != 0) {
      if (*suffix != '\0' && errno == ENOENT) continue;
      return fmt::format("no owner of {}: {}", part, std::strerror(errno));
    }
    if (info.st_uid != ::geteuid() && info.st_uid != 0)
      return fmt::format("{}: owner = uid {}, neither this user nor root", part, info.st_uid);
    if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
      return fmt::format("{}: mode = {:04o}: others may write it", part, info.st_mode & 07777);
  }
  return {};
}

Result<Layer> open_own(const std::filesystem::path& file) {
  return guarded(file, [&]() -> Result<Layer> {
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) {
      if (Status made = create(file); !made) return tl::unexpected(made.error());
    }
    if (::access(file.c_str(), R_OK) != 0)
      return tl::unexpected(cannot("read", file, errno).error());
    if (::access(file.c_str(), W_OK) != 0) {
      auto layer = read_only_layer(file);
      if (layer) judge_trust(*layer);
      return layer;
    }
    Layer layer{
        .path = file, .db = open_file(file.string(), SQLite::OPEN_READWRITE), .writable = true};
    // Looked at before anything is written: a newer or a stranger's file stays as it is.
    if (const auto version = read_version(*layer.db, file.string()); !version)
      return tl::unexpected(version.error());
    set_journal(*layer.db, on_network(file) ? "delete" : "wal");
    layer.db->exec("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON");
    if (Status done = migrate(*layer.db, file.string()); !done) return tl::unexpected(done.error());
    judge_trust(layer);
    return layer;
  });
}

Result<Layer> open_shipped(const std::filesystem::path& file) {
  return guarded(file, [&]() -> Result<Layer> {
    auto layer = read_only_layer(file);
    if (layer) judge_trust(*layer);
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

}  // namespace kiln
